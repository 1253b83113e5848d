//! Replaces what two servers may choose differently by placeholders, so that all else can be compared.
//!
//! The whole list: uids, times of this run, resource versions, continue tokens, suffixes of generated
//! names, cluster IPs, node ports, ages, memory addresses in messages, the order in which the errors of a
//! custom resource and the conflicts of an apply are listed, the order of managed fields, which depends on the
//! second they were set in, and the object that a message about a failed patch quotes.
//!
//! Equal values get equal placeholders within one sequence, so that an object whose resource version should
//! not have changed is still caught.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::{Timestamp, ToSpan};
use regex::{Captures, Regex};
use serde_json::Value;

static UID: LazyLock<Regex> =
    LazyLock::new(|| pattern("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
static TIME: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| \+0000 UTC)"));
static GENERATED: LazyLock<Regex> = LazyLock::new(|| pattern(r"\bgen-[a-z0-9]{5}\b"));
static GO_ADDRESS: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b0xc[0-9a-f]{9}\b"));
static MOUNT: LazyLock<Regex> = LazyLock::new(|| pattern("kube-api-access-[a-z0-9]{5}"));
static REVISION: LazyLock<Regex> = LazyLock::new(|| {
    let before = r"too old resource version: \d+ \(|current: |in record \(|Version in the precondition \(|Version in (precondition|object meta): ";
    // Some messages quote the whole object, as JSON or as a Go value.
    let quoted = r#"resourceVersion\\*":\s*\\*"|ResourceVersion:"|[\[ ]resourceVersion:"#;
    pattern(&format!("(?P<before>{before}|{quoted})\\d+"))
});
/// Node ports where a message says what is wrong with one.
static TOLD_NODE_PORT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?P<before>Duplicate value: |duplicate nodePort: \{\w+ )3[0-2]\d{3}"));
static NODE_PORT: LazyLock<Regex> = LazyLock::new(|| pattern(r":3[0-2]\d{3}/"));
static QUOTED_OBJECT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"(?s)patch: Invalid value: "\{.*\}": |^Invalid value: "\{\\".*\}": "#));
static CLUSTER_IP: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b10\.96\.\d+\.\d+\b"));

/// One side of one sequence.
#[derive(Default)]
pub struct Normaliser {
    uids: Numbers,
    versions: Numbers,
    addresses: Numbers,
    ports: Numbers,
    names: Numbers,
    columns: Vec<String>,
}

#[derive(Default)]
struct Numbers(BTreeMap<String, usize>);

impl Numbers {
    fn of(&mut self, value: &str) -> usize {
        let next = self.0.len() + 1;
        *self.0.entry(value.to_owned()).or_insert(next)
    }
}

impl Normaliser {
    /// The value with placeholders.
    pub fn value(&mut self, value: &Value) -> Value {
        let mut value = self.walk(value, Place::Other);
        sort_causes(&mut value);
        value
    }

    /// A text with placeholders.
    pub fn text(&mut self, text: &str) -> String {
        let text = UID.replace_all(text, |found: &Captures<'_>| format!("<uid-{}>", self.uids.of(&found[0])));
        let text = TIME.replace_all(&text, |found: &Captures<'_>| placeholder_of_time(&found[0]));
        let text = MOUNT.replace_all(&text, "kube-api-access-<suffix>");
        let text = REVISION.replace_all(&text, "${before}<rv>");
        let text = TOLD_NODE_PORT.replace_all(&text, "${before}<node-port>");
        let text = GO_ADDRESS.replace_all(&text, "<address>");
        let text = CLUSTER_IP.replace_all(&text, "<cluster-ip>");
        let text = QUOTED_OBJECT.replace_all(&text, "Invalid value: <object>: ");
        let text = GENERATED
            .replace_all(&text, |found: &Captures<'_>| format!("gen-<suffix-{}>", self.names.of(&found[0])));
        text.into_owned()
    }

    fn walk(&mut self, value: &Value, place: Place) -> Value {
        match value {
            Value::String(text) => Value::String(self.string(text, place)),
            Value::Number(number) if place == Place::Port => {
                let port = number.as_u64().unwrap_or(0);
                if (30000..=32767).contains(&port) {
                    format!("<node-port-{}>", self.ports.of(&port.to_string())).into()
                } else {
                    value.clone()
                }
            }
            Value::Array(items) => items.iter().map(|item| self.walk(item, place)).collect(),
            Value::Object(fields) => self.object(fields, place),
            _ => value.clone(),
        }
    }

    fn object(&mut self, fields: &serde_json::Map<String, Value>, place: Place) -> Value {
        let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
        let collection =
            fields.contains_key("items") || kind == "Table" || fields.get("type") == Some(&"BOOKMARK".into());
        let mut result: serde_json::Map<_, _> = fields
            .iter()
            .map(|(key, field)| (self.text(key), self.walk(field, place.inside(key, collection))))
            .collect();
        if kind == "Table" {
            self.table(&mut result);
        }
        if let Some(Value::Array(entries)) = result.get_mut("managedFields") {
            entries.sort_by_cached_key(|entry| {
                let part = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
                [part("manager"), part("operation"), part("subresource"), part("apiVersion")]
            });
        }
        result.into()
    }

    fn string(&mut self, text: &str, place: Place) -> String {
        match place {
            Place::Version if !text.is_empty() && text != "0" => format!("<rv-{}>", self.versions.of(text)),
            Place::CollectionVersion if !text.is_empty() => "<rv-of-list>".to_owned(),
            Place::Continue if !text.is_empty() => "<continue>".to_owned(),
            Place::Address if !text.is_empty() && text != "None" => {
                format!("<cluster-ip-{}>", self.addresses.of(text))
            }
            _ => self.text(text),
        }
    }

    fn table(&mut self, table: &mut serde_json::Map<String, Value>) {
        // In a watch, only the first event tells the columns.
        if let Some(columns) = table.get("columnDefinitions").and_then(Value::as_array) {
            self.columns =
                columns.iter().map(|column| column["name"].as_str().unwrap_or("").to_owned()).collect();
        }
        for row in table.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten() {
            for (cell, name) in row["cells"].as_array_mut().into_iter().flatten().zip(&self.columns) {
                let Value::String(text) = cell else { continue };
                match name.as_str() {
                    "Age" | "Last Seen" | "First Seen" | "Duration" | "Last Schedule" => *text = age(text),
                    "Port(s)" => *text = NODE_PORT.replace_all(text, ":<node-port>/").into_owned(),
                    "Cluster-IP" => *text = CLUSTER_IP.replace_all(text, "<cluster-ip>").into_owned(),
                    _ => {}
                }
            }
        }
    }
}

/// A stock server lists what is wrong with a custom resource in the order of a Go map, and conflicts by the
/// time of the fields' setting: any order will do.
fn sort_causes(status: &mut Value) {
    let group = status["details"]["group"].as_str().unwrap_or_default();
    let conflict = status["reason"] == "Conflict";
    if !conflict && !group.ends_with(".koinon.io") && !group.ends_with(".example.com") {
        return;
    }
    let Some(causes) = status["details"]["causes"].as_array_mut().filter(|causes| causes.len() > 1) else {
        return;
    };
    let text = |cause: &Value| {
        let part = |name: &str| cause[name].as_str().unwrap_or_default().to_owned();
        format!("{}: {}", part("field"), part("message"))
    };
    let told = format!("[{}]", causes.iter().map(text).collect::<Vec<_>>().join(", "));
    causes.sort_by_key(text);
    if let Value::String(message) = &mut status["message"] {
        *message = message.replace(&told, "[<the causes>]");
        if conflict {
            message.truncate(message.find(':').unwrap_or(message.len()));
        }
    }
}

/// Where in a body a value stands, as far as it matters here.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Other,
    Metadata { collection: bool },
    Bookmark,
    Version,
    CollectionVersion,
    Continue,
    Address,
    Port,
}

impl Place {
    fn inside(self, key: &str, collection: bool) -> Self {
        match (key, self) {
            ("object", _) if collection => Self::Bookmark,
            ("metadata", Self::Bookmark) => Self::Metadata { collection: true },
            (_, Self::Bookmark) => Self::Bookmark,
            ("metadata", _) => Self::Metadata { collection },
            ("resourceVersion", Self::Metadata { collection: true }) => Self::CollectionVersion,
            ("resourceVersion", _) => Self::Version,
            ("continue", Self::Metadata { .. }) => Self::Continue,
            ("clusterIP" | "clusterIPs", _) => Self::Address,
            ("nodePort" | "healthCheckNodePort", _) => Self::Port,
            _ => Self::Other,
        }
    }
}

/// Only times of this run are replaced: those that a request carried must come back as they were.
fn placeholder_of_time(text: &str) -> String {
    let standard = text.replace(" +0000 UTC", "Z").replace(' ', "T");
    let now = Timestamp::now();
    match standard.parse::<Timestamp>() {
        Ok(time) if time > now - 2.hours() && time < now + 26.hours() => {
            if text.contains('.') {
                "<time.fraction>".to_owned()
            } else {
                "<time>".to_owned()
            }
        }
        _ => text.to_owned(),
    }
}

/// Ages of up to an hour belong to this run; older ones come from times that a request carried.
fn age(text: &str) -> String {
    static AGE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(\d+m)?(\d+s)?$"));
    if AGE.is_match(text) { "<age>".to_owned() } else { text.to_owned() }
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the patterns of this file are well formed")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_values_get_equal_placeholders() {
        let mut side = Normaliser::default();
        let uid = "123e4567-e89b-12d3-a456-426614174000";
        let object = json!({"metadata": {"resourceVersion": "7", "uid": uid, "creationTimestamp": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()}});
        let expected = json!({"metadata": {"resourceVersion": "<rv-1>", "uid": "<uid-1>", "creationTimestamp": "<time>"}});
        assert_eq!(side.value(&object), expected);
        assert_eq!(side.value(&object), expected);
        let changed = json!({"metadata": {"resourceVersion": "8"}, "message": format!("uid {uid}")});
        assert_eq!(
            side.value(&changed),
            json!({"metadata": {"resourceVersion": "<rv-2>"}, "message": "uid <uid-1>"})
        );
    }

    #[test]
    fn what_a_request_may_set_stays() {
        let mut side = Normaliser::default();
        let object = json!({"spec": {"renewTime": "2020-01-01T00:00:01.123456Z", "clusterIP": "None", "nodePort": 80}});
        assert_eq!(side.value(&object), object);
    }

    #[test]
    fn lists_and_tables() {
        let mut side = Normaliser::default();
        let list = json!({"kind": "Table", "metadata": {"resourceVersion": "9", "continue": "abc"},
            "columnDefinitions": [{"name": "Name"}, {"name": "Age"}], "rows": [{"cells": ["12s", "12s"]}]});
        let expected = json!({"kind": "Table", "metadata": {"resourceVersion": "<rv-of-list>", "continue": "<continue>"},
            "columnDefinitions": [{"name": "Name"}, {"name": "Age"}], "rows": [{"cells": ["12s", "<age>"]}]});
        assert_eq!(side.value(&list), expected);
    }

    #[test]
    fn the_errors_of_a_custom_resource_may_come_in_any_order() {
        let status = |causes: [&str; 2]| {
            let [a, b] = causes;
            json!({"message": format!("x is invalid: [{a}: bad, {b}: bad]"),
                "details": {"group": "conformance.koinon.io",
                    "causes": [{"field": a, "message": "bad"}, {"field": b, "message": "bad"}]}})
        };
        let mut side = Normaliser::default();
        assert_eq!(side.value(&status(["a", "b"])), side.value(&status(["b", "a"])));
        assert_ne!(side.value(&status(["a", "b"])), side.value(&status(["a", "c"])));
    }
}
