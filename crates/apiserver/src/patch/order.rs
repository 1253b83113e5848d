//! The order of merged lists: what the patch says first, then what the live object had.

use serde_json::Value;

use crate::status::Result;

use super::strategic::{fault, no_merge_key, wrong_type};
use super::{does_not_apply, go_text};

const DIRECTIVE: &str = "$patch";

/// What the items of a list are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Maps,
    Scalars,
}

/// What the items of both lists are; they must be alike.
pub(super) fn item_kind(left: &[Value], right: &[Value]) -> Result<Key> {
    let mut items = left.iter().chain(right);
    let Some(first) = items.next() else {
        return Err(fault("no elements in any of the given slices"));
    };
    if first.is_array() {
        return Err(does_not_apply());
    }
    let is_like_first = |item: &Value| match (first, item) {
        (Value::Number(first), Value::Number(item)) => first.is_f64() == item.is_f64(),
        _ => std::mem::discriminant(first) == std::mem::discriminant(item),
    };
    if !items.all(is_like_first) {
        let show = |list: &[Value]| go_text(&Value::Array(list.to_vec()));
        return Err(fault(format!("list element types are not identical: [{} {}]", show(left), show(right))));
    }
    Ok(if first.is_object() { Key::Maps } else { Key::Scalars })
}

/// Every value once, where it came first.
pub(super) fn dedupe<'v>(items: impl Iterator<Item = &'v Value>) -> Vec<Value> {
    let mut kept: Vec<Value> = Vec::new();
    for item in items {
        if !kept.contains(item) {
            kept.push(item.clone());
        }
    }
    kept
}

/// Where the item is whose `key` has this value.
pub(super) fn find(items: &[Value], key: &str, value: &Value) -> Result<Option<usize>> {
    for (at, item) in items.iter().enumerate() {
        let Value::Object(fields) = item else {
            return Err(fault(format!("value for key {at} is not a map")));
        };
        if fields.get(key) == Some(value) {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Removes every item whose `key` has this value.
pub(super) fn delete_matching(items: &mut Vec<Value>, key: &str, value: &Value) -> Result<()> {
    while let Some(at) = find(items, key, value)? {
        items.remove(at);
    }
    Ok(())
}

/// Items that `patch` names in its order, the rest in that of `live`; where the live list has both,
/// they are interleaved as they were.
pub(super) fn arrange(
    merged: Vec<Value>,
    patch: &[Value],
    live: &[Value],
    key: Option<&str>,
) -> Result<Vec<Value>> {
    if let Some(key) = key {
        let mut items = merged.iter().chain(patch).chain(live);
        if let Some(item) = items.find(|item| item.get(key).is_none()) {
            return Err(no_merge_key(item, key));
        }
    }
    let place = |order: &[Value], item: &Value| order.iter().position(|other| is_same(other, item, key));
    let (mut named, mut rest): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| place(patch, item).is_some());
    named.sort_by_key(|item| place(patch, item));
    rest.sort_by_key(|item| place(live, item).unwrap_or(usize::MAX));

    let mut arranged = Vec::with_capacity(named.len() + rest.len());
    let mut rest = rest.into_iter().peekable();
    for item in named {
        let before =
            |other: &Value| matches!((place(live, other), place(live, &item)), (Some(a), Some(b)) if a < b);
        while let Some(other) = rest.next_if(before) {
            arranged.push(other);
        }
        arranged.push(item);
    }
    arranged.extend(rest);
    Ok(arranged)
}

fn is_same(left: &Value, right: &Value, key: Option<&str>) -> bool {
    match key {
        Some(key) => left.get(key) == right.get(key),
        None => left == right,
    }
}

/// The order must name every item of the patch that is not deleted, and in the same order.
pub(super) fn validate_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<()> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let as_map = |item: &Value| match (key, item.is_object()) {
        (Some(_), false) => Err(wrong_type("map[string]interface {}", item)),
        _ => Ok(()),
    };
    patch.iter().try_for_each(as_map)?;
    let is_deletion = |item: &Value| item.get(DIRECTIVE).is_some_and(|directive| directive == "delete");
    let mut items = patch.iter().filter(|item| !is_deletion(item)).peekable();
    let mut order_left = order.iter();
    // An item with a directive is passed over only while there is order left: one that comes last is
    // taken for one that has no place.
    while let (Some(item), false) = (items.peek(), order_left.as_slice().is_empty()) {
        if item.get(DIRECTIVE).is_some() {
            items.next();
            continue;
        }
        let Some(named) = order_left.next() else { break };
        as_map(named)?;
        if let Some(key) = key
            && let Some(without) = [*item, named].into_iter().find(|one| one.get(key).is_none())
        {
            return Err(no_merge_key(without, key));
        }
        if is_same(item, named, key) {
            items.next();
        }
    }
    if items.peek().is_none() {
        return Ok(());
    }
    let show = |list: &[Value]| go_text(&Value::Array(list.to_vec()));
    Err(fault(format!(
        "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
        show(patch),
        show(order)
    )))
}
