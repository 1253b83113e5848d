//! JSON merge patch: objects are merged, null deletes, everything else replaces.

use serde_json::{Map, Value};

use crate::status::{Error, Result};

use super::{Patched, Unknown, parse, parse_object, without_nulls};

/// Applies a JSON merge patch.
pub fn merge(current: &Value, patch: &[u8], unknown: Unknown) -> Result<Patched> {
    let not_a_patch = || Error::bad_request("Invalid JSON Patch");
    let fields = match unknown {
        Unknown::Report => parse_object(patch)
            .map_err(|why| Error::bad_request(format!("error decoding patch: {why}")))?
            .ok_or_else(not_a_patch)?,
        Unknown::Ignore => match parse(patch) {
            Ok(Value::Object(fields)) => fields,
            // A list replaces the object; that it is none is found when it is decoded.
            Ok(list @ Value::Array(_)) => {
                return Ok(Patched { object: without_nulls(list), strict: Vec::new() });
            }
            _ => return Err(not_a_patch()),
        },
    };
    let mut object = current.clone();
    match &mut object {
        Value::Object(document) => lay_over(document, fields),
        other => *other = without_nulls(Value::Object(fields)),
    }
    Ok(Patched { object, strict: Vec::new() })
}

fn lay_over(document: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (name, value) in patch {
        if value.is_null() {
            document.remove(&name);
            continue;
        }
        match (document.get_mut(&name), value) {
            (Some(Value::Object(below)), Value::Object(patch)) => lay_over(below, patch),
            // A list that replaces an object keeps its nulls: only values that meet none are cleaned.
            (Some(Value::Object(_)), value) => {
                document.insert(name, value);
            }
            (_, value) => {
                document.insert(name, without_nulls(value));
            }
        }
    }
}
