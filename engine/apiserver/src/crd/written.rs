//! Definitions as the real server shows them inside messages: the JSON of its internal Go structs, with
//! every field in the order of the struct.

use std::fmt::Write;

use serde_json::Value;

use super::{list, map, part};

/// What a field of the internal schema is when it is not given, and how it is written when it is.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Flag,
    /// A pointer, or a list or map of plain values.
    Plain,
    Schema,
    Schemas,
    SchemaMap,
    SchemaOrList,
    SchemaOrFlag,
    SchemaOrStrings,
    Docs,
    Rules,
}

const FIELDS: &[(&str, &str, Kind)] = &[
    ("ID", "id", Kind::Text),
    ("Schema", "$schema", Kind::Text),
    ("Ref", "$ref", Kind::Plain),
    ("Description", "description", Kind::Text),
    ("Type", "type", Kind::Text),
    ("Nullable", "nullable", Kind::Flag),
    ("Format", "format", Kind::Text),
    ("Title", "title", Kind::Text),
    ("Default", "default", Kind::Plain),
    ("Maximum", "maximum", Kind::Plain),
    ("ExclusiveMaximum", "exclusiveMaximum", Kind::Flag),
    ("Minimum", "minimum", Kind::Plain),
    ("ExclusiveMinimum", "exclusiveMinimum", Kind::Flag),
    ("MaxLength", "maxLength", Kind::Plain),
    ("MinLength", "minLength", Kind::Plain),
    ("Pattern", "pattern", Kind::Text),
    ("MaxItems", "maxItems", Kind::Plain),
    ("MinItems", "minItems", Kind::Plain),
    ("UniqueItems", "uniqueItems", Kind::Flag),
    ("MultipleOf", "multipleOf", Kind::Plain),
    ("Enum", "enum", Kind::Plain),
    ("MaxProperties", "maxProperties", Kind::Plain),
    ("MinProperties", "minProperties", Kind::Plain),
    ("Required", "required", Kind::Plain),
    ("Items", "items", Kind::SchemaOrList),
    ("AllOf", "allOf", Kind::Schemas),
    ("OneOf", "oneOf", Kind::Schemas),
    ("AnyOf", "anyOf", Kind::Schemas),
    ("Not", "not", Kind::Schema),
    ("Properties", "properties", Kind::SchemaMap),
    ("AdditionalProperties", "additionalProperties", Kind::SchemaOrFlag),
    ("PatternProperties", "patternProperties", Kind::SchemaMap),
    ("Dependencies", "dependencies", Kind::SchemaOrStrings),
    ("AdditionalItems", "additionalItems", Kind::SchemaOrFlag),
    ("Definitions", "definitions", Kind::SchemaMap),
    ("ExternalDocs", "externalDocs", Kind::Docs),
    ("Example", "example", Kind::Plain),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Kind::Plain),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Kind::Flag),
    ("XIntOrString", "x-kubernetes-int-or-string", Kind::Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Kind::Plain),
    ("XListType", "x-kubernetes-list-type", Kind::Plain),
    ("XMapType", "x-kubernetes-map-type", Kind::Plain),
    ("XValidations", "x-kubernetes-validations", Kind::Rules),
];

/// The Go names of the fields that a schema sets.
pub(super) fn set_fields(schema: &Value) -> impl Iterator<Item = &'static str> {
    FIELDS.iter().filter(|(_, key, _)| part(schema, key).is_some()).map(|(name, ..)| *name)
}

/// A schema as messages show it.
pub(super) fn schema(schema: &Value) -> String {
    let mut out = String::from("{");
    for (at, (name, key, kind)) in FIELDS.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let shown = match part(schema, key) {
            Some(value) => field(value, *kind),
            None => match kind {
                Kind::Text => "\"\"".to_owned(),
                Kind::Flag => "false".to_owned(),
                _ => "null".to_owned(),
            },
        };
        // Writing to a string cannot fail.
        let _ = write!(out, "{comma}\"{name}\":{shown}");
    }
    out.push('}');
    out
}

/// Versions whose schemas, subresources and columns are given apart, or shared by all and shown nowhere.
pub(super) fn versions(versions: &[super::validate::VersionParts<'_>]) -> String {
    let shown: Vec<String> = versions
        .iter()
        .map(|parts| {
            let version = parts.version;
            let validation = parts.validation.map_or_else(|| "null".to_owned(), |validation| {
                let inner = part(validation, "openAPIV3Schema").map_or_else(|| "null".to_owned(), schema);
                format!("{{\"OpenAPIV3Schema\":{inner}}}")
            });
            let columns = match list_of(parts.columns) {
                [] => "null".to_owned(),
                columns => format!("[{}]", columns.iter().map(column).collect::<Vec<_>>().join(",")),
            };
            let fields = match list_of(parts.selectable) {
                [] => "null".to_owned(),
                fields => {
                    let paths = fields.iter().map(|field| format!("{{\"JSONPath\":{}}}", field["jsonPath"]));
                    format!("[{}]", paths.collect::<Vec<_>>().join(","))
                }
            };
            format!(
                "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":{validation},\"Subresources\":{},\"AdditionalPrinterColumns\":{columns},\"SelectableFields\":{fields}}}",
                quoted(super::text(version, "name")),
                super::flag(version, "served"),
                super::flag(version, "storage"),
                super::flag(version, "deprecated"),
                version.get("deprecationWarning").unwrap_or(&Value::Null),
                parts.subresources.map_or_else(|| "null".to_owned(), subresources),
            )
        })
        .collect();
    format!("[{}]", shown.join(","))
}

fn list_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn field(value: &Value, kind: Kind) -> String {
    let each = |items: &[Value]| format!("[{}]", items.iter().map(schema).collect::<Vec<_>>().join(","));
    match kind {
        Kind::Text | Kind::Flag | Kind::Plain => value.to_string(),
        Kind::Schema => schema(value),
        Kind::Schemas => value.as_array().map_or_else(|| "null".to_owned(), |items| each(items)),
        Kind::SchemaMap => entries(value, schema),
        Kind::SchemaOrList => match value.as_array() {
            Some(items) => format!("{{\"Schema\":null,\"JSONSchemas\":{}}}", each(items)),
            None => format!("{{\"Schema\":{},\"JSONSchemas\":null}}", schema(value)),
        },
        Kind::SchemaOrFlag => match value.as_bool() {
            Some(allows) => format!("{{\"Allows\":{allows},\"Schema\":null}}"),
            None => format!("{{\"Allows\":true,\"Schema\":{}}}", schema(value)),
        },
        Kind::SchemaOrStrings => entries(value, |value| match value.as_array() {
            Some(_) => format!("{{\"Schema\":null,\"Property\":{value}}}"),
            None => format!("{{\"Schema\":{},\"Property\":null}}", schema(value)),
        }),
        Kind::Docs => format!(
            "{{\"Description\":{},\"URL\":{}}}",
            quoted(super::text(value, "description")),
            quoted(super::text(value, "url"))
        ),
        Kind::Rules => {
            let rules = value.as_array().into_iter().flatten().map(rule).collect::<Vec<_>>();
            format!("[{}]", rules.join(","))
        }
    }
}

fn entries(value: &Value, write: impl Fn(&Value) -> String) -> String {
    let entries = value.as_object().into_iter().flatten();
    let shown: Vec<String> =
        entries.map(|(key, value)| format!("{}:{}", quoted(key), write(value))).collect();
    format!("{{{}}}", shown.join(","))
}

fn rule(rule: &Value) -> String {
    let text = |key: &str| quoted(super::text(rule, key));
    let pointer = |key: &str| rule.get(key).unwrap_or(&Value::Null).to_string();
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        pointer("reason"),
        text("fieldPath"),
        pointer("optionalOldSelf"),
    )
}

fn subresources(value: &Value) -> String {
    let status = if part(value, "status").is_some() { "{}" } else { "null" };
    let scale = part(value, "scale").map_or_else(
        || "null".to_owned(),
        |scale| {
            format!(
                "{{\"SpecReplicasPath\":{},\"StatusReplicasPath\":{},\"LabelSelectorPath\":{}}}",
                quoted(super::text(scale, "specReplicasPath")),
                quoted(super::text(scale, "statusReplicasPath")),
                scale.get("labelSelectorPath").unwrap_or(&Value::Null),
            )
        },
    );
    format!("{{\"Status\":{status},\"Scale\":{scale}}}")
}

fn column(column: &Value) -> String {
    let text = |key: &str| quoted(super::text(column, key));
    format!(
        "{{\"Name\":{},\"Type\":{},\"Format\":{},\"Description\":{},\"Priority\":{},\"JSONPath\":{}}}",
        text("name"),
        text("type"),
        text("format"),
        text("description"),
        column["priority"].as_i64().unwrap_or_default(),
        text("jsonPath"),
    )
}

/// Whether a schema or any below it, nested ones included, satisfies a condition.
pub(super) fn any_schema(schema: &Value, holds: &mut dyn FnMut(&Value) -> bool) -> bool {
    if holds(schema) {
        return true;
    }
    let one = |key: &str| part(schema, key).filter(|part| part.is_object());
    let singles = ["items", "not", "additionalProperties", "additionalItems"].into_iter().filter_map(one);
    let lists = ["allOf", "anyOf", "oneOf", "items"].into_iter().flat_map(|key| list(schema, key));
    let maps = ["properties", "patternProperties", "definitions"].into_iter();
    let maps = maps.flat_map(|key| map(schema, key).map(|(_, below)| below));
    let below: Vec<&Value> = singles.chain(lists).chain(maps).collect();
    below.into_iter().any(|below| any_schema(below, holds))
}
