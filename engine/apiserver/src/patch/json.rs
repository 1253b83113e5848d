//! JSON patch, with the leniencies of the library that the real server uses: indices may count from
//! the end, and a missing field may be replaced.

use serde_json::{Map, Value};

use crate::schema::depth;
use crate::status::{Error, Result};

use super::{Patched, Unknown, does_not_apply, go_kind, parse};

/// A patch of more operations is refused.
const MOST_OPERATIONS: usize = 10_000;
/// A patch that copies more bytes of JSON than this is refused: copies of copies grow without bounds.
const MOST_COPIED: usize = 3 * 1024 * 1024;
const KNOWN: [&str; 4] = ["op", "path", "from", "value"];

/// Applies a JSON patch.
pub fn json(current: &Value, patch: &[u8], unknown: Unknown) -> Result<Patched> {
    let (operations, strict) = decode(patch, unknown)?;
    if operations.len() > MOST_OPERATIONS {
        return Err(Error::too_large(format!(
            "The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let mut object = current.clone();
    let mut copied = 0;
    for operation in &operations {
        run(&mut object, operation, &mut copied).ok_or_else(does_not_apply)?;
    }
    Ok(Patched { object, strict })
}

type Operation = Map<String, Value>;

/// The operations, and what is odd about them.
fn decode(patch: &[u8], unknown: Unknown) -> Result<(Vec<Operation>, Vec<String>)> {
    let prefix = if unknown == Unknown::Report { "error decoding patch: " } else { "" };
    let bad = |why: String| Error::bad_request(format!("{prefix}{why}"));
    let (list_type, item_type) = match unknown {
        Unknown::Report => ("[]handlers.jsonPatchOp", "handlers.jsonPatchOp"),
        Unknown::Ignore => ("jsonpatch.Patch", "jsonpatch.Operation"),
    };
    let mismatch = |value: &Value, into: &str| {
        bad(format!("json: cannot unmarshal {} into Go value of type {into}", go_kind(value)))
    };
    let items = match parse(patch).map_err(bad)? {
        Value::Array(items) => items,
        Value::Null => Vec::new(),
        other => return Err(mismatch(&other, list_type)),
    };
    let mut operations = Vec::with_capacity(items.len());
    let mut strict = Vec::new();
    for (at, item) in items.into_iter().enumerate() {
        let operation = match item {
            Value::Object(operation) => operation,
            Value::Null => Operation::new(),
            other => return Err(mismatch(&other, item_type)),
        };
        if unknown == Unknown::Report {
            for (name, value) in &operation {
                if !KNOWN.contains(&name.as_str()) {
                    strict.push(format!("json patch unknown field \"[{at}].{name}\""));
                } else if name != "value" && !value.is_string() && !value.is_null() {
                    let kind = go_kind(value);
                    return Err(bad(format!(
                        "json: cannot unmarshal {kind} into Go struct field jsonPatchOp.{name} of type string"
                    )));
                }
            }
        }
        operations.push(operation);
    }
    Ok((operations, strict))
}

/// Runs one operation; none if it does not fit the document. (Why not is nowhere shown.)
fn run(document: &mut Value, operation: &Operation, copied: &mut usize) -> Option<()> {
    let text = |name: &str| operation.get(name).and_then(Value::as_str);
    let value = || operation.get("value").cloned().unwrap_or(Value::Null);
    let path = || text("path");
    match text("op")? {
        "add" => add(document, path()?, value()),
        "remove" => remove(document, path()?).map(drop),
        "replace" => replace(document, path()?, value()),
        "move" => {
            let moved = remove(document, text("from")?)?;
            add(document, path()?, moved)
        }
        "copy" => {
            let found = get(document, text("from")?)?;
            *copied += depth::written_size(found);
            let found = (*copied <= MOST_COPIED).then(|| found.clone())?;
            add(document, path()?, found)
        }
        "test" => {
            let found = if path()?.is_empty() { document } else { get(document, path()?)? };
            (found == operation.get("value").unwrap_or(&Value::Null)).then_some(())
        }
        _ => None,
    }
}

/// The parent of the place, and the last step to it. The document itself has no parent.
fn parent<'d, 'p>(document: &'d mut Value, path: &'p str) -> Option<(&'d mut Value, String)> {
    let unescape = |step: &'p str| step.replace("~1", "/").replace("~0", "~");
    let (_, steps) = path.split_once('/')?;
    let (above, last) = steps.rsplit_once('/').map_or((None, steps), |(above, last)| (Some(above), last));
    let mut place = document;
    for step in above.into_iter().flat_map(|above| above.split('/')) {
        let step = unescape(step);
        place = match place {
            Value::Object(fields) => fields.get_mut(&step)?,
            Value::Array(items) => {
                let at = index(&step, items.len())?;
                items.get_mut(at)?
            }
            _ => return None,
        };
    }
    (place.is_object() || place.is_array()).then(|| (place, unescape(last)))
}

/// The place of an item; negative numbers count from the end of `length` items.
fn index(step: &str, length: usize) -> Option<usize> {
    let number: i64 = step.parse().ok()?;
    let number = if number < 0 { number + length as i64 } else { number };
    usize::try_from(number).ok()
}

/// What is at the path. A field that is not there counts as null.
fn get<'d>(document: &'d mut Value, path: &str) -> Option<&'d Value> {
    match parent(document, path)? {
        (Value::Object(fields), step) => Some(fields.get(&step).unwrap_or(&Value::Null)),
        (Value::Array(items), step) => items.get(index(&step, items.len())?),
        _ => None,
    }
}

/// Nothing gets deeper than what can be stored, at no step: values are walked, compared and dropped level by level.
fn fits(path: &str, value: &Value) -> Option<()> {
    let above = path.bytes().filter(|byte| *byte == b'/').count();
    depth::at_most(value, depth::DEEPEST.checked_sub(above)?).then_some(())
}

fn add(document: &mut Value, path: &str, value: Value) -> Option<()> {
    fits(path, &value)?;
    match parent(document, path)? {
        (Value::Object(fields), step) => {
            fields.insert(step, value);
        }
        (Value::Array(items), step) if step == "-" => items.push(value),
        (Value::Array(items), step) => {
            let at = index(&step, items.len() + 1).filter(|at| *at <= items.len())?;
            items.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(document: &mut Value, path: &str) -> Option<Value> {
    match parent(document, path)? {
        (Value::Object(fields), step) => fields.remove(&step),
        (Value::Array(items), step) => {
            let at = index(&step, items.len()).filter(|at| *at < items.len())?;
            Some(items.remove(at))
        }
        _ => None,
    }
}

fn replace(document: &mut Value, path: &str, value: Value) -> Option<()> {
    fits(path, &value)?;
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return None;
        }
        *document = value;
        return Some(());
    }
    match parent(document, path)? {
        (Value::Object(fields), step) => {
            fields.insert(step, value);
        }
        (Value::Array(items), step) => {
            let at = index(&step, items.len())?;
            *items.get_mut(at)? = value;
        }
        _ => return None,
    }
    Some(())
}
