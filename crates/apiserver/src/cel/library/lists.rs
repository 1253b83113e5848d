//! Functions on lists and sets.

use std::cmp::Ordering;
use std::rc::Rc;

use super::super::value::{Error, LONGEST_LIST, List, Result, Value};

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Result<Value<'a>>> {
    if let ("lists.range", [Value::Int(end)]) = (function, args) {
        return Some(range(*end));
    }
    let (Value::List(list), rest) = args.split_first()? else { return None };
    let items = &list.items;
    Some(match (function, rest) {
        ("isSorted", []) => is_sorted(items),
        ("sum", []) => sum(items)?,
        ("min", []) => extreme(items, "min", Ordering::Greater),
        ("max", []) => extreme(items, "max", Ordering::Less),
        ("indexOf", [wanted]) => Ok(position(items.iter().enumerate(), wanted)),
        ("lastIndexOf", [wanted]) => Ok(position(items.iter().enumerate().rev(), wanted)),
        ("slice", [Value::Int(start), Value::Int(end)]) => slice(items, *start, *end),
        ("flatten", []) => flatten(list, 1),
        ("flatten", [Value::Int(depth)]) => flatten(list, *depth),
        ("sort", []) => sort(items),
        ("reverse", []) => Ok(Value::list(items.iter().rev().cloned().collect())),
        ("distinct", []) => Ok(distinct(items)),
        ("first", []) => Ok(Value::Optional(items.first().cloned().map(Rc::new))),
        ("last", []) => Ok(Value::Optional(items.last().cloned().map(Rc::new))),
        ("sets.contains", [Value::List(other)]) => Ok(Value::Bool(contains(items, &other.items))),
        ("sets.equivalent", [Value::List(other)]) => {
            Ok(Value::Bool(contains(items, &other.items) && contains(&other.items, items)))
        }
        ("sets.intersects", [Value::List(other)]) => {
            Ok(Value::Bool(other.items.iter().any(|item| has(items, item))))
        }
        _ => return None,
    })
}

fn range<'a>(end: i64) -> Result<Value<'a>> {
    if end > LONGEST_LIST as i64 {
        return Err(Error::too_much());
    }
    Ok(Value::list((0..end).map(Value::Int).collect()))
}

fn has<'a>(items: &[Value<'a>], wanted: &Value<'a>) -> bool {
    items.iter().any(|item| matches!(item.equals(wanted), Ok(true)))
}

fn contains<'a>(items: &[Value<'a>], wanted: &[Value<'a>]) -> bool {
    wanted.iter().all(|wanted| has(items, wanted))
}

fn position<'i, 'a: 'i>(
    mut items: impl Iterator<Item = (usize, &'i Value<'a>)>,
    wanted: &Value<'a>,
) -> Value<'a> {
    let found = items.find(|(_, item)| matches!(item.equals(wanted), Ok(true)));
    Value::Int(found.map_or(-1, |(at, _)| at as i64))
}

fn is_sorted<'a>(items: &[Value<'a>]) -> Result<Value<'a>> {
    for pair in items.windows(2) {
        if pair[0].compare(&pair[1])? == Ordering::Greater {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn sum<'a>(items: &[Value<'a>]) -> Option<Result<Value<'a>>> {
    let zero = match items.first() {
        None | Some(Value::Int(_)) => Value::Int(0),
        Some(Value::Uint(_)) => Value::Uint(0),
        Some(Value::Double(_)) => Value::Double(0.0),
        Some(Value::Duration(_)) => Value::Duration(0),
        Some(_) => return None,
    };
    let add = |sum: Value<'a>, item: &Value<'a>| super::call("_+_", &[sum, item.clone()]);
    Some(items.iter().try_fold(zero, add))
}

fn extreme<'a>(items: &[Value<'a>], name: &str, replaced_when: Ordering) -> Result<Value<'a>> {
    let (first, rest) =
        items.split_first().ok_or_else(|| Error::new(format!("{name} called on empty list")))?;
    let mut best = first;
    for item in rest {
        if best.compare(item)? == replaced_when {
            best = item;
        }
    }
    best.clone().fit()
}

fn slice<'a>(items: &[Value<'a>], start: i64, end: i64) -> Result<Value<'a>> {
    let length = items.len() as i64;
    let why = match () {
        () if start < 0 || end < 0 => {
            format!("cannot slice({start}, {end}), negative indexes not supported")
        }
        () if start > end => {
            format!("cannot slice({start}, {end}), start index must be less than or equal to end index")
        }
        () if length < end => format!("cannot slice({start}, {end}), list is length {length}"),
        () => return Ok(Value::list(items[start as usize..end as usize].to_vec())),
    };
    Err(Error::new(why))
}

fn flatten<'a>(list: &List<'a>, depth: i64) -> Result<Value<'a>> {
    if depth < 0 {
        return Err(Error::new("level must be non-negative"));
    }
    let mut flat = Vec::new();
    flatten_into(list, depth, &mut flat)?;
    Ok(Value::list(flat))
}

fn flatten_into<'a>(list: &List<'a>, depth: i64, flat: &mut Vec<Value<'a>>) -> Result<()> {
    for item in &list.items {
        match item {
            Value::List(inner) if depth > 0 => flatten_into(inner, depth - 1, flat)?,
            other => flat.push(other.clone()),
        }
        if flat.len() > LONGEST_LIST {
            return Err(Error::too_much());
        }
    }
    Ok(())
}

fn sort<'a>(items: &[Value<'a>]) -> Result<Value<'a>> {
    sort_by_keys(items.to_vec(), items.to_vec())
}

/// The items in the order of their keys.
pub(in super::super) fn sort_by_keys<'a>(keys: Vec<Value<'a>>, items: Vec<Value<'a>>) -> Result<Value<'a>> {
    if let Some(first) = keys.first() {
        if first.compare(first).is_err() {
            return Err(Error::new("list elements must be comparable"));
        }
        if keys.iter().any(|key| key.type_name() != first.type_name()) {
            return Err(Error::new("list elements must have the same type"));
        }
    }
    let mut pairs: Vec<_> = keys.into_iter().zip(items).collect();
    pairs.sort_by(|(left, _), (right, _)| left.compare(right).unwrap_or(Ordering::Equal));
    Ok(Value::list(pairs.into_iter().map(|(_, item)| item).collect()))
}

fn distinct<'a>(items: &[Value<'a>]) -> Value<'a> {
    let mut found: Vec<Value<'a>> = Vec::new();
    for item in items {
        if !has(&found, item) {
            found.push(item.clone());
        }
    }
    Value::list(found)
}
