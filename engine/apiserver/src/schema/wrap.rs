//! Numbers as Go's converter from maps to structs takes them: those that are too large for their field
//! lose their high bits, where the JSON decoder would refuse them.

use serde_json::Value;

use super::{GoScalar, NodeId, Schema, Set, Shape};

/// Makes every number of an object of a built-in kind fit its field.
pub fn wrap_numbers(schema: &Schema, object: &mut Value) {
    wrap(schema.set(), schema.id(), GoScalar::None, object);
}

fn wrap(set: &Set, id: NodeId, scalar: GoScalar, value: &mut Value) {
    match (&set.node(id).shape, value) {
        (Shape::Object(object), Value::Object(fields)) => {
            for (name, value) in fields {
                if let Some(field) = object.field(name) {
                    let scalar = field.go.map_or(GoScalar::None, |go| go.scalar);
                    wrap(set, field.node, scalar, value);
                } else if let Some(values) = object.additional {
                    wrap(set, values, GoScalar::None, value);
                }
            }
        }
        (Shape::List(list), Value::Array(items)) => {
            items.iter_mut().for_each(|item| wrap(set, list.items, GoScalar::None, item));
        }
        (Shape::Integer, value) => {
            let whole = value.as_f64().filter(|_| value.is_f64()).filter(|number| number.fract() == 0.0);
            let number = value.as_i64().or_else(|| whole.map(|number| number as i64));
            match (scalar, number) {
                (GoScalar::Int32, Some(number)) => *value = (number as i32).into(),
                (_, Some(number)) if whole.is_some() => *value = number.into(),
                _ => {}
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::catalog::builtin_schema;

    #[test]
    fn high_bits_are_lost() {
        let schema = builtin_schema("apps", "v1", "Deployment").expect("a built-in kind");
        let mut object = json!({"spec": {"replicas": 2_147_483_648_i64, "minReadySeconds": 5,
            "progressDeadlineSeconds": 3.0}, "metadata": {"generation": 4_294_967_296_i64}});
        wrap_numbers(&schema, &mut object);
        let expected = json!({"spec": {"replicas": -2_147_483_648_i64, "minReadySeconds": 5,
            "progressDeadlineSeconds": 3}, "metadata": {"generation": 4_294_967_296_i64}});
        assert_eq!(object, expected);
    }
}
