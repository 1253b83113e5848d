//! What the scale subresource demands of the objects it reads.

use serde_json::Value;

use super::Scale;
use crate::field::{Error, Path};
use crate::schema::prune::accessor_error;

/// What is wrong with the numbers and the selector that a scale subresource points to.
pub fn validate_scale(scale: &Scale, object: &Value) -> Vec<Error> {
    let mut errors = Vec::new();
    for path in [&scale.spec_path, &scale.status_path] {
        errors.extend(wrong_number(path, object));
    }
    if let Some(path) = &scale.selector_path
        && let Err(why) = at(object, path, Value::is_string, "string")
    {
        errors.push(Error::invalid(&Path::new(path), "", why));
    }
    errors
}

fn wrong_number(path: &str, object: &Value) -> Option<Error> {
    let place = Path::new(path);
    let number = match at(object, path, Value::is_i64, "int64") {
        Ok(found) => found.and_then(Value::as_i64).unwrap_or_default(),
        Err(why) => return Some(Error::invalid(&place, 0, why)),
    };
    if number < 0 {
        return Some(Error::invalid(&place, number, "should be a non-negative integer"));
    }
    let most = i32::MAX;
    let why = format!("should be less than or equal to {most}");
    (number > i64::from(most)).then(|| Error::invalid(&place, number, why))
}

/// The value at a path; an absent one is no error, one of another type is.
fn at<'a>(
    object: &'a Value,
    path: &str,
    fits: fn(&Value) -> bool,
    wanted: &str,
) -> Result<Option<&'a Value>, String> {
    let mut value = object;
    for name in path.trim_start_matches('.').split('.') {
        if !value.is_object() {
            return Err(accessor_error(path, value, "map[string]interface{}"));
        }
        match value.get(name) {
            Some(below) => value = below,
            None => return Ok(None),
        }
    }
    if fits(value) { Ok(Some(value)) } else { Err(accessor_error(path, value, wanted)) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_numbers_of_replicas_can_be_scaled() {
        let scale = Scale {
            spec_path: ".spec.replicas".to_owned(),
            status_path: ".status.replicas".to_owned(),
            selector_path: Some(".status.selector".to_owned()),
        };
        let check = |object: Value, expected: &[&str]| {
            let errors: Vec<String> =
                validate_scale(&scale, &object).iter().map(ToString::to_string).collect();
            assert_eq!(errors, expected);
        };
        check(json!({}), &[]);
        check(json!({"spec": {"replicas": 3}, "status": {"replicas": 0, "selector": "a=b"}}), &[]);
        check(
            json!({"spec": {"replicas": -1}, "status": {"replicas": 3_000_000_000i64}}),
            &[
                ".spec.replicas: Invalid value: -1: should be a non-negative integer",
                ".status.replicas: Invalid value: 3000000000: should be less than or equal to 2147483647",
            ],
        );
        check(
            json!({"spec": {"replicas": "x"}}),
            &[
                ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: x is of the type string, expected int64",
            ],
        );
    }
}
