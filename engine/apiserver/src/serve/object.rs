//! Between objects and what the store keeps of them.
//!
//! The store keeps the JSON text of an object from the inside of its metadata on, without kind,
//! apiVersion and resourceVersion: the first two depend on the version asked for, the third on the
//! moment of the commit. Reading puts them in front and copies the rest as it is; nothing is parsed.

use serde_json::{Map, Value};

use crate::schema::raw::{Json, SyntaxError};
use crate::selector::pick;
use crate::store::Entry;

/// What an object is called on the wire.
#[derive(Debug, Clone, Copy)]
pub(super) struct Naming<'a> {
    pub kind: &'a str,
    pub api_version: &'a str,
}

/// The text to store. `object` has a `metadata` with at least a name.
pub(super) fn encode(object: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    let empty = Map::new();
    let object = object.as_object().unwrap_or(&empty);
    let metadata = object.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    let mut first = true;
    for (key, value) in metadata.iter().filter(|(key, _)| *key != "resourceVersion") {
        if !first {
            out.push(b',');
        }
        first = false;
        write_member(&mut out, key, value);
    }
    out.push(b'}');
    for (key, value) in
        object.iter().filter(|(key, _)| !matches!(key.as_str(), "kind" | "apiVersion" | "metadata"))
    {
        out.push(b',');
        write_member(&mut out, key, value);
    }
    out.push(b'}');
    out.shrink_to_fit();
    out
}

fn write_member(out: &mut Vec<u8>, key: &str, value: &Value) {
    serde_json::to_writer(&mut *out, key).expect("a string can be written");
    out.push(b':');
    serde_json::to_writer(&mut *out, value).expect("a value can be written");
}

/// The object as JSON text; items of a list of built-in kinds have no naming of their own.
pub(super) fn render(out: &mut Vec<u8>, naming: Option<Naming<'_>>, revision: u64, body: &[u8]) {
    out.push(b'{');
    if let Some(Naming { kind, api_version }) = naming {
        out.extend_from_slice(format!("\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",").as_bytes());
    }
    out.extend_from_slice(b"\"metadata\":{");
    // What was never stored, in a dry run, has no revision.
    if revision > 0 {
        out.extend_from_slice(format!("\"resourceVersion\":\"{revision}\"").as_bytes());
        // Metadata is never empty in practice, but an empty one must not leave a comma behind.
        if body.first() != Some(&b'}') {
            out.push(b',');
        }
    }
    out.extend_from_slice(body);
}

/// The object as a value.
pub(super) fn decode(naming: Option<Naming<'_>>, revision: u64, body: &[u8]) -> Value {
    try_decode(naming, revision, body).expect("the store holds what encode wrote")
}

/// The object as a value, where one that cannot be read must not keep the others from being read.
pub(super) fn try_decode(
    naming: Option<Naming<'_>>,
    revision: u64,
    body: &[u8],
) -> Result<Value, SyntaxError> {
    let mut text = Vec::with_capacity(body.len() + 128);
    render(&mut text, naming, revision, body);
    // What was stored before its depth was limited may be deeper than serde reads.
    serde_json::from_slice(&text).or_else(|_| Json::parse_stored(&text).map(Json::into_verbatim_value))
}

/// A few branches of the object.
pub(super) fn branches(revision: u64, body: &[u8], paths: &[Vec<String>]) -> Value {
    let mut text = Vec::with_capacity(body.len() + 128);
    render(&mut text, None, revision, body);
    pick(&text, paths).unwrap_or_else(|_| decode(None, revision, body))
}

/// The object of a store entry, as it is at the entry's own revision.
pub(super) fn of_entry(naming: Option<Naming<'_>>, entry: &Entry) -> Value {
    decode(naming, entry.revision, &entry.body)
}

/// Text at a path of keys, or nothing.
pub(super) fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    let mut at = object;
    for key in path {
        at = &at[*key];
    }
    at.as_str().unwrap_or("")
}

/// The object's metadata, made if it is missing.
pub(super) fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    let object = object.as_object_mut().expect("an API object is a JSON object");
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut().expect("it was just made one")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_stored_comes_back_under_any_name_and_revision() {
        let object = json!({
            "kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {"name": "a", "resourceVersion": "5", "labels": {"x": "\"y\""}},
            "data": {"k": "v"},
        });
        let body = encode(&object);
        assert!(!String::from_utf8_lossy(&body).contains("resourceVersion"));
        let back = decode(Some(Naming { kind: "ConfigMap", api_version: "v1" }), 7, &body);
        let mut expected = object;
        expected["metadata"]["resourceVersion"] = "7".into();
        assert_eq!(back, expected);
        let mut deep = json!("leaf");
        for _ in 0..140 {
            deep = json!({"a": deep});
        }
        let object = json!({"metadata": {"name": "a", "resourceVersion": "9"}, "spec": deep});
        assert_eq!(decode(None, 9, &encode(&object)), object, "stored before there was a limit");
        let bare = decode(None, 8, &encode(&json!({"metadata": {}})));
        assert_eq!(bare, json!({"metadata": {"resourceVersion": "8"}}));
    }
}
