//! Strategic merge patch: lists of a built-in kind are merged by key, and a patch may say how with
//! directives.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value};

use crate::schema::wrap::wrap_numbers;
use crate::schema::{NodeId, Patch, Schema, Set, Shape};
use crate::status::{Error, Result};

use super::order::{Key, arrange, dedupe, item_kind, validate_order};
use super::{Patched, go_text, parse_object, without_nulls};
use crate::apply::go_type;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

type Fields = Map<String, Value>;

/// Applies a strategic merge patch to an object of a built-in kind.
pub fn strategic(schema: &Schema, current: &Value, patch: &[u8]) -> Result<Patched> {
    let patch = parse_object(patch).map_err(Error::bad_request)?.unwrap_or_default();
    let current = current.as_object().cloned().unwrap_or_default();
    let was = current.clone();
    let mut object = Merge { set: schema.set() }.maps(schema.id(), current, patch)?;
    // The merged map becomes an object of the kind that it was, whatever the patch calls it.
    for key in ["apiVersion", "kind"] {
        if let (Some(true), Some(was)) = (object.get(key).map(Value::is_string), was.get(key)) {
            object.insert(key.to_owned(), was.clone());
        }
    }
    let mut object = Value::Object(object);
    wrap_numbers(schema, &mut object);
    Ok(Patched { object, strict: Vec::new() })
}

/// A fault that the real server reports with nothing but its text.
pub(super) fn fault(message: impl Into<String>) -> Error {
    Error::new(500, "", message)
}

pub(super) fn no_merge_key(item: &Value, key: &str) -> Error {
    fault(format!("map: {} does not contain declared merge key: {key}", go_text(item)))
}

pub(super) fn wrong_type(expected: &str, found: &Value) -> Error {
    fault(format!("expected a {expected}, but received a {}", go_type(found)))
}

fn bad_order() -> Error {
    Error::bad_request("invalid patch format of setElementOrder list")
}

struct Merge<'a> {
    set: &'a Set,
}

impl Merge<'_> {
    fn maps(&self, place: NodeId, mut original: Fields, mut patch: Fields) -> Result<Fields> {
        if let Some(directive) = patch.remove(DIRECTIVE) {
            return match directive.as_str() {
                Some("replace") => Ok(patch),
                Some("delete") => Ok(Fields::new()),
                _ => Err(unknown_directive(&directive, patch)),
            };
        }
        retain_keys(&mut original, &mut patch)?;
        self.ordered_lists(place, &mut original, &mut patch)?;
        for (key, value) in patch {
            let (name, deletes) = match key.strip_prefix(DELETE_FROM_LIST) {
                None => (key.as_str(), false),
                Some(rest) => {
                    let name = rest.strip_prefix('/');
                    (name.ok_or_else(|| Error::bad_request("invalid patch format of primitive list"))?, true)
                }
            };
            self.field(place, &mut original, name, value, deletes)?;
        }
        Ok(original)
    }

    /// `deletes`: the value lists what is to go from a list of scalars.
    fn field(
        &self,
        place: NodeId,
        original: &mut Fields,
        name: &str,
        patch: Value,
        deletes: bool,
    ) -> Result<()> {
        if patch.is_null() {
            original.remove(name);
            return Ok(());
        }
        let merged = match (original.remove(name), patch) {
            (Some(Value::Object(old)), Value::Object(patch)) => {
                let (below, how) = self.lookup(place, name)?;
                let merged = if how.replace { patch } else { self.maps(below, old, patch)? };
                Some(Value::Object(merged))
            }
            (Some(Value::Array(old)), Value::Array(patch)) => {
                let (items, how) = self.lookup_list(place, name)?;
                Some(Value::Array(self.lists(items, how, old, patch, deletes)?))
            }
            (old, _) if deletes => old,
            (Some(old), patch) if is_same_scalar_type(&old, &patch) => Some(patch),
            (_, patch) => without_directives(without_nulls(patch)),
        };
        if let Some(merged) = merged {
            original.insert(name.to_owned(), merged);
        }
        Ok(())
    }

    fn lists(
        &self,
        place: NodeId,
        how: &Patch,
        original: Vec<Value>,
        patch: Vec<Value>,
        deletes: bool,
    ) -> Result<Vec<Value>> {
        if !how.merge && !deletes {
            return Ok(patch);
        }
        if original.is_empty() && patch.is_empty() {
            return Ok(original);
        }
        if item_kind(&original, &patch)? != Key::Maps {
            if deletes {
                let gone: HashSet<&Value> = patch.iter().collect();
                return Ok(original.into_iter().filter(|item| !gone.contains(item)).collect());
            }
            let merged = dedupe(original.iter().chain(&patch));
            return arrange(merged, &patch, &original, None);
        }
        let Some(key) = how.merge_key.as_deref() else {
            return Err(fault("cannot merge lists without merge key for struct"));
        };
        let (original, patch) = special_items(original, patch, key)?;
        let mut merged = original.clone();
        let mut places = Places::of(&merged, key);
        for item in &patch {
            let value = item.get(key).ok_or_else(|| no_merge_key(item, key))?;
            match places.first(value) {
                Some(at) => {
                    let old = std::mem::take(&mut merged[at]);
                    let (Value::Object(old), Value::Object(patch)) = (old, item.clone()) else { continue };
                    merged[at] = Value::Object(self.maps(place, old, patch)?);
                    // A key that is patched to null goes.
                    if merged[at].get(key) != Some(value) {
                        places.moved(at, value, merged[at].get(key));
                    }
                }
                None => {
                    places.add(merged.len(), value);
                    merged.push(item.clone());
                }
            }
        }
        arrange(merged, &patch, &original, Some(key))
    }

    /// Merges and orders every list for which the patch gives an order.
    fn ordered_lists(&self, place: NodeId, original: &mut Fields, patch: &mut Fields) -> Result<()> {
        let directives: Vec<String> =
            patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
        for directive in directives {
            let Some(order) = patch.remove(&directive) else { continue };
            let Value::Array(order) = order else { return Err(wrong_type("[]interface {}", &order)) };
            let name = directive.strip_prefix(SET_ORDER).and_then(|rest| rest.strip_prefix('/'));
            let name = name.ok_or_else(bad_order)?;
            let list_of = |fields: &Fields| match fields.get(name) {
                None => Ok(None),
                Some(Value::Array(items)) => Ok(Some(items.clone())),
                Some(other) => Err(wrong_type("[]interface {}", other)),
            };
            let (old, new) = (list_of(original)?, list_of(patch)?);
            let (items, how) = self.lookup_list(place, name)?;
            let key = how.merge_key.as_deref();
            validate_order(new.as_deref().unwrap_or_default(), &order, key)?;
            let merged = match (&old, &new) {
                (None, None) => continue,
                (Some(old), None) => old.clone(),
                (None, Some(new)) => new.iter().cloned().filter_map(without_directives).collect(),
                (Some(old), Some(new)) => self.lists(items, how, old.clone(), new.clone(), false)?,
            };
            let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
            let key = match item_kind(&old, &new)? {
                Key::Maps => key,
                Key::Scalars => None,
            };
            original.insert(name.to_owned(), Value::Array(arrange(merged, &order, &old, key)?));
            patch.remove(name);
        }
        Ok(())
    }

    fn lookup(&self, place: NodeId, name: &str) -> Result<(NodeId, &Patch)> {
        let node = self.set.node(place);
        if let Shape::Object(object) = &node.shape {
            if let Some(field) = object.field(name) {
                return Ok((field.node, &field.patch));
            }
            if object.additional.is_some() {
                let message = "merging an object in json but data type is not struct, instead is: map";
                return Err(fault(message));
            }
        }
        let full_name = self.set.names.iter().find(|(_, id)| **id == place).map(|(name, _)| &**name);
        let short = full_name.and_then(|name| name.rsplit('.').next()).unwrap_or_default();
        Err(fault(format!("unable to find api field in struct {short} for the json field {name:?}")))
    }

    fn lookup_list(&self, place: NodeId, name: &str) -> Result<(NodeId, &Patch)> {
        let (below, how) = self.lookup(place, name)?;
        match &self.set.node(below).shape {
            Shape::List(list) => Ok((list.items, how)),
            _ => Err(fault("expected slice or array type, but got: struct")),
        }
    }
}

fn unknown_directive(directive: &Value, mut item: Fields) -> Error {
    item.insert(DIRECTIVE.to_owned(), directive.clone());
    fault(format!("unknown patch type: {} in map: {}", go_text(directive), go_text(&Value::Object(item))))
}

/// Drops from the original what the patch does not list, if it lists what stays.
fn retain_keys(original: &mut Fields, patch: &mut Fields) -> Result<()> {
    let malformed = || Error::bad_request("invalid patch format of retainKeys");
    let Some(kept) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(kept) = kept else { return Err(malformed()) };
    let kept: HashSet<&str> = kept.iter().filter_map(Value::as_str).collect();
    let is_kept = |key: &str| kept.contains(key);
    let is_free = |key: &str| key.starts_with(DELETE_FROM_LIST) || key.starts_with(SET_ORDER);
    if patch.iter().any(|(key, value)| !value.is_null() && !is_free(key) && !is_kept(key)) {
        return Err(malformed());
    }
    original.retain(|key, _| is_kept(key));
    Ok(())
}

/// Where the items of a list are, by the value of their key.
struct Places(HashMap<Value, BTreeSet<usize>>);

impl Places {
    fn of(items: &[Value], key: &str) -> Self {
        let mut places = Places(HashMap::with_capacity(items.len()));
        for (at, item) in items.iter().enumerate() {
            if let Some(value) = item.get(key) {
                places.add(at, value);
            }
        }
        places
    }

    fn first(&self, value: &Value) -> Option<usize> {
        self.0.get(value)?.first().copied()
    }

    fn add(&mut self, at: usize, value: &Value) {
        match self.0.get_mut(value) {
            Some(places) => {
                places.insert(at);
            }
            None => {
                self.0.insert(value.clone(), BTreeSet::from([at]));
            }
        }
    }

    fn moved(&mut self, at: usize, from: &Value, to: Option<&Value>) {
        if let Some(places) = self.0.get_mut(from) {
            places.remove(&at);
        }
        if let Some(to) = to {
            self.add(at, to);
        }
    }
}

/// Carries out what items of the patch direct: what is left of the original, and the patch without them.
fn special_items(mut original: Vec<Value>, patch: Vec<Value>, key: &str) -> Result<(Vec<Value>, Vec<Value>)> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut deleted = HashSet::new();
    let mut replace = false;
    for item in patch {
        let Some(directive) = item.get(DIRECTIVE) else {
            plain.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let value = item.get(key).ok_or_else(|| no_merge_key(&item, key))?;
                deleted.insert(value.clone());
            }
            Some("replace") => replace = true,
            Some("merge") => return Err(fault("merging lists cannot yet be specified in the patch")),
            _ => {
                let directive = directive.clone();
                let Value::Object(item) = item else { continue };
                return Err(unknown_directive(&directive, item));
            }
        }
    }
    original.retain(|item| item.get(key).is_none_or(|value| !deleted.contains(value)));
    Ok(if replace { (plain, Vec::new()) } else { (original, plain) })
}

fn is_same_scalar_type(left: &Value, right: &Value) -> bool {
    !left.is_null() && go_type(left) == go_type(right)
}

/// The value without anything that directs how to merge; none if it is nothing else.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => {
            let kept =
                fields.into_iter().filter_map(|(name, value)| Some((name, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        other => Some(other),
    }
}
