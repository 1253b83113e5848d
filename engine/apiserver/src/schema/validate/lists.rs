//! Lists that are sets or maps hold no item twice.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::field::{self, Path};
use crate::schema::{ListKind, NodeId, Schema, Set, Shape};

pub(super) fn validate(schema: &Schema, object: &Value) -> Vec<field::Error> {
    let mut errors = Vec::new();
    node(schema.set(), schema.id(), &Path::root(), object, &mut errors);
    errors
}

fn node(set: &Set, id: NodeId, path: &Path, value: &Value, errors: &mut Vec<field::Error>) {
    match (&set.node(id).shape, value) {
        (Shape::Object(object), Value::Object(map)) => {
            for (key, value) in map {
                if let Some(values) = object.additional {
                    node(set, values, &path.key(key), value, errors);
                }
                if let Some(field) = object.field(key) {
                    node(set, field.node, &path.child(key), value, errors);
                }
            }
        }
        (Shape::List(list), Value::Array(items)) => {
            match &list.kind {
                ListKind::Atomic => {}
                ListKind::Set => repeated(path, items, errors),
                ListKind::Map(keys) => repeated_keys(path, keys, items, errors),
            }
            for (at, item) in items.iter().enumerate() {
                node(set, list.items, &path.index(at), item, errors);
            }
        }
        _ => {}
    }
}

/// Of an item that is there several times, the second is told.
fn repeated(path: &Path, items: &[Value], errors: &mut Vec<field::Error>) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (at, item) in items.iter().enumerate() {
        let times = seen.entry(item.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            errors.push(field::Error::duplicate(&path.index(at), item.clone()));
        }
    }
}

fn repeated_keys(path: &Path, keys: &[Box<str>], items: &[Value], errors: &mut Vec<field::Error>) {
    let wrong = items.iter().enumerate().find(|(_, item)| !item.is_object() && !item.is_null());
    if let Some((at, item)) = wrong {
        let why = "must be an object for an array of list-type map";
        errors.push(field::Error::invalid(&path.index(at), item.clone(), why));
        return;
    }
    let of = |item: &Value| -> Value {
        let found =
            keys.iter().filter_map(|key| item.get(&**key).map(|value| (key.to_string(), value.clone())));
        Value::Object(found.collect::<Map<_, _>>())
    };
    let keys: Vec<Value> = items.iter().map(of).collect();
    repeated(path, &keys, errors);
}
