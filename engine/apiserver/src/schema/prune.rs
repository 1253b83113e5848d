//! What happens to a custom resource that a request brings: metadata gets its Go form, fields that the
//! schema does not know go, and so do nulls that may not be there.

use serde_json::Value;

use super::decode::{self, DecodeError, Decoded};
use super::raw::{self, Json};
use super::{Node, NodeId, Object, Schema, Set, Shape};
use crate::field::{self, Path};

const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Takes the body of a request as an object of this schema. `object_meta` is the schema of `ObjectMeta`.
///
/// The object is pruned but not yet defaulted; what strict validation objects to is in the order of the
/// real server.
pub fn decode_custom(schema: &Schema, object_meta: &Schema, json: Json) -> Result<Decoded, DecodeError> {
    let mut strict: Vec<String> =
        json.duplicates().into_iter().map(|path| format!("duplicate field {path:?}")).collect();
    let mut value = json.into_value();
    strict.extend(coerce(schema, object_meta, &mut value)?);
    Ok(Decoded { value, strict })
}

/// The same for an object that exists as a value, such as the result of a patch. Returns what strict
/// validation objects to.
pub fn coerce(schema: &Schema, object_meta: &Schema, object: &mut Value) -> Result<Vec<String>, DecodeError> {
    for key in ["kind", "apiVersion"] {
        if let Some(value) = object.get(key).filter(|value| !value.is_string()) {
            return Err(DecodeError::new(accessor_error(&format!(".{key}"), value, "string")));
        }
    }
    write_numbers_as_go(object);
    let mut unknown = Vec::new();
    let metadata = match object.get_mut("metadata") {
        Some(metadata) => Some(decode_meta(object_meta, metadata.take(), "metadata", &mut unknown)?),
        None => None,
    };
    unknown.extend(prune(schema, object));
    remove_nulls(schema.set(), Some(schema.id()), object);
    let mut coercer = Coercer { set: schema.set(), object_meta, unknown: Vec::new() };
    coercer.node(schema.id(), &Path::root(), object)?;
    coercer.unknown.sort_unstable();
    unknown.append(&mut coercer.unknown);
    if let Some(metadata) = metadata {
        object["metadata"] = metadata;
    }
    Ok(unknown.into_iter().map(|path| format!("unknown field \"{path}\"")).collect())
}

/// Removes the fields that the schema does not know and returns their paths, sorted.
pub fn prune(schema: &Schema, object: &mut Value) -> Vec<String> {
    prune_at(schema, Level::Root, object)
}

/// The same for a value that is no whole resource, such as a default.
pub(crate) fn prune_inside(schema: &Schema, value: &mut Value) -> Vec<String> {
    prune_at(schema, Level::Below, value)
}

fn prune_at(schema: &Schema, level: Level, value: &mut Value) -> Vec<String> {
    let mut pruner = Pruner { set: schema.set(), path: String::new(), unknown: Vec::new() };
    pruner.node(Some(schema.id()), level, value);
    pruner.unknown.sort_unstable();
    pruner.unknown
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Below,
}

struct Pruner<'a> {
    set: &'a Set,
    path: String,
    unknown: Vec<String>,
}

impl Pruner<'_> {
    /// `None` knows nothing: every field goes.
    fn node(&mut self, id: Option<NodeId>, level: Level, value: &mut Value) {
        let node = id.map(|id| self.set.node(id));
        if let Some(node) = node.filter(|node| node.preserve_unknown) {
            return self.preserved(node, level, value);
        }
        match value {
            Value::Object(map) => {
                let known = node.and_then(object_of);
                let resource = level == Level::Root || node.is_some_and(|node| node.embedded_resource);
                map.retain(|key, value| {
                    if resource && META_FIELDS.contains(&key.as_str()) {
                        return true;
                    }
                    match child(known, key) {
                        Some(child) => {
                            self.below(key, |pruner| pruner.node(Some(child), Level::Below, value));
                            true
                        }
                        None => {
                            let end = self.push(key);
                            self.unknown.push(self.path.clone());
                            self.path.truncate(end);
                            false
                        }
                    }
                });
            }
            Value::Array(items) => {
                let inner = node.and_then(items_of);
                for (at, item) in items.iter_mut().enumerate() {
                    self.at(at, |pruner| pruner.node(inner, Level::Below, item));
                }
            }
            _ => {}
        }
    }

    /// Nothing goes here, but specified fields are pruned inside.
    fn preserved(&mut self, node: &Node, level: Level, value: &mut Value) {
        match value {
            Value::Object(map) => {
                let resource = level == Level::Root || node.embedded_resource;
                for (key, value) in map.iter_mut() {
                    if resource && META_FIELDS.contains(&key.as_str()) {
                        continue;
                    }
                    if let Some(child) = child(object_of(node), key) {
                        self.below(key, |pruner| pruner.node(Some(child), Level::Below, value));
                    }
                }
            }
            Value::Array(items) => {
                let Some(inner) = items_of(node) else { return };
                for (at, item) in items.iter_mut().enumerate() {
                    self.at(at, |pruner| pruner.preserved(pruner.set.node(inner), Level::Below, item));
                }
            }
            _ => {}
        }
    }

    fn push(&mut self, key: &str) -> usize {
        let end = self.path.len();
        if end > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        end
    }

    fn below(&mut self, key: &str, work: impl FnOnce(&mut Self)) {
        let end = self.push(key);
        work(self);
        self.path.truncate(end);
    }

    fn at(&mut self, at: usize, work: impl FnOnce(&mut Self)) {
        let end = self.path.len();
        self.path.push_str(&format!("[{at}]"));
        work(self);
        self.path.truncate(end);
    }
}

/// Gives embedded resources their metadata in Go's form.
struct Coercer<'a> {
    set: &'a Set,
    object_meta: &'a Schema,
    unknown: Vec<String>,
}

impl Coercer<'_> {
    fn node(&mut self, id: NodeId, path: &Path, value: &mut Value) -> Result<(), DecodeError> {
        let node = self.set.node(id);
        match value {
            Value::Object(map) => {
                for (key, value) in map.iter_mut() {
                    if node.embedded_resource {
                        self.meta_field(&path.child(key), key, value)?;
                    }
                    let Some(object) = object_of(node) else { continue };
                    match (object.field(key), object.additional) {
                        (Some(field), _) => self.node(field.node, &path.child(key), value)?,
                        (None, Some(values)) => self.node(values, &path.key(key), value)?,
                        (None, None) => {}
                    }
                }
            }
            Value::Array(items) => {
                let Some(inner) = items_of(node) else { return Ok(()) };
                for (at, item) in items.iter_mut().enumerate() {
                    self.node(inner, &path.index(at), item)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn meta_field(&mut self, path: &Path, key: &str, value: &mut Value) -> Result<(), DecodeError> {
        let refused = |value: &Value, why: &str| {
            DecodeError::new(field::Error::invalid(path, value.clone(), why).to_string())
        };
        match key {
            "apiVersion" | "kind" if !value.is_string() => Err(refused(value, "must be a string")),
            "metadata" => {
                *value = decode_meta(self.object_meta, value.clone(), path.as_str(), &mut self.unknown)
                    .map_err(|error| refused(value, &error.to_string()))?;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Metadata as Go writes it; the paths of what it does not know go to `unknown`.
fn decode_meta(
    object_meta: &Schema,
    metadata: Value,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<Value, DecodeError> {
    let decoded = decode::decode(object_meta, metadata)?;
    let paths = decoded.strict.iter().filter_map(|finding| finding.split('"').nth(1));
    unknown.extend(paths.map(|inner| format!("{path}.{inner}")));
    Ok(decoded.value)
}

/// A patch can leave `1.0`, which Go writes as `1`.
fn write_numbers_as_go(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => *value = raw::whole(number.clone()).into(),
        Value::Array(items) => items.iter_mut().for_each(write_numbers_as_go),
        Value::Object(map) => map.values_mut().for_each(write_numbers_as_go),
        _ => {}
    }
}

/// Removes what a schema does not know, and nulls that it does not allow.
pub fn prune_with_nulls(schema: &Schema, value: &mut Value) {
    prune(schema, value);
    remove_nulls(schema.set(), Some(schema.id()), value);
}

/// Removes nulls that may not be there and that no default will replace.
fn remove_nulls(set: &Set, id: Option<NodeId>, value: &mut Value) {
    let node = id.map(|id| set.node(id));
    match value {
        Value::Object(map) => {
            let known = node.and_then(object_of);
            map.retain(|key, value| {
                let field = known.and_then(|object| object.field(key));
                let child = child(known, key);
                let defaulted = match (field, child) {
                    (Some(field), _) => field.default.is_some(),
                    (None, Some(child)) => set.node(child).default.is_some(),
                    (None, None) => false,
                };
                if value.is_null() && child.is_some_and(|child| !set.node(child).nullable) && !defaulted {
                    return false;
                }
                remove_nulls(set, child, value);
                true
            });
        }
        Value::Array(items) => {
            let inner = node.and_then(items_of);
            items.iter_mut().for_each(|item| remove_nulls(set, inner, item));
        }
        _ => {}
    }
}

fn object_of(node: &Node) -> Option<&Object> {
    match &node.shape {
        Shape::Object(object) => Some(object),
        _ => None,
    }
}

fn items_of(node: &Node) -> Option<NodeId> {
    match &node.shape {
        Shape::List(list) => Some(list.items),
        _ => None,
    }
}

fn child(object: Option<&Object>, key: &str) -> Option<NodeId> {
    let object = object?;
    object.field(key).map(|field| field.node).or(object.additional)
}

/// What Go says of a value at a path that is not of the type it should be.
pub(crate) fn accessor_error(path: &str, value: &Value, wanted: &str) -> String {
    let (shown, kind) = match value {
        Value::Null => ("<nil>".to_owned(), "<nil>"),
        Value::Bool(flag) => (flag.to_string(), "bool"),
        Value::Number(number) if number.is_f64() => (number.to_string(), "float64"),
        Value::Number(number) => (number.to_string(), "int64"),
        Value::String(text) => (text.clone(), "string"),
        Value::Array(_) => (value.to_string(), "[]interface {}"),
        Value::Object(_) => (value.to_string(), "map[string]interface {}"),
    };
    format!("{path} accessor error: {shown} is of the type {kind}, expected {wanted}")
}
