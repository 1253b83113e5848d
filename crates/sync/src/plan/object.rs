//! One object as far as a decision needs it.

use std::collections::BTreeMap;

use serde_json::{Number, Value};

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
        (Value::Number(one), Value::Number(other)) => one == other || are_one_value(one, other),
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

/// Whether two numbers that are written differently have one value. Not every integer is a float, so that two
/// integers are never compared as such.
fn are_one_value(one: &Number, other: &Number) -> bool {
    let (float, whole) = match (one.as_i128(), other.as_i128()) {
        (None, Some(whole)) => (one.as_f64(), whole),
        (Some(whole), None) => (other.as_f64(), whole),
        (None, None) => return one.as_f64() == other.as_f64(),
        (Some(_), Some(_)) => return false,
    };
    float.is_some_and(|float| float.fract() == 0.0 && float as i128 == whole)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_the_same_only_if_their_values_are() {
        let big = 1_u64 << 53;
        for (one, other, expected) in [
            (json!(1), json!(1.0), true),
            (json!(-3), json!(-3.0), true),
            (json!(0.5), json!(0.5), true),
            (json!(1), json!(1.5), false),
            (json!(big), json!(big), true),
            (json!(big), json!(big + 1), false),
            (json!(big as f64), json!(big), true),
            (json!(big as f64), json!(big + 1), false),
            (json!(-(big as i64)), json!(-(big as i64) - 1), false),
            (json!(u64::MAX), json!(u64::MAX - 1), false),
            (json!(u64::MAX as f64), json!(u64::MAX), false),
            (json!({"a": [big]}), json!({"a": [big + 1]}), false),
        ] {
            assert_eq!(same(&one, &other), expected, "{one} {other}");
            assert_eq!(same(&other, &one), expected, "{other} {one}");
        }
    }
}
