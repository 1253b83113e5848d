//! The zero value of a field's Go type: what messages show of a field that is not there.

use serde_json::Value;

use super::parse::format;
use super::{GoScalar, NodeId, Rules, Schema, Set, Shape};

/// What Go shows of an absent field of a built-in kind, by its path in messages such as
/// `spec.ports[0].name`. Nothing is known of what is not in the schema.
pub fn zero_at(schema: &Schema, path: &str) -> Option<Value> {
    let set = schema.set();
    let mut place = Place { node: schema.id(), pointer: false, scalar: GoScalar::None };
    for step in steps(path) {
        place = match step {
            Step::Field(name) => place.field(set, name)?,
            Step::Inside => place.inside(set)?,
        };
    }
    if place.pointer {
        return Some(Value::Null);
    }
    let node = set.node(place.node);
    let format = node.rules.as_deref().and_then(|rules: &Rules| rules.format.as_deref()).unwrap_or_default();
    match (place.scalar, &node.shape) {
        (GoScalar::String, _) => Some("".into()),
        (GoScalar::Bool, _) => Some(false.into()),
        (GoScalar::None, Shape::String) if format == format::QUANTITY => Some("0".into()),
        (GoScalar::None, Shape::String) if format.is_empty() => Some("".into()),
        (GoScalar::None, Shape::IntOrString) => Some(0.into()),
        (GoScalar::None, _) => Some(Value::Null),
        _ => Some(0.into()),
    }
}

/// A node, and how the field that led to it holds it.
struct Place {
    node: NodeId,
    pointer: bool,
    scalar: GoScalar,
}

impl Place {
    fn field(&self, set: &Set, name: &str) -> Option<Place> {
        let Shape::Object(object) = &set.node(self.node).shape else { return None };
        let field = object.field(name)?;
        let go = field.go?;
        Some(Place { node: field.node, pointer: go.pointer, scalar: go.scalar })
    }

    fn inside(&self, set: &Set) -> Option<Place> {
        let node = match &set.node(self.node).shape {
            Shape::List(list) => list.items,
            Shape::Object(object) => object.additional?,
            _ => return None,
        };
        Some(Place { node, pointer: false, scalar: GoScalar::None })
    }
}

enum Step<'a> {
    Field(&'a str),
    /// An item of a list or an entry of a map: all have the same type.
    Inside,
}

fn steps(path: &str) -> impl Iterator<Item = Step<'_>> {
    let mut rest = path;
    std::iter::from_fn(move || {
        if let Some(inside) = rest.strip_prefix('[') {
            rest = inside.split_once(']').map_or("", |(_, after)| after);
            return Some(Step::Inside);
        }
        let field = rest.strip_prefix('.').unwrap_or(rest);
        let end = field.find(['.', '[']).unwrap_or(field.len());
        rest = &field[end..];
        (end > 0).then(|| Step::Field(&field[..end]))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::catalog::builtin_schema;

    #[test]
    fn absent_fields_show_as_their_type_says() {
        let check = |group: &str, kind: &str, path: &str, expected: Option<Value>| {
            let schema = builtin_schema(group, "v1", kind).expect("a built-in kind");
            assert_eq!(zero_at(&schema, path), expected, "{kind} {path}");
        };
        check("networking.k8s.io", "IngressClass", "spec.controller", Some(json!("")));
        check("apps", "StatefulSet", "status.readyReplicas", Some(json!(0)));
        check("apps", "StatefulSet", "spec.replicas", Some(Value::Null));
        check("", "Pod", "spec.containers[0].ports[1].containerPort", Some(json!(0)));
        check("", "Pod", "spec.containers", Some(Value::Null));
        check("", "Pod", "spec.hostNetwork", Some(json!(false)));
        check("", "Pod", "metadata.deletionTimestamp", Some(Value::Null));
        check("", "Pod", "no.such[0].field", None);
    }
}
