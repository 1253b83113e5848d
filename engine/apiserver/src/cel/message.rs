//! Messages: what the expressions of mutations make. `Object{spec: Object.spec{…}}` is a configuration to be applied, whose
//! parts have the names of their places, and `JSONPatch{op: …, path: …}` one operation of a patch.

use std::collections::BTreeMap;

use base64::Engine as _;
use serde_json::{Map, Value as Json, json};

use super::library;
use super::types::Type;
use super::value::{Key, Value};

pub(super) const OBJECT: &str = "Object";
pub(super) const PATCH: &str = "JSONPatch";

/// A message that was made.
#[derive(Debug)]
pub(super) struct Made<'a> {
    pub(super) name: String,
    pub(super) fields: BTreeMap<String, Value<'a>>,
}

impl Made<'_> {
    pub(super) fn type_name(&self) -> &'static str {
        if self.name == PATCH { PATCH } else { OBJECT }
    }
}

/// Whether a message can have that name.
pub(super) fn is_known(name: &str) -> bool {
    name == PATCH || name == OBJECT || name.strip_prefix(OBJECT).is_some_and(|rest| rest.starts_with('.'))
}

/// The type of a field; that of an object may be anything.
pub(super) fn field(message: &str, field: &str) -> Option<Type> {
    match (message, field) {
        (PATCH, "op" | "path" | "from") => Some(Type::String),
        (PATCH, "value") => Some(Type::Dyn),
        (PATCH, _) => None,
        _ => Some(Type::Dyn),
    }
}

/// Whether all parts of objects have the names of the places that they are at.
pub(super) fn check_names(value: &Value<'_>) -> Result<(), String> {
    let mut wrong = Vec::new();
    match value {
        Value::List(operations) => {
            for operation in operations.iter() {
                if let Value::Message(made) = &operation
                    && let Some(Value::Message(value)) = made.fields.get("value")
                {
                    names_below(&Value::Message(value.clone()), &value.name, &mut wrong);
                }
            }
        }
        Value::Message(made) => names_below(value, &made.name, &mut wrong),
        _ => {}
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("type mismatch: {}", wrong.join("\n"))) }
}

fn names_below(value: &Value<'_>, expected: &str, wrong: &mut Vec<String>) {
    match value {
        Value::Message(made) => {
            if made.name != expected {
                let name = &made.name;
                wrong.push(format!(
                    "unexpected type name {name:?}, expected {expected:?}, which matches field name path from root Object type"
                ));
            }
            for (field, value) in &made.fields {
                names_below(value, &format!("{expected}.{field}"), wrong);
            }
        }
        Value::List(items) => items.iter().for_each(|item| names_below(&item, expected, wrong)),
        Value::Map(entries) => entries.values().for_each(|(_, value)| names_below(value, expected, wrong)),
        _ => {}
    }
}

/// A value as it is written.
pub(super) fn to_json(value: &Value<'_>) -> Result<Json, String> {
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(value) => json!(value),
        Value::Int(value) => json!(value),
        Value::Uint(value) => json!(value),
        Value::Double(value) => json!(value),
        Value::String(text) => json!(&**text),
        Value::Bytes(bytes) => json!(base64::engine::general_purpose::STANDARD.encode(bytes)),
        Value::List(items) => {
            items.iter().map(|item| to_json(&item)).collect::<Result<Vec<Json>, String>>()?.into()
        }
        Value::Map(entries) => {
            let mut fields = Map::new();
            for (key, (_, value)) in entries.iter() {
                let Key::String(name) = key else {
                    return Err(format!("map key {key:?} is not a string"));
                };
                fields.insert(name.to_string(), to_json(value)?);
            }
            Json::Object(fields)
        }
        Value::Message(made) => {
            let mut fields = Map::new();
            for (name, value) in &made.fields {
                fields.insert(name.clone(), to_json(value)?);
            }
            Json::Object(fields)
        }
        Value::Duration(_) | Value::Timestamp(..) => {
            match library::call_once("string", std::slice::from_ref(value)) {
                Ok(Value::String(text)) => json!(&*text),
                _ => return Err(format!("unsupported type: {}", value.type_name())),
            }
        }
        other => return Err(format!("unsupported type: {}", other.type_name())),
    })
}
