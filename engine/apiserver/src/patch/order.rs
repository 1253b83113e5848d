//! The order of merged lists: what the patch says first, then what the live object had.

use std::collections::{HashMap, HashSet};

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
    let mut seen = HashSet::new();
    items.filter(|item| seen.insert(*item)).cloned().collect()
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
    let (by_patch, by_live) = (First::of(patch, key), First::of(live, key));
    let placed = merged.into_iter().map(|item| Placed {
        patch: by_patch.place(&item, key),
        live: by_live.place(&item, key),
        item,
    });
    let (mut named, mut rest): (Vec<Placed>, Vec<Placed>) = placed.partition(|one| one.patch.is_some());
    named.sort_by_key(|one| one.patch);
    rest.sort_by_key(|one| one.live.unwrap_or(usize::MAX));

    let mut arranged = Vec::with_capacity(named.len() + rest.len());
    let mut rest = rest.into_iter().peekable();
    for one in named {
        let before = |other: &Placed| matches!((other.live, one.live), (Some(a), Some(b)) if a < b);
        while let Some(other) = rest.next_if(before) {
            arranged.push(other.item);
        }
        arranged.push(one.item);
    }
    arranged.extend(rest.map(|one| one.item));
    Ok(arranged)
}

/// An item of the merged list, and where the others have it.
struct Placed {
    patch: Option<usize>,
    live: Option<usize>,
    item: Value,
}

/// Where each item of a list comes first.
struct First<'v>(HashMap<&'v Value, usize>);

impl<'v> First<'v> {
    fn of(items: &'v [Value], key: Option<&str>) -> Self {
        let mut first = HashMap::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            if let Some(identity) = identity(item, key) {
                first.entry(identity).or_insert(at);
            }
        }
        First(first)
    }

    fn place(&self, item: &Value, key: Option<&str>) -> Option<usize> {
        self.0.get(identity(item, key)?).copied()
    }
}

/// What tells an item of a list from the others.
fn identity<'v>(item: &'v Value, key: Option<&str>) -> Option<&'v Value> {
    match key {
        Some(key) => item.get(key),
        None => Some(item),
    }
}

fn is_same(left: &Value, right: &Value, key: Option<&str>) -> bool {
    identity(left, key) == identity(right, key)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn items_come_as_the_patch_has_them_and_the_rest_as_it_was() {
        let named = |names: &str| -> Vec<Value> {
            names.chars().map(|name| json!({"name": name.to_string()})).collect()
        };
        let check = |merged: &str, patch: &str, live: &str, expected: &str| {
            let arranged = arrange(named(merged), &named(patch), &named(live), Some("name")).unwrap();
            assert_eq!(arranged, named(expected), "{merged} {patch} {live}");
        };
        check("abcd", "ca", "abcd", "bcad");
        check("abx", "xb", "ab", "xab");
        check("abcxy", "yx", "abc", "yxabc");
        check("aab", "b", "aab", "aab");
    }
}
