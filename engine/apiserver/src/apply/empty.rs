//! The object that a create is compared with.
//!
//! A built-in kind's is not `{}`: Go writes structs that hold nothing, and what is there already is
//! not the creator's. A custom resource's has only its type.

use serde_json::{Map, Value, json};

use crate::schema::parse::format;
use crate::schema::{Field, GoField, GoScalar, Object, Set, Shape};

use super::Kind;

/// The new object of a kind.
pub(super) fn object(kind: &Kind<'_>) -> Value {
    let set = kind.schema.set();
    let mut fields = match &kind.schema.node().shape {
        Shape::Object(object) => structure(set, object),
        _ => Map::new(),
    };
    fields.insert("apiVersion".to_owned(), kind.api_version.into());
    fields.insert("kind".to_owned(), kind.kind.into());
    Value::Object(fields)
}

fn structure(set: &Set, object: &Object) -> Map<String, Value> {
    let fields = object.fields.iter();
    fields.filter_map(|field| Some((field.name.to_string(), zero(set, field, field.go?)?))).collect()
}

/// What Go writes for a field that was never set, if it writes it.
fn zero(set: &Set, field: &Field, go: GoField) -> Option<Value> {
    if go.omit_zero {
        return None;
    }
    let or_omitted = |value: Value| (!go.omit_empty).then_some(value);
    if go.pointer {
        return or_omitted(Value::Null);
    }
    let node = set.node(field.node);
    match go.scalar {
        GoScalar::String => or_omitted(json!("")),
        GoScalar::Bool => or_omitted(json!(false)),
        GoScalar::Int | GoScalar::Int32 | GoScalar::Int64 | GoScalar::Uint8 | GoScalar::Float64 => {
            or_omitted(json!(0))
        }
        // `omitempty` does nothing for a struct, and the types with their own JSON form are structs.
        GoScalar::None => match &node.shape {
            Shape::Object(object) if object.additional.is_none() && !object.fields.is_empty() => {
                Some(Value::Object(structure(set, object)))
            }
            Shape::IntOrString => Some(json!(0)),
            Shape::String if is_time(node.rules.as_deref()) => Some(Value::Null),
            _ => or_omitted(Value::Null),
        },
    }
}

fn is_time(rules: Option<&crate::schema::Rules>) -> bool {
    let format = rules.and_then(|rules| rules.format.as_deref());
    matches!(format, Some(format::TIME | format::MICRO_TIME))
}
