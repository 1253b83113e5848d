//! Looking into decoded objects, where an absent field and a null one are the same.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::field::{Error, Fault, Path};
use crate::kinds::walk;
pub(crate) use crate::kinds::walk::{
    Faults, IMMUTABLE, find_mut as within, items_mut as each, same, set_absent as default, text,
};

/// The list at `key`; an absent one has no items.
pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The strings of the list at `key`.
pub(crate) fn texts<'a>(value: &'a Value, key: &str) -> Vec<&'a str> {
    list(value, key).iter().map(|item| item.as_str().unwrap_or_default()).collect()
}

/// The entries of the map at `key`.
pub(crate) fn entries<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    value[key].as_object().into_iter().flatten().map(|(name, item)| (name.as_str(), item))
}

/// The number at `key`, if there is one.
pub(crate) fn int(value: &Value, key: &str) -> Option<i64> {
    value[key].as_i64()
}

/// The truth at `key`; an absent one is false.
pub(crate) fn flag(value: &Value, key: &str) -> bool {
    value[key].as_bool().unwrap_or_default()
}

/// Whether `key` was given at all: a pointer that is not nil.
pub(crate) fn has(value: &Value, key: &str) -> bool {
    !value[key].is_null()
}

/// The object's own name.
pub(crate) fn name(object: &Value) -> &str {
    text(&object["metadata"], "name")
}

/// Whether Go's JSON would leave the value out: null, `""`, `0`, `false`, `[]`, `{}`.
pub(crate) fn empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(truth) => !truth,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// The fields of `value`, which becomes an object if it was nothing.
pub(crate) fn fields(value: &mut Value) -> Option<&mut Map<String, Value>> {
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

/// Sets a plain field that has its zero value.
pub(crate) fn default_empty(value: &mut Value, key: &str, to: impl Into<Value>) {
    if empty(&value[key])
        && let Some(fields) = fields(value)
    {
        fields.insert(key.to_owned(), to.into());
    }
}

/// A fault of a value whose text is given: Go shows some values in a form that no object here has.
pub(crate) fn shown(path: &Path, value: &str, detail: &str) -> Error {
    let why = if detail.is_empty() { value.to_owned() } else { format!("{value}: {detail}") };
    unshown(path, &why)
}

/// A fault that leaves its value out.
pub(crate) fn unshown(path: &Path, detail: &str) -> Error {
    Error { fault: Fault::Invalid, path: path.clone(), value: None, detail: detail.to_owned() }
}

/// One fault for each thing that a rule finds wrong with a string.
pub(crate) fn each_wrong(path: &Path, value: &str, wrong: Vec<String>) -> Faults {
    wrong.into_iter().map(|why| Error::invalid(path, value, why)).collect()
}

/// What is wrong if a field that may not change did.
pub(crate) fn immutable(new: &Value, old: &Value, path: &Path) -> Faults {
    if same(new, old) { Vec::new() } else { vec![Error::invalid(path, new.clone(), IMMUTABLE)] }
}

/// What is wrong if a number that was given is negative.
pub(crate) fn not_negative(value: &Value, key: &str, path: &Path) -> Faults {
    match int(value, key) {
        Some(number) if number < 0 => {
            vec![Error::invalid(&path.child(key), number, walk::NEGATIVE)]
        }
        _ => Vec::new(),
    }
}

/// What is wrong if a string is not one of `supported`.
pub(crate) fn one_of(value: &str, path: &Path, supported: &[&str]) -> Faults {
    if supported.contains(&value) { Vec::new() } else { vec![Error::not_supported(path, value, supported)] }
}

/// The first item of a list that an earlier one equals, by what `key` finds in it.
pub(crate) fn repeats<'a, T: Ord + Clone>(
    items: &'a [Value],
    key: impl Fn(&'a Value) -> T,
) -> impl Iterator<Item = (usize, T)> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let one = key(item);
        if !seen.insert(one.clone()) {
            found.push((index, one));
        }
    }
    found.into_iter()
}
