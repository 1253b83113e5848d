//! What makes a schema structural: every field has a type, and `allOf`, `anyOf`, `oneOf` and `not` only
//! restrict what is specified outside of them.

use serde_json::Value;

use super::{flag, list, map, part, text};
use crate::field::{Error, Path};
use crate::schema::validate::pattern;

/// Why a schema cannot even be read as structural, if so.
pub(super) fn unsupported(schema: &Value) -> Option<String> {
    for (key, name) in [
        ("id", "id"),
        ("$schema", "schema"),
        ("$ref", "$ref"),
        ("patternProperties", "patternProperties"),
        ("dependencies", "dependencies"),
        ("additionalItems", "additionalItems"),
        ("definitions", "definitions"),
    ] {
        if part(schema, key).is_some() {
            return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
        }
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        return Some(
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined".to_owned(),
        );
    }
    if schema.get("items").is_some_and(Value::is_array) {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    let singles = ["items", "not", "additionalProperties"].into_iter().filter_map(|key| part(schema, key));
    let lists = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|key| list(schema, key));
    let fields = map(schema, "properties").map(|(_, below)| below);
    singles.filter(|below| below.is_object()).chain(lists).chain(fields).find_map(unsupported)
}

/// What keeps a schema from being structural, sorted by what is said.
pub(super) fn validate(schema: &Value, path: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    structural(schema, Level::Root, path, &mut errors);
    for (nested, at) in nested(schema, path) {
        complete(nested, Some(schema), path, &at, &mut errors);
    }
    errors.sort_by_key(ToString::to_string);
    errors
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

fn structural(schema: &Value, level: Level, path: &Path, errors: &mut Vec<Error>) {
    let kind = text(schema, "type");
    let items = part(schema, "items");
    if kind == "array" && items.is_none() {
        errors.push(Error::required(&path.child("items"), "must be specified"));
    }
    if let Some(items) = items {
        structural(items, Level::Item, &path.child("items"), errors);
    }
    for (name, field) in map(schema, "properties") {
        structural(field, Level::Field, &path.child("properties").key(name), errors);
    }
    if let Some(additional) = part(schema, "additionalProperties") {
        let at = path.child("additionalProperties");
        if level == Level::Root {
            errors.push(Error::forbidden(&at, "must not be used at the root"));
        }
        if additional.is_object() {
            structural(additional, Level::Field, &at, errors);
        }
    }
    extensions(schema, path, errors);
    let skip = Skip { any_of: is_int_or_string(schema), first_all_of: starts_int_or_string(schema) };
    values(schema, skip, path, errors);
    types(schema, level, path, errors);
    meta(schema, level, path, errors);
}

fn extensions(schema: &Value, path: &Path, errors: &mut Vec<Error>) {
    if !flag(schema, "x-kubernetes-int-or-string") {
        return;
    }
    for key in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if flag(schema, key) {
            let why = "must be false if x-kubernetes-int-or-string is true";
            errors.push(Error::invalid(&path.child(key), true, why));
        }
    }
}

fn types(schema: &Value, level: Level, path: &Path, errors: &mut Vec<Error>) {
    let kind = text(schema, "type");
    let at = path.child("type");
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    let typeless =
        flag(schema, "x-kubernetes-int-or-string") || flag(schema, "x-kubernetes-preserve-unknown-fields");
    if embedded && kind != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match kind {
            "" => Error::required(&at, why),
            other => Error::invalid(&at, other, why),
        });
    } else if kind.is_empty() && !typeless {
        let why = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(Error::required(&at, why));
    }
    if embedded && part(schema, "additionalProperties").is_some() {
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(Error::forbidden(&path.child("additionalProperties"), why));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(Error::invalid(&at, kind, "must be object at the root"));
    }
}

fn meta(schema: &Value, level: Level, path: &Path, errors: &mut Vec<Error>) {
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    let resource = level == Level::Root || embedded;
    let property = |name: &str| schema.get("properties").and_then(|properties| properties.get(name));
    for name in ["kind", "apiVersion"] {
        if let Some(field) = property(name).filter(|field| resource && text(field, "type") != "string") {
            let at = path.child("properties").key(name).child("type");
            errors.push(Error::invalid(&at, text(field, "type"), "must be string"));
        }
    }
    if let Some(metadata) = property("metadata") {
        let at = path.child("properties").key("metadata");
        if resource && text(metadata, "type") != "object" {
            errors.push(Error::invalid(&at.child("type"), text(metadata, "type"), "must be object"));
        }
        if level == Level::Root && says_more_than_names(metadata) {
            let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            errors.push(Error::forbidden(&at, why));
        }
    }
    let fields = map(schema, "properties").count();
    if embedded && !flag(schema, "x-kubernetes-preserve-unknown-fields") && fields == 0 {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(Error::required(&path.child("properties"), why));
    }
}

/// Of the metadata at the root only names may be restricted.
fn says_more_than_names(metadata: &Value) -> bool {
    let others = map(metadata, "properties").any(|(name, _)| name != "name" && name != "generateName");
    let set = metadata.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let more = set.map(|(key, _)| key.as_str()).any(|key| !matches!(key, "type" | "default" | "properties"));
    others || more
}

#[derive(Clone, Copy, Default)]
struct Skip {
    any_of: bool,
    first_all_of: bool,
}

/// `anyOf: [{type: integer}, {type: string}]` may stand where types are otherwise forbidden.
fn is_int_or_string(schema: &Value) -> bool {
    let only_type = |one: &Value, kind: &str| {
        one.as_object().is_some_and(|map| map.len() == 1) && text(one, "type") == kind
    };
    matches!(list(schema, "anyOf"), [first, second] if only_type(first, "integer") && only_type(second, "string"))
}

fn starts_int_or_string(schema: &Value) -> bool {
    list(schema, "allOf").first().is_some_and(is_int_or_string)
}

fn values(schema: &Value, skip: Skip, path: &Path, errors: &mut Vec<Error>) {
    if !skip.any_of {
        for (at, one) in list(schema, "anyOf").iter().enumerate() {
            restriction(one, Skip::default(), &path.child("anyOf").index(at), errors);
        }
    }
    for (at, one) in list(schema, "allOf").iter().enumerate() {
        let skip = Skip { any_of: skip.first_all_of && at == 0, first_all_of: false };
        restriction(one, skip, &path.child("allOf").index(at), errors);
    }
    for (at, one) in list(schema, "oneOf").iter().enumerate() {
        restriction(one, Skip::default(), &path.child("oneOf").index(at), errors);
    }
    if let Some(not) = part(schema, "not") {
        restriction(not, Skip::default(), &path.child("not"), errors);
    }
    let regex = text(schema, "pattern");
    if !regex.is_empty()
        && let Some(why) = pattern::objection(regex)
    {
        let why = format!("must be a valid regular expression, but isn't: error parsing regexp: {why}");
        errors.push(Error::invalid(&path.child("pattern"), regex, why));
    }
}

/// What a nested schema may not say.
fn restriction(schema: &Value, skip: Skip, path: &Path, errors: &mut Vec<Error>) {
    values(schema, skip, path, errors);
    if let Some(items) = part(schema, "items") {
        restriction(items, Skip::default(), &path.child("items"), errors);
    }
    for (name, field) in map(schema, "properties") {
        restriction(field, Skip::default(), &path.child("properties").key(name), errors);
    }
    let additional = part(schema, "additionalProperties").is_some_and(|value| *value != Value::Bool(false));
    for (key, set, why) in [
        ("type", !text(schema, "type").is_empty(), "must be empty to be structural"),
        ("additionalProperties", additional, "must be undefined to be structural"),
        ("default", part(schema, "default").is_some(), "must be undefined to be structural"),
        ("title", !text(schema, "title").is_empty(), "must be empty to be structural"),
        ("description", !text(schema, "description").is_empty(), "must be empty to be structural"),
        ("nullable", flag(schema, "nullable"), "must be false to be structural"),
    ] {
        if set {
            errors.push(Error::forbidden(&path.child(key), why));
        }
    }
    for key in [
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
    ] {
        if flag(schema, key) {
            errors.push(Error::forbidden(&path.child(key), "must be false to be structural"));
        }
    }
    for (key, why) in [
        ("x-kubernetes-list-map-keys", "must be empty to be structural"),
        ("x-kubernetes-list-type", "must be undefined to be structural"),
        ("x-kubernetes-map-type", "must be undefined to be structural"),
        ("x-kubernetes-validations", "must be empty to be structural"),
    ] {
        let empty = |value: &&Value| value.as_array().is_some_and(Vec::is_empty);
        if part(schema, key).is_some_and(|value| !empty(&value)) {
            errors.push(Error::forbidden(&path.child(key), why));
        }
    }
    if schema.get("properties").is_some_and(|properties| properties.get("metadata").is_some()) {
        let at = path.child("properties").key("metadata");
        errors.push(Error::forbidden(&at, "must not be specified in a nested context"));
    }
}

/// The schemas that restrict another, and where they are.
fn nested<'a>(schema: &'a Value, path: &Path) -> Vec<(&'a Value, Path)> {
    let not = part(schema, "not").map(|not| (not, path.child("not")));
    let lists = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|key| {
        let at = path.child(key);
        list(schema, key).iter().enumerate().map(move |(index, one)| (one, at.index(index)))
    });
    not.into_iter().chain(lists).collect()
}

/// A restriction must speak of what is specified outside of it.
fn complete(nested_in: &Value, schema: Option<&Value>, path: &Path, at: &Path, errors: &mut Vec<Error>) {
    let Some(schema) = schema else {
        errors.push(Error::required(path, format!("because it is defined in {at}")));
        return;
    };
    for (one, below) in nested(nested_in, at) {
        complete(one, Some(schema), path, &below, errors);
    }
    if let Some(items) = part(nested_in, "items") {
        complete(items, part(schema, "items"), &path.child("items"), &at.child("items"), errors);
    }
    for (name, field) in map(nested_in, "properties") {
        let outside = schema.get("properties").and_then(|properties| properties.get(name));
        let (path, at) = (path.child("properties").key(name), at.child("properties").key(name));
        complete(field, outside, &path, &at, errors);
    }
}
