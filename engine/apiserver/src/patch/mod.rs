//! Patches: JSON patch (RFC 6902), JSON merge patch (RFC 7396) and strategic merge patch.
//!
//! Each takes the object as the client sees it and gives the patched one, not yet decoded:
//! defaults, pruning and validation follow as for any other write.

mod json;
mod merge;
mod order;
mod strategic;
mod syntax;
#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::status::{Error, Result};

pub use crate::apply::go_text;
pub use json::json;
pub use merge::merge;
pub use strategic::strategic;

/// What to do about fields that a patch should not have (`fieldValidation`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// Say nothing. Faults of form are then found later, and named differently.
    Ignore,
    /// Report them, to warn or to refuse.
    Report,
}

/// A patched object.
#[derive(Debug, Clone, PartialEq)]
pub struct Patched {
    pub object: Value,
    /// What was odd about the patch itself: `json patch unknown field "[0].foo"`. For the caller to
    /// warn about or refuse, together with what it finds in the object.
    pub strict: Vec<String>,
}

/// A patch that is good JSON but does not fit the object.
fn does_not_apply() -> Error {
    let mut error =
        Error::new(422, "Invalid", "the server rejected our request due to an error in our request");
    error.details = Some(Box::new(serde_json::json!({})));
    error
}

/// The JSON type of a value, as Go's decoder names it.
fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The patch as a value; the error is Go's sentence.
fn parse(patch: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(patch).map_err(|error| match syntax::check(patch) {
        Err(why) => why,
        Ok(()) => error.to_string(),
    })
}

/// The patch as an object. Null stands for an empty one.
fn parse_object(patch: &[u8]) -> Result<Option<serde_json::Map<String, Value>>, String> {
    match parse(patch)? {
        Value::Object(fields) => Ok(Some(fields)),
        Value::Null => Ok(None),
        other => Err(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_kind(&other)
        )),
    }
}

/// The value without fields that are null, at any depth.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}
