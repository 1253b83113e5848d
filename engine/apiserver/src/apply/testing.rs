//! Schemas for tests, from a small notation.
//!
//! A string names a scalar (`string`, `integer`, `boolean`, `any`, `int-or-string`); an object
//! is a struct whose fields may be followed by marks: `name!` is a Go pointer, `name?` is left out
//! when empty, `name=` takes the default after it. `{"*": T}` is a map, `["atomic", T]`, `["set", T]` and
//! `["map", "key,key", T]` are lists, `["atomic-map", T]` a map with one owner. `{"%atomic": T}` is a
//! struct with one owner, `{"%preserve": T}` one that keeps unknown fields.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::schema::{
    Field, GoField, GoScalar, List, ListKind, Node, NodeId, Object, Patch, Schema, Set, Shape,
};

/// Whether fields carry what Go does with them, as those of built-in kinds do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Builtin,
    Custom,
}

pub(crate) fn schema(origin: Origin, notation: &Value) -> Schema {
    let mut set = Set::default();
    let id = node(origin, notation, &mut set);
    Schema::new(Arc::new(set), id)
}

fn node(origin: Origin, notation: &Value, set: &mut Set) -> NodeId {
    let shape = match notation {
        Value::String(name) => match name.as_str() {
            "string" => Shape::String,
            "integer" => Shape::Integer,
            "boolean" => Shape::Boolean,
            "int-or-string" => Shape::IntOrString,
            "any" => Shape::Any,
            other => panic!("no scalar {other}"),
        },
        Value::Array(parts) => {
            let items = |set: &mut Set| node(origin, parts.last().expect("a list has items"), set);
            match parts[0].as_str() {
                Some("atomic") => Shape::List(List { items: items(set), kind: ListKind::Atomic }),
                Some("set") => Shape::List(List { items: items(set), kind: ListKind::Set }),
                Some("map") => {
                    let keys = parts[1].as_str().expect("keys").split(',').map(Into::into).collect();
                    Shape::List(List { items: items(set), kind: ListKind::Map(keys) })
                }
                Some("atomic-map") => {
                    let additional = Some(items(set));
                    Shape::Object(Object { additional, atomic: true, ..Object::default() })
                }
                other => panic!("no list {other:?}"),
            }
        }
        Value::Object(fields) if fields.contains_key("%preserve") => {
            let below = node(origin, &fields["%preserve"], set);
            let preserve = Node { preserve_unknown: true, ..set.node(below).clone() };
            return set.push(preserve);
        }
        Value::Object(fields) if fields.contains_key("%atomic") => {
            let below = node(origin, &fields["%atomic"], set);
            let Shape::Object(object) = set.node(below).shape.clone() else { panic!("only structs") };
            Shape::Object(Object { atomic: true, ..object })
        }
        Value::Object(fields) if fields.contains_key("*") => {
            let additional = Some(node(origin, &fields["*"], set));
            Shape::Object(Object { additional, ..Object::default() })
        }
        Value::Object(fields) => {
            let mut fields: Vec<Field> =
                fields.iter().map(|(name, of)| field(origin, name, of, set)).collect();
            fields.sort_by(|left, right| left.name.cmp(&right.name));
            Shape::Object(Object { fields: fields.into(), ..Object::default() })
        }
        other => panic!("no notation {other}"),
    };
    set.push(Node::new(shape))
}

fn field(origin: Origin, name: &str, of: &Value, set: &mut Set) -> Field {
    let (name, default) = match name.split_once('=') {
        Some((name, default)) => (name, Some(Box::new(json!(default)))),
        None => (name, None),
    };
    let (name, patch) = patch_marks(name);
    let bare = name.trim_end_matches(['!', '?']);
    let node = node(origin, of, set);
    let scalar = match &set.node(node).shape {
        Shape::String => GoScalar::String,
        Shape::Integer => GoScalar::Int32,
        Shape::Boolean => GoScalar::Bool,
        _ => GoScalar::None,
    };
    let go = (origin == Origin::Builtin).then_some(GoField {
        pointer: name.contains('!'),
        omit_empty: name.contains('?'),
        omit_zero: false,
        scalar,
    });
    Field { name: bare.into(), node, default, patch, go }
}

/// `name~key` merges by that key, `name~` merges; `name~~` also retains keys.
fn patch_marks(name: &str) -> (&str, Patch) {
    let Some((bare, key)) = name.split_once('~') else { return (name, Patch::default()) };
    let retain_keys = key.starts_with('~');
    let key = key.trim_start_matches('~');
    let merge_key = (!key.is_empty()).then(|| key.into());
    (bare, Patch { merge: true, retain_keys, replace: false, merge_key })
}
