//! Resources embedded in a custom resource are resources: they have a type and valid metadata.

use serde_json::{Map, Value};

use crate::field::{self, Path};
use crate::names;
use crate::schema::{NodeId, Schema, Set, Shape};

/// What is wrong with metadata at a path.
pub type ValidateMeta = fn(&Value, &Path) -> Vec<field::Error>;

pub(super) fn validate(schema: &Schema, object: &Value, meta: ValidateMeta) -> Vec<field::Error> {
    let mut walk = Walk { set: schema.set(), meta, errors: Vec::new() };
    walk.node(schema.id(), &Path::root(), object);
    walk.errors
}

struct Walk<'a> {
    set: &'a Set,
    meta: ValidateMeta,
    errors: Vec<field::Error>,
}

impl Walk<'_> {
    fn node(&mut self, id: NodeId, path: &Path, value: &Value) {
        let node = self.set.node(id);
        match (&node.shape, value) {
            (shape, Value::Object(map)) => {
                if node.embedded_resource {
                    self.resource(path, map);
                }
                let Shape::Object(object) = shape else { return };
                for (key, value) in map {
                    match (object.field(key), object.additional) {
                        (Some(field), _) => self.node(field.node, &path.child(key), value),
                        (None, Some(values)) => self.node(values, &path.key(key), value),
                        (None, None) => {}
                    }
                }
            }
            (Shape::List(list), Value::Array(items)) => {
                for (at, item) in items.iter().enumerate() {
                    self.node(list.items, &path.index(at), item);
                }
            }
            _ => {}
        }
    }

    fn resource(&mut self, path: &Path, map: &Map<String, Value>) {
        for key in ["apiVersion", "kind"] {
            if !map.contains_key(key) {
                self.errors.push(field::Error::required(&path.child(key), ""));
            }
        }
        for key in ["apiVersion", "kind"] {
            if let Some(value) = map.get(key)
                && let Some(why) = wrong_type_meta(key, value)
            {
                self.errors.push(field::Error::invalid(&path.child(key), value.clone(), why));
            }
        }
        if let Some(metadata) = map.get("metadata") {
            self.errors.extend((self.meta)(metadata, &path.child("metadata")));
        }
    }
}

fn wrong_type_meta(key: &str, value: &Value) -> Option<String> {
    let Some(text) = value.as_str() else { return Some("must be a string".to_owned()) };
    if text.is_empty() {
        return Some("must not be empty".to_owned());
    }
    if key == "apiVersion" {
        return (text.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {text}"));
    }
    let wrong = names::dns1035_label(&text.to_lowercase());
    (!wrong.is_empty())
        .then(|| format!("may have mixed case, but should otherwise match: {}", wrong.join(",")))
}
