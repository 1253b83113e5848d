//! Walking the steps of a path over a value.

use std::cmp::Ordering;

use serde_json::Value;

use super::{Filter, Slice, Step, Test};

/// Where the steps lead; `None` when one of them cannot be taken, which ends the whole walk.
pub(super) fn walk<'a>(steps: &'a [Step], from: Vec<&'a Value>) -> Option<Vec<&'a Value>> {
    steps.iter().try_fold(from, |at, step| take(step, at))
}

fn take<'a>(step: &'a Step, from: Vec<&'a Value>) -> Option<Vec<&'a Value>> {
    match step {
        Step::Field(name) => Some(from.into_iter().filter_map(|value| value.get(name)).collect()),
        Step::Wildcard => Some(from.into_iter().flat_map(children).collect()),
        Step::Recursive => {
            let mut found = Vec::new();
            from.into_iter().for_each(|value| descend(value, &mut found));
            Some(found)
        }
        Step::Slice(slice) => take_slice(*slice, from),
        Step::Filter(filter) => take_filter(filter, from),
        Step::Union(paths) => {
            let mut found = Vec::new();
            for path in paths {
                found.extend(walk(path, from.clone())?);
            }
            Some(found)
        }
        // A text stands alone, however many values the walk had.
        Step::Literal(text @ Value::String(_)) => Some(vec![text]),
        Step::Literal(literal) => Some(from.iter().map(|_| literal).collect()),
        Step::Identifier => None,
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(map) => map.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    }
}

fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    let below = children(value);
    // A text counts as something that has parts, but none that could be named.
    if !below.is_empty() || value.as_str().is_some_and(|text| !text.is_empty()) {
        found.push(value);
    }
    below.into_iter().for_each(|child| descend(child, found));
}

fn take_slice(slice: Slice, from: Vec<&Value>) -> Option<Vec<&Value>> {
    let mut found = Vec::new();
    for value in from {
        if value.is_null() {
            continue;
        }
        let items = value.as_array()?;
        let length = items.len() as i64;
        let from_end = |at: i64| if at < 0 { at + length } else { at };
        let start = from_end(slice.start.unwrap_or(0));
        let end = match slice.end.unwrap_or(length) {
            0 if slice.single => length,
            end => from_end(end),
        };
        if start == end {
            return Some(found);
        }
        if start < 0 || start >= length || end > length || start > end {
            return None;
        }
        let step = match slice.step {
            None => 1,
            Some(step) => usize::try_from(step).ok().filter(|step| *step > 0)?,
        };
        found.extend(items[start as usize..end as usize].iter().step_by(step));
    }
    Some(found)
}

fn take_filter<'a>(filter: &'a Filter, from: Vec<&'a Value>) -> Option<Vec<&'a Value>> {
    let mut found = Vec::new();
    for value in from {
        for item in value.as_array()? {
            let left = walk(&filter.left, vec![item]);
            if filter.test == Test::Exists {
                found.extend(left.filter(|left| !left.is_empty()).map(|_| item));
                continue;
            }
            let Some(left) = only(left?)? else { continue };
            let Some(right) = only(walk(&filter.right, vec![item])?)? else { continue };
            if passes(left, filter.test, right)? {
                found.push(item);
            }
        }
    }
    Some(found)
}

/// The one value to compare. None is fine, many are not.
fn only(values: Vec<&Value>) -> Option<Option<&Value>> {
    match values[..] {
        [] => Some(None),
        [one] => Some(Some(one)),
        _ => None,
    }
}

fn passes(left: &Value, test: Test, right: &Value) -> Option<bool> {
    if test == Test::Unknown {
        return None;
    }
    if let (Value::Bool(left), Value::Bool(right)) = (left, right) {
        return match test {
            Test::Equal => Some(left == right),
            Test::NotEqual => Some(left != right),
            _ => None,
        };
    }
    let order = compare(left, right)?;
    Some(match test {
        Test::Equal => order == Some(Ordering::Equal),
        Test::NotEqual => order != Some(Ordering::Equal),
        Test::Less => order == Some(Ordering::Less),
        Test::LessEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Test::Greater => order == Some(Ordering::Greater),
        Test::GreaterEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        Test::Exists | Test::Unknown => return None,
    })
}

/// `None` for types that do not compare: whole numbers and fractions are different types here.
fn compare(left: &Value, right: &Value) -> Option<Option<Ordering>> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Some(Some(left.cmp(right))),
        (Value::Number(_), Value::Number(_)) => match (whole(left), whole(right)) {
            (Some(left), Some(right)) => Some(Some(left.cmp(&right))),
            (None, None) => Some(left.as_f64()?.partial_cmp(&right.as_f64()?)),
            _ => None,
        },
        _ => None,
    }
}

/// The number as Kubernetes keeps it: `2.0` is stored as `2` and read back as a whole number.
pub(crate) fn whole(value: &Value) -> Option<i64> {
    let stored = |number: f64| {
        // Stored in its shortest digits, so that a large one comes back rounded to them.
        let text = (number.fract() == 0.0).then(|| number.to_string())?;
        text.parse().ok()
    };
    value.as_i64().or_else(|| value.as_f64().and_then(stored))
}
