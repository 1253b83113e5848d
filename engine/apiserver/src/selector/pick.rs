//! Reads a few branches of a JSON text and leaves the rest alone.
//!
//! A watch of the pods without a node looks at one field of every pod that changes: to make whole objects for that
//! would be most of what a busy server does.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The object with these branches only. A path that leads through anything but objects finds nothing.
pub fn pick(text: &[u8], paths: &[Vec<String>]) -> Result<Value, serde_json::Error> {
    let paths: Vec<&[String]> = paths.iter().map(Vec::as_slice).collect();
    let mut reader = serde_json::Deserializer::from_slice(text);
    let picked = Branches(&paths).deserialize(&mut reader)?;
    reader.end()?;
    Ok(picked)
}

#[derive(Clone, Copy)]
struct Branches<'a>(&'a [&'a [String]]);

impl<'de> DeserializeSeed<'de> for Branches<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        if self.0.iter().any(|path| path.is_empty()) {
            return serde::Deserialize::deserialize(reader);
        }
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Branches<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut picked = Map::new();
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            let below: Vec<&[String]> = self
                .0
                .iter()
                .filter_map(|path| path.split_first())
                .filter(|(first, _)| **first == key)
                .map(|(_, rest)| rest)
                .collect();
            if below.is_empty() {
                map.next_value::<IgnoredAny>()?;
            } else {
                picked.insert(key.into_owned(), map.next_value_seed(Branches(&below))?);
            }
        }
        Ok(Value::Object(picked))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(paths: &[&str], expected: Value) {
        let text = r#"{"metadata":{"name":"a"},"spec":{"nodeName":"n","list":[1,{"x":2}],"é\"":1},
            "status":{"podIPs":[{"ip":"1"}],"phase":"Running"},"type":"T","number":1.5,"none":null}"#;
        let paths: Vec<Vec<String>> =
            paths.iter().map(|path| path.split('.').map(str::to_owned).collect()).collect();
        assert_eq!(pick(text.as_bytes(), &paths).unwrap(), expected, "{paths:?}");
    }

    #[test]
    fn only_what_is_asked_for_is_read() {
        check(&[], json!({}));
        check(&["spec.nodeName"], json!({"spec": {"nodeName": "n"}}));
        check(&["spec.nodeName", "type"], json!({"spec": {"nodeName": "n"}, "type": "T"}));
        check(&["status.podIPs", "status.podIP"], json!({"status": {"podIPs": [{"ip": "1"}]}}));
        check(
            &["spec.list.x", "type.x", "number.x", "none.x"],
            json!({
                "spec": {"list": null}, "type": null, "number": null, "none": null,
            }),
        );
        check(&["spec.é\""], json!({"spec": {"é\"": 1}}));
        check(&["absent.x"], json!({}));
        check(
            &["spec", "spec.nodeName"],
            json!({"spec": {"nodeName": "n", "list": [1, {"x": 2}], "é\"": 1}}),
        );
        assert!(pick(b"{\"a\":", &[]).is_err());
        assert!(pick(b"{} x", &[]).is_err());
    }
}
