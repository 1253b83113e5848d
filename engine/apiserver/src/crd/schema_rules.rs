//! What schemas of definitions may say at all, beyond being structural.

use serde_json::Value;

use super::{flag, list, map, part, structural, text, written};
use crate::field::{Error, Path};
use crate::schema::prune;
use crate::schema::validate::{formats, validate_values};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const META_FIELDS: [&str; 3] = ["metadata", "kind", "apiVersion"];
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// What is wrong with the schema at a path.
pub(super) fn validate(schema: &Value, path: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    walk(schema, path, Place { root: true, ..Place::default() }, &mut errors);
    errors
}

/// What surrounds a schema.
#[derive(Clone, Default)]
struct Place {
    root: bool,
    in_metadata: bool,
    /// Why defaults may not be set here, if so.
    no_defaults: Option<String>,
}

fn walk(schema: &Value, path: &Path, place: Place, errors: &mut Vec<Error>) {
    standard(schema, path, &place, errors);
    if flag(schema, "uniqueItems") {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(Error::forbidden(&path.child("uniqueItems"), why));
    }
    let inside = Place { root: false, ..place.clone() };
    if let Some(additional) = part(schema, "additionalProperties") {
        let at = path.child("additionalProperties");
        if map(schema, "properties").next().is_some() && *additional != Value::Bool(true) {
            errors.push(Error::forbidden(&at, "additionalProperties and properties are mutual exclusive"));
        }
        if additional.is_object() {
            let mut inside = inside.clone();
            if inside.in_metadata {
                let why = "inside additionalProperties applying to object metadata";
                inside.no_defaults = Some(why.to_owned());
            }
            walk(additional, &at, inside, errors);
        }
    }
    let resource = place.root || flag(schema, "x-kubernetes-embedded-resource");
    for (name, field) in map(schema, "properties") {
        let mut inside = inside.clone();
        if resource && META_FIELDS.contains(&name.as_str()) {
            inside.in_metadata = true;
            if place.root {
                inside.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        walk(field, &path.child("properties").key(name), inside, errors);
    }
    for (below, at) in others(schema, path) {
        walk(below, &at, inside.clone(), errors);
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let at = path.child("x-kubernetes-preserve-unknown-fields");
        errors.push(Error::invalid(&at, false, "must be true or undefined"));
    }
    map_type(schema, path, errors);
    list_type(schema, path, errors);
    if text(schema, "x-kubernetes-list-type") == "map" {
        list_map(schema, path, errors);
    }
    list_items(schema, path, errors);
    rules(schema, path, errors);
}

/// The other schemas below one, in the order they are looked at.
fn others<'a>(schema: &'a Value, path: &Path) -> Vec<(&'a Value, Path)> {
    let mut found = Vec::new();
    found.extend(part(schema, "not").map(|not| (not, path.child("not"))));
    for key in ["allOf", "oneOf", "anyOf"] {
        let at = path.child(key);
        found.extend(list(schema, key).iter().enumerate().map(|(index, one)| (one, at.index(index))));
    }
    let definitions = path.child("definitions");
    found.extend(map(schema, "definitions").map(|(name, one)| (one, definitions.key(name))));
    let items = path.child("items");
    found.extend(part(schema, "items").filter(|one| one.is_object()).map(|one| (one, items.clone())));
    found.extend(list(schema, "items").iter().enumerate().map(|(index, one)| (one, items.index(index))));
    let dependencies = path.child("dependencies");
    let dependents = map(schema, "dependencies").filter(|(_, one)| one.is_object());
    found.extend(dependents.map(|(name, one)| (one, dependencies.key(name))));
    found
}

fn standard(schema: &Value, path: &Path, place: &Place, errors: &mut Vec<Error>) {
    let kind = text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(Error::not_supported(&path.child("type"), kind, &TYPES));
    }
    if let (Some(why), true) = (&place.no_defaults, part(schema, "default").is_some()) {
        errors.push(Error::forbidden(&path.child("default"), format!("must not be set {why}")));
    }
    for key in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        if part(schema, key).is_some() {
            errors.push(Error::forbidden(&path.child(key), format!("{key} is not supported")));
        }
    }
    if kind == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        errors.push(Error::forbidden(&path.child("type"), why));
    }
    if schema.get("items").is_some_and(Value::is_array) {
        errors.push(Error::forbidden(&path.child("items"), "items must be a schema object and not an array"));
    }
    if place.in_metadata && flag(schema, "x-kubernetes-embedded-resource") {
        let at = path.child("x-kubernetes-embedded-resource");
        errors.push(Error::forbidden(&at, "must not be used inside of resource meta"));
    }
}

/// An extension that only one type may have.
fn demands_type(schema: &Value, path: &Path, wanted: &str, extension: &str, errors: &mut Vec<Error>) -> bool {
    let why = format!("must be {wanted} if {extension} is specified");
    match text(schema, "type") {
        kind if kind == wanted => return true,
        "" => errors.push(Error::required(&path.child("type"), why)),
        kind => errors.push(Error::invalid(&path.child("type"), kind, why)),
    }
    false
}

fn map_type(schema: &Value, path: &Path, errors: &mut Vec<Error>) {
    let Some(kind) = part(schema, "x-kubernetes-map-type") else { return };
    demands_type(schema, path, "object", "x-kubernetes-map-type", errors);
    if *kind != "atomic" && *kind != "granular" {
        let at = path.child("x-kubernetes-map-type");
        errors.push(Error::not_supported(&at, kind.clone(), &["atomic", "granular"]));
    }
}

fn list_type(schema: &Value, path: &Path, errors: &mut Vec<Error>) {
    let at = path.child("x-kubernetes-list-type");
    let kind = part(schema, "x-kubernetes-list-type");
    if let Some(kind) = kind
        && demands_type(schema, path, "array", "x-kubernetes-list-type", errors)
        && *kind == "set"
    {
        let items = schema.get("items").unwrap_or(&Value::Null);
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let items_kind = items.get("x-kubernetes-list-type").unwrap_or(&Value::Null);
        match text(items, "type") {
            "array" if !items_kind.is_null() && *items_kind != "atomic" => {
                let at = path.child("items").child("x-kubernetes-list-type");
                errors.push(Error::invalid(&at, items_kind.clone(), why));
            }
            "object" if text(items, "x-kubernetes-map-type") != "atomic" => {
                let at = path.child("items").child("x-kubernetes-map-type");
                errors.push(Error::invalid(&at, items_kind.clone(), why));
            }
            _ => {}
        }
    }
    if let Some(kind) = kind.filter(|kind| !["atomic", "set", "map"].iter().any(|known| **kind == *known)) {
        errors.push(Error::not_supported(&at, kind.clone(), &["atomic", "set", "map"]));
    }
    if !list(schema, "x-kubernetes-list-map-keys").is_empty() {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        match kind {
            None => errors.push(Error::required(&at, why)),
            Some(kind) if *kind != "map" => errors.push(Error::invalid(&at, kind.clone(), why)),
            Some(_) => {}
        }
    }
}

fn list_map(schema: &Value, path: &Path, errors: &mut Vec<Error>) {
    let keys = list(schema, "x-kubernetes-list-map-keys");
    let at = path.child("x-kubernetes-list-map-keys");
    if keys.is_empty() {
        errors.push(Error::required(&at, "must not be empty if x-kubernetes-list-type is map"));
    }
    let items_at = path.child("items");
    let Some(items) = part(schema, "items") else {
        errors.push(Error::required(&items_at, "must have a schema if x-kubernetes-list-type is map"));
        return;
    };
    if items.is_array() {
        return;
    }
    if text(items, "type") != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(Error::invalid(&items_at.child("type"), text(items, "type"), why));
        return;
    }
    for (index, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or_default();
        match items.get("properties").and_then(|properties| properties.get(name)) {
            Some(field) if matches!(text(field, "type"), "array" | "object") => {
                let at = items_at.child("properties").key(name).child("type");
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(Error::invalid(&at, text(items, "type"), why));
            }
            Some(_) => {}
            None => {
                let why = "entries must all be names of item properties";
                errors.push(Error::invalid(&at, Value::from(keys.to_vec()), why));
            }
        }
        if keys[..index].contains(key) {
            let why = "must not contain duplicate entries";
            errors.push(Error::invalid(&at, Value::from(keys.to_vec()), why));
        }
    }
}

/// Items of sets and maps cannot be null, and keys must always be there.
fn list_items(schema: &Value, path: &Path, errors: &mut Vec<Error>) {
    let kind = text(schema, "x-kubernetes-list-type");
    let Some(items) = part(schema, "items").filter(|items| items.is_object()) else { return };
    if kind != "set" && kind != "map" {
        return;
    }
    let at = path.child("items");
    if flag(items, "nullable") {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {kind}");
        errors.push(Error::forbidden(&at.child("nullable"), why));
    }
    if kind != "map" {
        return;
    }
    for key in list(schema, "x-kubernetes-list-map-keys") {
        let name = key.as_str().unwrap_or_default();
        let Some(field) = items.get("properties").and_then(|properties| properties.get(name)) else {
            continue;
        };
        let at = at.child("properties").key(name);
        if !list(items, "required").contains(key) && part(field, "default").is_none() {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(Error::required(&at.child("default"), why));
        }
        if flag(field, "nullable") {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(Error::forbidden(&at.child("nullable"), why));
        }
    }
}

fn rules(schema: &Value, path: &Path, errors: &mut Vec<Error>) {
    for (index, rule) in list(schema, "x-kubernetes-validations").iter().enumerate() {
        let at = path.child("x-kubernetes-validations").index(index);
        let broken = |text: &str| text.contains(['\n', '\r']);
        let (expression, message) = (text(rule, "rule").trim(), text(rule, "message"));
        if expression.is_empty() {
            errors.push(Error::required(&at.child("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            errors.push(Error::invalid(&at.child("message"), message, "must be non-empty if specified"));
        } else if broken(message.trim()) {
            errors.push(Error::invalid(&at.child("message"), message, "must not contain line breaks"));
        } else if broken(expression) && message.trim().is_empty() {
            let why = "message must be specified if rule contains line breaks";
            errors.push(Error::required(&at.child("message"), why));
        }
        let expression = text(rule, "messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            let why = "messageExpression must be non-empty if specified";
            errors.push(Error::required(&at.child("messageExpression"), why));
        }
        if let Some(reason) =
            part(rule, "reason").filter(|reason| !REASONS.iter().any(|known| **reason == *known))
        {
            errors.push(Error::not_supported(&at.child("reason"), reason.clone(), &REASONS));
        }
        let field = text(rule, "fieldPath");
        let at = at.child("fieldPath");
        if !field.is_empty() && field.trim().is_empty() {
            errors.push(Error::invalid(&at, field, "must be non-empty if specified"));
        }
        if broken(field) {
            errors.push(Error::invalid(&at, field, "must not contain line breaks"));
        }
        if !field.is_empty() && field_at(schema, field).is_none() {
            errors.push(Error::invalid(&at, field, "must be a valid path"));
        }
    }
}

/// The schema at a path such as `.spec.name`, if it is specified.
pub(super) fn field_at<'a>(schema: &'a Value, path: &str) -> Option<&'a Value> {
    path.strip_prefix('.')?.split('.').try_fold(schema, |schema, name| {
        let (name, key) = match name.split_once("['") {
            Some((name, key)) => (name, Some(key.strip_suffix("']")?)),
            None => (name, None),
        };
        let below = |schema: &'a Value, name: &str| {
            let field = schema.get("properties").and_then(|properties| properties.get(name));
            field.or_else(|| schema.get("additionalProperties").filter(|schema| schema.is_object()))
        };
        let schema = below(schema, name)?;
        key.map_or(Some(schema), |key| below(schema, key))
    })
}

/// Defaults must be valid, and hold nothing that would be pruned.
pub(super) fn defaults(schema: &Value, path: &Path, errors: &mut Vec<Error>) {
    if let Some(default) = part(schema, "default") {
        let at = path.child("default");
        let parsed = structural::inside(schema);
        let mut pruned = default.clone();
        prune::prune_inside(&parsed, &mut pruned);
        if pruned != *default {
            errors.push(Error::invalid(&at, default.clone(), "must not have unknown fields"));
        }
        errors.extend(validate_values(&parsed, &at, default, None));
    }
    if let Some(items) = part(schema, "items").filter(|items| items.is_object()) {
        defaults(items, &path.child("items"), errors);
    }
    for (name, field) in map(schema, "properties") {
        defaults(field, &path.child("properties").key(name), errors);
    }
}

/// Formats in the schemas of a definition that mean nothing.
pub(super) fn unrecognized_formats(crd: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut schemas: Vec<&Value> = Vec::new();
    for version in list(&crd["spec"], "versions") {
        if let Some(schema) =
            version["schema"].get("openAPIV3Schema").filter(|schema| !schemas.contains(schema))
        {
            schemas.push(schema);
        }
    }
    for schema in schemas {
        written::any_schema(schema, &mut |schema| {
            let format = text(schema, "format");
            let kind = text(schema, "type");
            let judged = matches!(kind, "" | "string" | "integer" | "number");
            if !format.is_empty() && judged && !formats::is_supported(Some(kind), format) {
                found.push(format.to_owned());
            }
            false
        });
    }
    found
}
