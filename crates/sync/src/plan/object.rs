//! One object as far as a decision needs it.

use std::collections::BTreeMap;

use serde_json::Value;

/// What travels of an object, and what tells it from another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object {
    pub uid: String,
    pub version: String,
    pub generation: i64,
    /// Deleted, but not gone.
    pub terminating: bool,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub spec: Option<Value>,
    pub status: Option<Value>,
}

/// What is known of an object on one side.
#[derive(Clone, Copy, Debug)]
pub enum Seen<'a> {
    /// Nobody listed that side completely yet.
    Unknown,
    /// A complete list did not have it.
    Absent,
    Known(&'a Object),
}

/// Equality as JSON means it: `1` and `1.0` are one number.
pub fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| same(value, other)))
        }
        _ => one == other,
    }
}
