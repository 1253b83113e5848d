//! The OpenAPI documents that describe custom resources, as the real server publishes them.
//!
//! What every resource has in common (metadata, options, query parameters) is taken from the document of
//! a built-in group, `apps/v1`, whose Deployments have all the operations that a custom resource can have.

mod paths;

use serde_json::{Map, Value, json};

use super::{flag, list, map, part, text};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const CONVENTIONS: &str =
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

/// The OpenAPI v3 document of a group and version. `crds` are all definitions that serve it, `apps` is
/// the document of `apps/v1`.
pub fn document<'a>(
    crds: impl IntoIterator<Item = &'a Value>,
    group: &str,
    version: &str,
    apps: &Value,
) -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for crd in crds.into_iter().filter(|crd| text(&crd["spec"], "group") == group) {
        let versions = list(&crd["spec"], "versions").iter();
        if versions.filter(|one| text(one, "name") == version && flag(one, "served")).count() == 1 {
            paths.extend(paths::paths(crd, version, apps));
            schemas.extend(definitions(crd, version, Dialect::V3));
        }
    }
    let mut wanted = Vec::new();
    references(&Value::Object(paths.clone()), &mut wanted);
    schemas.values().for_each(|schema| references(schema, &mut wanted));
    while let Some(name) = wanted.pop() {
        if !schemas.contains_key(&name)
            && let Some(schema) = apps["components"]["schemas"].get(&name)
        {
            references(schema, &mut wanted);
            schemas.insert(name, schema.clone());
        }
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

/// The definitions that one version of a custom resource adds to the OpenAPI v2 document.
pub fn definitions_v2(crd: &Value, version: &str) -> Map<String, Value> {
    definitions(crd, version, Dialect::V2)
}

/// The name of a definition, such as `com.example.v1.Widget`.
pub fn definition_name(group: &str, version: &str, kind: &str) -> String {
    let reversed: Vec<&str> = group.split('.').rev().collect();
    format!("{}.{version}.{kind}", reversed.join("."))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    V2,
    V3,
}

impl Dialect {
    /// A reference with a description beside it.
    fn described_reference(self, name: &str, description: String) -> Value {
        match self {
            Dialect::V2 => json!({"description": description, "$ref": format!("#/definitions/{name}")}),
            Dialect::V3 => json!({"description": description, "allOf": [self.reference(name)]}),
        }
    }

    fn reference(self, name: &str) -> Value {
        match self {
            Dialect::V2 => json!({"$ref": format!("#/definitions/{name}")}),
            Dialect::V3 => json!({"$ref": format!("#/components/schemas/{name}")}),
        }
    }
}

fn definitions(crd: &Value, version: &str, dialect: Dialect) -> Map<String, Value> {
    let spec = &crd["spec"];
    let group = text(spec, "group");
    let (kind, list_kind) = (text(&spec["names"], "kind"), text(&spec["names"], "listKind"));
    let given = list(spec, "versions").iter().find(|one| text(one, "name") == version);
    let schema = given.and_then(|one| one["schema"].get("openAPIV3Schema"));
    let selectable = given.map_or(&[][..], |one| list(one, "selectableFields"));
    let name = definition_name(group, version, kind);
    let extend = |schema: &mut Value, kind: &str| {
        schema["x-kubernetes-group-version-kind"] =
            json!([{"group": group, "kind": kind, "version": version}]);
        if !selectable.is_empty() {
            let path = |field: &Value| json!({"fieldPath": text(field, "jsonPath").trim_start_matches('.')});
            schema["x-kubernetes-selectable-fields"] = selectable.iter().map(path).collect();
        }
    };
    let mut object = match schema {
        None => json!({"type": "object"}),
        Some(schema) if dialect == Dialect::V2 && preserves(schema) => json!({"type": "object"}),
        Some(schema) => resource(schema, dialect),
    };
    extend(&mut object, kind);
    let mut objects = json!({
        "description": format!("{list_kind} is a list of {kind}"),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": api_version(),
            "kind": kind_property(),
            "metadata": dialect.described_reference(
                &format!("{META}.ListMeta"),
                format!("Standard list metadata. More info: {CONVENTIONS}#types-kinds"),
            ),
            "items": {
                "description": format!("List of {}. More info: {CONVENTIONS}", text(&spec["names"], "plural")),
                "type": "array",
                "items": dialect.reference(&name),
            },
        },
    });
    extend(&mut objects, list_kind);
    Map::from_iter([(name, object), (definition_name(group, version, list_kind), objects)])
}

fn preserves(schema: &Value) -> bool {
    flag(schema, "x-kubernetes-preserve-unknown-fields")
}

/// A schema with the metadata that every resource has.
fn resource(schema: &Value, dialect: Dialect) -> Value {
    let mut published = publish(schema, dialect);
    published["properties"]["apiVersion"] = api_version();
    published["properties"]["kind"] = kind_property();
    published["properties"]["metadata"] = metadata(dialect);
    published
}

fn api_version() -> Value {
    let what = "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values.";
    json!({"description": format!("{what} More info: {CONVENTIONS}#resources"), "type": "string"})
}

fn kind_property() -> Value {
    let what = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase.";
    json!({"description": format!("{what} More info: {CONVENTIONS}#types-kinds"), "type": "string"})
}

fn metadata(dialect: Dialect) -> Value {
    let description = format!("Standard object's metadata. More info: {CONVENTIONS}#metadata");
    dialect.described_reference(&format!("{META}.ObjectMeta"), description)
}

/// A schema as it is published: complete in v3, and in v2 without all that old clients choke on.
fn publish(schema: &Value, dialect: Dialect) -> Value {
    let mut out = schema.clone();
    let Some(fields) = out.as_object_mut() else { return out };
    if flag(schema, "x-kubernetes-int-or-string") && dialect == Dialect::V3 {
        int_or_string(schema, fields);
    }
    if dialect == Dialect::V2 {
        simplify(schema, fields);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(below) = fields.get_mut(key).filter(|below| below.is_object()) {
            *below = publish(below, dialect);
        }
    }
    for below in fields.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        *below.1 = publish(below.1, dialect);
    }
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    if embedded && !(dialect == Dialect::V2 && preserves(schema)) {
        embed(fields, dialect);
    }
    out
}

fn int_or_string(schema: &Value, fields: &mut Map<String, Value>) {
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let stated = |schema: &Value| schema.get("anyOf") == Some(&either);
    if stated(schema) || list(schema, "allOf").first().is_some_and(stated) {
        return;
    }
    if list(schema, "anyOf").is_empty() {
        fields.insert("anyOf".to_owned(), either);
    } else {
        let mut all = vec![json!({"anyOf": either})];
        all.extend(list(schema, "allOf").iter().cloned());
        fields.insert("allOf".to_owned(), all.into());
    }
}

fn simplify(schema: &Value, fields: &mut Map<String, Value>) {
    for key in ["allOf", "anyOf", "oneOf", "not", "default", "nullable"] {
        fields.remove(key);
    }
    if flag(schema, "nullable") || preserves(schema) {
        fields.remove("items");
        fields.remove("properties");
    }
    let kind = text(schema, "type");
    let untyped = flag(schema, "nullable")
        || (kind == "array" && !fields.contains_key("items"))
        || (kind == "object" && preserves(schema));
    if untyped {
        fields.remove("type");
    }
    let nullable: Vec<&String> = map(schema, "properties")
        .filter(|(_, field)| flag(field, "nullable"))
        .map(|(name, _)| name)
        .collect();
    if let Some(required) = fields.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !nullable.iter().any(|field| *name == **field));
        if required.is_empty() {
            fields.remove("required");
        }
    }
}

fn embed(fields: &mut Map<String, Value>, dialect: Dialect) {
    let api_version = "apiVersion defines the versioned schema of this representation of an object.";
    let kind = "kind is a string value representing the type of this object. In CamelCase.";
    let properties = fields.entry("properties").or_insert_with(|| json!({}));
    let string = |what: &str, anchor: &str| json!({"description": format!("{what} More info: {CONVENTIONS}#{anchor}"), "type": "string"});
    properties["apiVersion"] = string(api_version, "resources");
    properties["kind"] = string(kind, "types-kinds");
    properties["metadata"] = metadata(dialect);
    let required = fields.entry("required").or_insert_with(|| json!([]));
    for name in ["kind", "apiVersion"] {
        if let Some(names) =
            required.as_array_mut().filter(|names| !names.iter().any(|known| *known == *name))
        {
            names.push(name.into());
        }
    }
}

/// The names of the definitions that a part of a document refers to.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(target) if key == "$ref" => {
                        found.push(target.rsplit('/').next().unwrap_or(target).to_owned());
                    }
                    _ => references(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
