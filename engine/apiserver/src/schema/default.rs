//! Fills in the defaults that a schema carries.

use serde_json::{Map, Value};

use super::{Field, GoScalar, NodeId, Schema, Set, Shape};

/// Gives absent fields their default, at every depth. Running it again changes nothing.
pub fn default(schema: &Schema, value: &mut Value) {
    node(schema.set(), schema.id(), value);
}

fn node(set: &Set, id: NodeId, value: &mut Value) {
    match (&set.node(id).shape, value) {
        (Shape::Object(object), Value::Object(map)) => {
            for field in &object.fields {
                absent(set, field, map);
            }
            for (key, value) in map.iter_mut() {
                match (object.field(key), object.additional) {
                    (Some(field), _) => node(set, field.node, value),
                    (None, Some(values)) => element(set, values, value),
                    (None, None) => {}
                }
            }
        }
        (Shape::List(list), Value::Array(items)) => {
            items.iter_mut().for_each(|item| element(set, list.items, item));
        }
        _ => {}
    }
}

/// An item or the value of a map: a null that may not be there takes the default.
fn element(set: &Set, id: NodeId, value: &mut Value) {
    let element = set.node(id);
    if value.is_null()
        && !element.nullable
        && let Some(default) = &element.default
    {
        *value = (**default).clone();
    }
    node(set, id, value);
}

fn absent(set: &Set, field: &Field, map: &mut Map<String, Value>) {
    let Some(default) = &field.default else { return };
    // Where the Go type is known, decoding has shown zero values as Go does: a default that only states
    // the zero value must not bring back what Go leaves out.
    if field.go.is_some() && is_zero(default) {
        return;
    }
    let takes = match map.get(&*field.name) {
        None => true,
        Some(Value::Null) => !set.node(field.node).nullable,
        // Without a pointer Go cannot tell a zero that was set from one that was not.
        Some(set) => field.go.is_some_and(|go| !go.pointer && go.scalar != GoScalar::None) && is_zero(set),
    };
    if takes {
        map.insert(field.name.to_string(), (**default).clone());
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(_) => false,
        Value::Object(map) => map.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::decode::decode;
    use crate::schema::decode::tests::document;

    #[test]
    fn built_in_kinds_take_the_defaults_of_their_markers() {
        let schema = document().kind("", "v1", "Service").unwrap();
        let body = json!({"spec": {"ports": [{"port": 80}, {"port": 81, "protocol": "UDP"}]}});
        let mut value = decode(&schema, body).unwrap().value;
        default(&schema, &mut value);
        let ports = json!([
            {"port": 80, "protocol": "TCP", "targetPort": 0},
            {"port": 81, "protocol": "UDP", "targetPort": 0},
        ]);
        assert_eq!(value["spec"]["ports"], ports);
        let before = value.clone();
        default(&schema, &mut value);
        assert_eq!(value, before);
    }
}
