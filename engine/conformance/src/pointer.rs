//! Puts values at JSON pointers, making the way where it is missing.

use serde_json::Value;

/// Puts `value` at `at`, or removes what is there. Where a number meets no array, or an array is too
/// short, nothing is changed.
pub(crate) fn put(target: &mut Value, at: &str, value: Option<Value>) {
    let parts: Vec<_> =
        at.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
    put_parts(target, &parts, value);
}

/// An object that holds `value` at `at` and nothing else; `None` when the way leads through an array.
pub(crate) fn nested(at: &str, value: Value) -> Option<Value> {
    if at.split('/').any(|part| part.parse::<usize>().is_ok()) {
        return None;
    }
    let mut result = Value::Object(serde_json::Map::new());
    put(&mut result, at, Some(value));
    Some(result)
}

fn put_parts(target: &mut Value, parts: &[String], value: Option<Value>) {
    let Some((part, rest)) = parts.split_first() else {
        if let Some(value) = value {
            *target = value;
        }
        return;
    };
    if let Value::Array(items) = target {
        match part.parse::<usize>() {
            Ok(index) if index < items.len() && rest.is_empty() && value.is_none() => {
                items.remove(index);
            }
            Ok(index) if index < items.len() => put_parts(&mut items[index], rest, value),
            _ => {}
        }
        return;
    }
    if part.parse::<usize>().is_ok() {
        return;
    }
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(fields) = target else { return };
    if rest.is_empty() && value.is_none() {
        fields.remove(part);
    } else {
        put_parts(fields.entry(part.clone()).or_insert(Value::Null), rest, value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn puts_and_removes() {
        let check = |mut target: Value, at: &str, value: Option<Value>, expected: Value| {
            put(&mut target, at, value);
            assert_eq!(target, expected, "{at}");
        };
        check(json!({}), "/a/b", Some(json!(1)), json!({"a": {"b": 1}}));
        check(json!({"a": [{"b": 1}]}), "/a/0/b", Some(json!(2)), json!({"a": [{"b": 2}]}));
        check(json!({"a": []}), "/a/0/b", Some(json!(2)), json!({"a": []}));
        check(json!({"a": {"x~y/z": 1}}), "/a/x~0y~1z", None, json!({"a": {}}));
        check(json!({}), "/a/0", Some(json!(1)), json!({"a": null}));
    }

    #[test]
    fn nests_only_through_objects() {
        assert_eq!(nested("/a/b", json!(1)), Some(json!({"a": {"b": 1}})));
        assert_eq!(nested("/a/0", json!(1)), None);
    }
}
