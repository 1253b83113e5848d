//! What is wrong with the rules of a schema themselves.

use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::program::Rule;
use super::schema::Schema;
use super::{SELF, rules, text};
use crate::field::{Error, Path};

/// Complaints about rules that do not compile, in a structural schema that is valid otherwise. `path` is
/// where the schema is in its definition.
pub fn check(schema: &Json, path: &Path) -> Vec<Error> {
    let parsed = Arc::new(Schema::parse(schema));
    let mut errors = Vec::new();
    walk(schema, &parsed, path, Place { resource: true, uncorrelatable: None }, &mut errors);
    errors
}

#[derive(Clone)]
struct Place {
    resource: bool,
    /// The list whose items cannot be found in the old object.
    uncorrelatable: Option<Path>,
}

/// Schemas below come first, as on the real server.
fn walk(written: &Json, schema: &Arc<Schema>, path: &Path, place: Place, errors: &mut Vec<Error>) {
    let below = |schema: &Schema, uncorrelatable: &Option<Path>| Place {
        resource: schema.embedded,
        uncorrelatable: uncorrelatable.clone(),
    };
    if let (Some(values), Some(written)) = (&schema.additional, written.get("additionalProperties")) {
        let place = below(values, &place.uncorrelatable);
        walk(written, values, &path.child("additionalProperties"), place, errors);
    }
    for (name, field) in schema.properties.iter().flatten() {
        if let Some(written) = written.get("properties").and_then(|properties| properties.get(name)) {
            let place = below(field, &place.uncorrelatable);
            walk(written, field, &path.child("properties").key(name), place, errors);
        }
    }
    if let (Some(items), Some(inner)) = (&schema.items, written.get("items")) {
        let by_key = text(written, "x-kubernetes-list-type") == "map";
        let uncorrelatable = match by_key {
            true => place.uncorrelatable.clone(),
            false => place.uncorrelatable.clone().or_else(|| Some(path.clone())),
        };
        walk(inner, items, &path.child("items"), below(items, &uncorrelatable), errors);
    }
    own_rules(written, schema, path, &place, errors);
}

fn own_rules(written: &Json, schema: &Arc<Schema>, path: &Path, place: &Place, errors: &mut Vec<Error>) {
    let rules = rules(written);
    if rules.is_empty() {
        return;
    }
    let path = path.child("x-kubernetes-validations");
    let Some(of) = schema.declared(place.resource, SELF) else {
        let why = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
        errors.push(Error::internal(&path, why));
        return;
    };
    for (index, written) in rules.iter().enumerate() {
        let path = path.index(index);
        let rule = Rule::compile(written, &of, schema);
        let mut uses_old = false;
        match &rule.program {
            Some(Err(why)) => errors.push(shown(&path.child("rule"), written, why)),
            Some(Ok(program)) => uses_old = program.uses_old,
            None => {}
        }
        if let Some(Err(why)) = &rule.message {
            errors.push(shown(&path.child("messageExpression"), written, why));
        }
        match &place.uncorrelatable {
            Some(list) if uses_old => {
                let why = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                );
                errors.push(Error::invalid(&path.child("rule"), text(written, "rule"), why));
            }
            _ => {}
        }
        if let Some(given) = written.get("optionalOldSelf").filter(|given| !uses_old && given.is_boolean()) {
            let why = "may not be set if oldSelf is not used in rule";
            errors.push(Error::invalid(&path.child("optionalOldSelf"), given.clone(), why));
        }
    }
}

/// A fault that shows the whole rule, with the fields of a Go struct in their order.
fn shown(path: &Path, rule: &Json, why: &str) -> Error {
    let empty = Map::new();
    let rule = rule.as_object().unwrap_or(&empty);
    let text =
        |key: &str| rule.get(key).filter(|value| value.is_string()).cloned().unwrap_or_else(|| "".into());
    let pointer = |key: &str| rule.get(key).unwrap_or(&Json::Null);
    let value = format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        pointer("reason"),
        text("fieldPath"),
        pointer("optionalOldSelf"),
    );
    // Go writes JSON that is safe inside HTML.
    let value = value.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    let mut error = Error::invalid(path, Json::Null, format!("{value}: {why}"));
    error.value = None;
    error
}
