//! Walking JSON objects: reading them with the path that a message will show, and filling gaps.

use serde_json::{Map, Value, json};

use crate::field::{Error, Path};

/// What is wrong, in the order it was found.
pub(crate) type Faults = Vec<Error>;

static NULL: Value = Value::Null;

/// A value and where it is. A value that is absent is `null`, and so is everything below it.
#[derive(Debug, Clone)]
pub(crate) struct At<'a> {
    pub(crate) value: &'a Value,
    pub(crate) path: Path,
}

impl<'a> At<'a> {
    pub(crate) fn new(value: &'a Value, path: Path) -> Self {
        At { value, path }
    }

    /// A field of an object, with the path that messages start with: `spec`, `metadata`.
    pub(crate) fn top(object: &'a Value, name: &str) -> Self {
        At::new(object.get(name).unwrap_or(&NULL), Path::new(name))
    }

    pub(crate) fn child(&self, name: &str) -> At<'a> {
        At::new(self.value.get(name).unwrap_or(&NULL), self.path.child(name))
    }

    /// The items of a list; none of what is no list.
    pub(crate) fn items(&self) -> impl ExactSizeIterator<Item = At<'a>> + DoubleEndedIterator + use<'a> {
        let path = self.path.clone();
        list(self.value).iter().enumerate().map(move |(at, value)| At::new(value, path.index(at)))
    }

    /// The entries of a map, sorted by key.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a str, At<'a>)> + use<'a> {
        let path = self.path.clone();
        self.value
            .as_object()
            .into_iter()
            .flatten()
            .map(move |(key, value)| (key.as_str(), At::new(value, path.key(key))))
    }

    /// Whether it is there at all, be it empty.
    pub(crate) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// The text here, empty if there is none.
    pub(crate) fn str(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    /// The text of a field, empty if there is none.
    pub(crate) fn text(&self, name: &str) -> &'a str {
        text(self.value, name)
    }

    /// The number of a field, if it is there.
    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        self.value.get(name).and_then(Value::as_i64)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.value.get(name).is_some_and(|value| !value.is_null())
    }

    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.value.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(crate) fn required(&self, detail: &str) -> Error {
        Error::required(&self.path, detail)
    }

    /// The value here is wrong.
    pub(crate) fn invalid(&self, detail: impl Into<String>) -> Error {
        Error::invalid(&self.path, self.value.clone(), detail)
    }

    pub(crate) fn forbidden(&self, detail: &str) -> Error {
        Error::forbidden(&self.path, detail)
    }

    pub(crate) fn duplicate(&self) -> Error {
        Error::duplicate(&self.path, self.value.clone())
    }

    pub(crate) fn not_found(&self) -> Error {
        Error::not_found(&self.path, self.value.clone())
    }

    /// The text here is none of `supported`.
    pub(crate) fn not_supported(&self, supported: &[&str]) -> Error {
        Error::not_supported(&self.path, self.str(), supported)
    }

    /// One fault for each sentence a rule of [`crate::names`] gives about the text here.
    pub(crate) fn obey(&self, rule: fn(&str) -> Vec<String>) -> Faults {
        rule(self.str()).into_iter().map(|why| Error::invalid(&self.path, self.str(), why)).collect()
    }

    /// Required, and then as the rule says.
    pub(crate) fn required_and(&self, rule: fn(&str) -> Vec<String>) -> Faults {
        if self.str().is_empty() { vec![self.required("")] } else { self.obey(rule) }
    }

    /// One fault if the number here is negative; absent is fine.
    pub(crate) fn non_negative(&self) -> Option<Error> {
        let value = self.value.as_i64().filter(|value| *value < 0)?;
        Some(Error::invalid(&self.path, value, NEGATIVE))
    }
}

/// What is said of a negative number.
pub(crate) const NEGATIVE: &str = "must be greater than or equal to 0";
/// What is said of a field that may not change.
pub(crate) const IMMUTABLE: &str = "field is immutable";

/// A value below others; `null` if any is absent.
pub(crate) fn get<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(value, |value, name| value.get(name).unwrap_or(&NULL))
}

/// The text of a field, empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The items of a list; none of what is no list.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Whether nothing is there: absent, or an empty text, list or map.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Equal as Go's semantic equality has it: empty lists and maps equal absent ones, and a struct equals
/// another however much of it is written out.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let extra = b.iter().filter(|(key, _)| !a.contains_key(*key));
            a.iter().all(|(key, value)| same(value, b.get(key).unwrap_or(&NULL)))
                && extra.into_iter().all(|(_, value)| is_nothing(value))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Null, other) | (other, Value::Null) => is_nothing(other),
        (a, b) => a == b,
    }
}

fn is_nothing(value: &Value) -> bool {
    matches!(value, Value::Null)
        || value.as_array().is_some_and(Vec::is_empty)
        || value.as_object().is_some_and(|map| map.values().all(is_nothing))
}

/// The value without fields that have nothing in them: what is [`same`] as another has the same form, so that
/// many values can be looked up instead of compared one by one.
pub(crate) fn without_nothing(value: &Value) -> Value {
    match value {
        nothing if is_nothing(nothing) => Value::Null,
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !is_nothing(value));
            Value::Object(kept.map(|(name, value)| (name.clone(), without_nothing(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nothing).collect()),
        other => other.clone(),
    }
}

/// One fault if a field changed.
pub(crate) fn immutable(new: &At<'_>, old: &At<'_>) -> Option<Error> {
    (!same(new.value, old.value)).then(|| new.invalid(IMMUTABLE))
}

// === filling gaps ===

/// A field as an object, made if it is absent. `parent` must be an object.
pub(crate) fn object_mut<'a>(parent: &'a mut Value, name: &str) -> &'a mut Value {
    let map = map_mut(parent);
    let value = map.entry(name).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    value
}

/// The map of an object; anything else becomes an empty one.
pub(crate) fn map_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it was just made an object")
}

/// A field that is there, to be changed.
pub(crate) fn find_mut<'a>(parent: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    parent.get_mut(name).filter(|value| !value.is_null())
}

/// A value below others that is there, to be changed.
pub(crate) fn find_path_mut<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, name| find_mut(value, name))
}

/// The items of a list, to be changed; none if it is absent.
pub(crate) fn items_mut<'a>(parent: &'a mut Value, name: &str) -> std::slice::IterMut<'a, Value> {
    parent.get_mut(name).and_then(Value::as_array_mut).map_or_else(Default::default, |items| items.iter_mut())
}

/// Sets a field that is absent: Go's pointers, whose zero is a value of its own.
pub(crate) fn set_absent(parent: &mut Value, name: &str, value: impl Into<Value>) {
    if parent.get(name).is_none_or(Value::is_null) {
        map_mut(parent).insert(name.to_owned(), value.into());
    }
}

/// Sets a field that is absent or zero: Go's plain values.
pub(crate) fn set_zero(parent: &mut Value, name: &str, value: impl Into<Value>) {
    let zero = match parent.get(name) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Number(number)) => number.as_f64() == Some(0.0),
        Some(_) => false,
    };
    if zero {
        map_mut(parent).insert(name.to_owned(), value.into());
    }
}

/// Drops a field.
pub(crate) fn remove(parent: &mut Value, name: &str) {
    if let Some(map) = parent.as_object_mut() {
        map.remove(name);
    }
}

/// Makes a field what it is in `from`, absent included.
pub(crate) fn copy(to: &mut Value, from: &Value, name: &str) {
    match from.get(name) {
        Some(value) => {
            map_mut(to).insert(name.to_owned(), value.clone());
        }
        None => remove(to, name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equality_ignores_what_go_would() {
        assert!(same(&json!({"a": [], "b": {}}), &json!({})));
        assert!(same(&json!({"a": {"b": null}}), &json!({"a": {}})));
        assert!(!same(&json!({"a": 0}), &json!({})));
        assert!(!same(&json!({"a": ""}), &json!({})));
        assert!(!same(&json!([1]), &json!([])));
    }

    #[test]
    fn paths_grow_with_the_walk() {
        let object = json!({"spec": {"ports": [{"name": "a"}]}});
        let port = At::top(&object, "spec").child("ports").items().next().unwrap();
        assert_eq!(port.child("name").path.as_str(), "spec.ports[0].name");
        assert!(!port.child("none").child("below").is_set());
    }
}
