//! A configuration laid over an object without anybody owning it, as mutating admission policies do.

use serde_json::Value;

use super::element::Element;
use super::merge::merge;
use super::typed::{Duplicates, validate};
use super::types::{Items, Type, Types, View};
use crate::schema::Schema;

/// The object with the configuration over it. Nothing that is replaced as a whole may be in the configuration: whoever wrote
/// it may have meant to change a part, and the rest would be lost.
pub(crate) fn overlay(schema: &Schema, object: &Value, configuration: &Value) -> Result<Value, String> {
    let types = Types::new(schema);
    validate(&types, configuration, Duplicates::Forbidden)
        .map_err(|why| format!("failed to convert patch object to typed object: {why}"))?;
    let mut atomics = Vec::new();
    find_atomics(&types, types.root(), configuration, String::new(), &mut atomics);
    if !atomics.is_empty() {
        let atomics = atomics.join(", ");
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {atomics}"
        ));
    }
    validate(&types, object, Duplicates::Allowed)
        .map_err(|why| format!("failed to convert original object to typed object: {why}"))?;
    merge(&types, object, configuration).map_err(|why| format!("failed to merge patch: {why}"))
}

fn find_atomics(types: &Types<'_>, place: Type, value: &Value, path: String, found: &mut Vec<String>) {
    match (types.view(place, Some(value)), value) {
        (View::Map(map), Value::Object(fields)) => {
            if map.atomic {
                found.push(path.clone());
            }
            for (name, value) in fields {
                if let Some(below) = map.named(name) {
                    find_atomics(types, below, value, format!("{path}{}", Element::field(name)), found);
                }
            }
        }
        (View::List(list), Value::Array(items)) => {
            if matches!(list.items, Items::Atomic) {
                found.push(path.clone());
            }
            for (index, value) in items.iter().enumerate() {
                find_atomics(types, list.item, value, format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}
