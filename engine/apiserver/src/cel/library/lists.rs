//! Functions on lists and sets.

use std::cmp::Ordering;
use std::rc::Rc;

use super::super::meter::{Meter, VALUE};
use super::super::value::{Error, LONGEST_LIST, List, Result, Value};

pub(super) fn call<'a>(function: &str, args: &[Value<'a>], meter: &Meter<'_>) -> Option<Result<Value<'a>>> {
    if let ("lists.range", [Value::Int(end)]) = (function, args) {
        return Some(range(*end, meter));
    }
    let (Value::List(list), rest) = args.split_first()? else { return None };
    Some(match (function, rest) {
        ("isSorted", []) => is_sorted(list, meter),
        ("sum", []) => sum(list, meter)?,
        ("min", []) => extreme(list, "min", Ordering::Greater, meter),
        ("max", []) => extreme(list, "max", Ordering::Less, meter),
        ("indexOf", [wanted]) => position(list.iter().enumerate(), wanted, meter),
        ("lastIndexOf", [wanted]) => position(list.iter().enumerate().rev(), wanted, meter),
        ("slice", [Value::Int(start), Value::Int(end)]) => slice(list, *start, *end, meter),
        ("flatten", []) => flatten(list, 1, meter),
        ("flatten", [Value::Int(depth)]) => flatten(list, *depth, meter),
        ("sort", []) => sort(list, meter),
        ("reverse", []) => list.copied(meter).map(|mut items| {
            items.reverse();
            Value::list(items)
        }),
        ("distinct", []) => distinct(list, meter),
        ("first", []) => Ok(Value::Optional(list.get(0).map(Rc::new))),
        ("last", []) => {
            Ok(Value::Optional(list.len().checked_sub(1).and_then(|at| list.get(at)).map(Rc::new)))
        }
        ("sets.contains", [Value::List(other)]) => contains(list, other, meter).map(Value::Bool),
        ("sets.equivalent", [Value::List(other)]) => {
            let both = contains(list, other, meter).and_then(|all| Ok(all && contains(other, list, meter)?));
            both.map(Value::Bool)
        }
        ("sets.intersects", [Value::List(other)]) => intersects(list, other, meter).map(Value::Bool),
        _ => return None,
    })
}

fn range<'a>(end: i64, meter: &Meter<'_>) -> Result<Value<'a>> {
    if end > LONGEST_LIST as i64 {
        return Err(Error::too_much());
    }
    meter.make(usize::try_from(end).unwrap_or_default() * VALUE)?;
    Ok(Value::list((0..end).map(Value::Int).collect()))
}

fn contains<'a>(list: &List<'a>, wanted: &List<'a>, meter: &Meter<'_>) -> Result<bool> {
    for wanted in wanted.iter() {
        if !list.has(&wanted, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn intersects<'a>(list: &List<'a>, other: &List<'a>, meter: &Meter<'_>) -> Result<bool> {
    for item in other.iter() {
        if list.has(&item, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn position<'a>(
    items: impl Iterator<Item = (usize, Value<'a>)>,
    wanted: &Value<'a>,
    meter: &Meter<'_>,
) -> Result<Value<'a>> {
    for (at, item) in items {
        if item.same(wanted, meter)? {
            return Ok(Value::Int(at as i64));
        }
    }
    Ok(Value::Int(-1))
}

fn is_sorted<'a>(list: &List<'a>, meter: &Meter<'_>) -> Result<Value<'a>> {
    let mut before: Option<Value<'a>> = None;
    for item in list.iter() {
        if let Some(before) = &before
            && before.compare(&item, meter)? == Ordering::Greater
        {
            return Ok(Value::Bool(false));
        }
        before = Some(item);
    }
    Ok(Value::Bool(true))
}

fn sum<'a>(list: &List<'a>, meter: &Meter<'_>) -> Option<Result<Value<'a>>> {
    let zero = match list.get(0) {
        None | Some(Value::Int(_)) => Value::Int(0),
        Some(Value::Uint(_)) => Value::Uint(0),
        Some(Value::Double(_)) => Value::Double(0.0),
        Some(Value::Duration(_)) => Value::Duration(0),
        Some(_) => return None,
    };
    let add = |sum: Value<'a>, item: Value<'a>| {
        meter.touch(1)?;
        super::call("_+_", &[sum, item], meter)
    };
    Some(list.iter().try_fold(zero, add))
}

fn extreme<'a>(list: &List<'a>, name: &str, replaced_when: Ordering, meter: &Meter<'_>) -> Result<Value<'a>> {
    let mut items = list.iter();
    let mut best = items.next().ok_or_else(|| Error::new(format!("{name} called on empty list")))?;
    for item in items {
        if best.compare(&item, meter)? == replaced_when {
            best = item;
        }
    }
    best.fit()
}

fn slice<'a>(list: &List<'a>, start: i64, end: i64, meter: &Meter<'_>) -> Result<Value<'a>> {
    let length = list.len() as i64;
    let why = match () {
        () if start < 0 || end < 0 => {
            format!("cannot slice({start}, {end}), negative indexes not supported")
        }
        () if start > end => {
            format!("cannot slice({start}, {end}), start index must be less than or equal to end index")
        }
        () if length < end => format!("cannot slice({start}, {end}), list is length {length}"),
        () => {
            let (start, count) = (start as usize, (end - start) as usize);
            meter.make(count * VALUE)?;
            return Ok(Value::list((start..start + count).filter_map(|at| list.get(at)).collect()));
        }
    };
    Err(Error::new(why))
}

fn flatten<'a>(list: &List<'a>, depth: i64, meter: &Meter<'_>) -> Result<Value<'a>> {
    if depth < 0 {
        return Err(Error::new("level must be non-negative"));
    }
    let mut flat = Vec::new();
    flatten_into(list, depth, &mut flat, meter)?;
    Ok(Value::list(flat))
}

fn flatten_into<'a>(list: &List<'a>, depth: i64, flat: &mut Vec<Value<'a>>, meter: &Meter<'_>) -> Result<()> {
    for item in list.iter() {
        meter.touch(1)?;
        match item {
            Value::List(inner) if depth > 0 => flatten_into(&inner, depth - 1, flat, meter)?,
            other => {
                meter.make(VALUE)?;
                flat.push(other);
            }
        }
        if flat.len() > LONGEST_LIST {
            return Err(Error::too_much());
        }
    }
    Ok(())
}

fn sort<'a>(list: &List<'a>, meter: &Meter<'_>) -> Result<Value<'a>> {
    sort_by_keys(list.copied(meter)?, list.copied(meter)?, meter)
}

/// The items in the order of their keys.
pub(in super::super) fn sort_by_keys<'a>(
    keys: Vec<Value<'a>>,
    items: Vec<Value<'a>>,
    meter: &Meter<'_>,
) -> Result<Value<'a>> {
    if let Some(first) = keys.first() {
        if first.compare(first, meter).is_err() {
            return Err(Error::new("list elements must be comparable"));
        }
        if keys.iter().any(|key| key.type_name() != first.type_name()) {
            return Err(Error::new("list elements must have the same type"));
        }
    }
    let mut pairs: Vec<_> = keys.into_iter().zip(items).collect();
    // Once a limit is passed everything is equal, which ends the sorting soon.
    pairs.sort_by(|(left, _), (right, _)| left.compare(right, meter).unwrap_or(Ordering::Equal));
    meter.touch(0)?;
    Ok(Value::list(pairs.into_iter().map(|(_, item)| item).collect()))
}

fn distinct<'a>(list: &List<'a>, meter: &Meter<'_>) -> Result<Value<'a>> {
    let mut found: Vec<Value<'a>> = Vec::new();
    'items: for item in list.iter() {
        for known in &found {
            if known.same(&item, meter)? {
                continue 'items;
            }
        }
        meter.make(VALUE)?;
        found.push(item);
    }
    Ok(Value::list(found))
}
