//! Objects as the real server's own types print them.
//!
//! A few messages show a whole part of an object, and they show it in the form that the server works
//! with: other names, every field, in the order of its types. `types.txt` has one line for each of those
//! types: its name, and for each field the name shown, the name in the API and what stands for nothing.

mod diff;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

use super::walk::list;

struct Field {
    shown: &'static str,
    name: &'static str,
    kind: Kind,
}

enum Kind {
    Text,
    Number,
    Flag,
    Quantity,
    /// Printed as it is; `null` if absent.
    Raw,
    Selector,
    Struct(&'static str),
    Pointer(&'static str),
    List(&'static str),
}

static TYPES: LazyLock<BTreeMap<&'static str, Vec<Field>>> = LazyLock::new(|| {
    let lines = include_str!("types.txt").lines();
    lines
        .filter_map(|line| line.split_once(' '))
        .map(|(name, fields)| (name, fields.split(' ').filter_map(parse).collect()))
        .collect()
});

fn parse(field: &'static str) -> Option<Field> {
    let (shown, rest) = field.split_once('=')?;
    let (name, kind) = rest.split_once('=')?;
    let kind = match kind.split_once(':') {
        Some(("T", of)) => Kind::Struct(of),
        Some(("P", of)) => Kind::Pointer(of),
        Some((_, of)) => Kind::List(of),
        None => match kind {
            "s" => Kind::Text,
            "i" => Kind::Number,
            "b" => Kind::Flag,
            "q" => Kind::Quantity,
            "S" => Kind::Selector,
            _ => Kind::Raw,
        },
    };
    Some(Field { shown, name, kind })
}

/// A value as a message shows it, on one line.
pub(super) fn show(kind: &str, value: &Value) -> String {
    Printer { pretty: false, text: String::new() }.print(kind, value)
}

/// What changed between two values, as a unified diff of their forms.
pub(super) fn diff(kind: &str, old: &Value, new: &Value) -> String {
    let form = |value| Printer { pretty: true, text: String::new() }.print(kind, value);
    diff::unified(&form(old), &form(new))
}

struct Printer {
    pretty: bool,
    text: String,
}

impl Printer {
    fn print(mut self, kind: &str, value: &Value) -> String {
        self.object(kind, value, value, 0);
        self.text
    }

    /// `parent` is what the value is part of: a pod's security context shows fields of its spec.
    fn object(&mut self, kind: &str, value: &Value, parent: &Value, depth: usize) {
        let fields = TYPES.get(kind).map_or(&[][..], Vec::as_slice);
        self.open('{');
        for (index, field) in fields.iter().enumerate() {
            self.separate(index, depth + 1);
            self.key(field.shown);
            let from_parent = kind == "PodSecurityContext" && HOST_FIELDS.contains(&field.name);
            let at = if from_parent { parent.get(field.name) } else { value.get(field.name) };
            self.field(&field.kind, at.filter(|value| !value.is_null()), value, depth + 1);
        }
        self.close('}', fields.is_empty(), depth);
    }

    fn field(&mut self, kind: &Kind, value: Option<&Value>, parent: &Value, depth: usize) {
        match (kind, value) {
            (Kind::Struct(of), value) => self.object(of, value.unwrap_or(&Value::Null), parent, depth),
            (Kind::Pointer(of), Some(value)) => self.object(of, value, parent, depth),
            (Kind::List(of), Some(value)) => {
                let items = list(value);
                self.open('[');
                for (index, item) in items.iter().enumerate() {
                    self.separate(index, depth + 1);
                    self.object(of, item, value, depth + 1);
                }
                self.close(']', items.is_empty(), depth);
            }
            (Kind::Selector, Some(value)) => self.selector(value, depth),
            (_, Some(value)) => self.raw(value, depth),
            (Kind::Text, None) => self.text.push_str("\"\""),
            (Kind::Number, None) => self.text.push('0'),
            (Kind::Flag, None) => self.text.push_str("false"),
            (Kind::Quantity, None) => self.text.push_str("\"0\""),
            (_, None) => self.text.push_str("null"),
        }
    }

    /// Labels come before expressions.
    fn selector(&mut self, selector: &Value, depth: usize) {
        let parts = ["matchLabels", "matchExpressions"].map(|name| (name, &selector[name]));
        let set: Vec<_> = parts.iter().filter(|(_, value)| !super::walk::is_empty(value)).collect();
        self.open('{');
        for (index, (name, value)) in set.iter().enumerate() {
            self.separate(index, depth + 1);
            self.key(name);
            self.raw(value, depth + 1);
        }
        self.close('}', set.is_empty(), depth);
    }

    fn raw(&mut self, value: &Value, depth: usize) {
        match value {
            Value::Object(map) => {
                self.open('{');
                for (index, (key, value)) in map.iter().enumerate() {
                    self.separate(index, depth + 1);
                    self.key(key);
                    self.raw(value, depth + 1);
                }
                self.close('}', map.is_empty(), depth);
            }
            Value::Array(items) => {
                self.open('[');
                for (index, item) in items.iter().enumerate() {
                    self.separate(index, depth + 1);
                    self.raw(item, depth + 1);
                }
                self.close(']', items.is_empty(), depth);
            }
            Value::String(text) => self.string(text),
            other => self.text.push_str(&other.to_string()),
        }
    }

    fn open(&mut self, bracket: char) {
        self.text.push(bracket);
    }

    fn close(&mut self, bracket: char, empty: bool, depth: usize) {
        if self.pretty && !empty {
            self.line(depth);
        }
        self.text.push(bracket);
    }

    fn separate(&mut self, index: usize, depth: usize) {
        if index > 0 {
            self.text.push(',');
        }
        if self.pretty {
            self.line(depth);
        }
    }

    fn line(&mut self, depth: usize) {
        self.text.push('\n');
        self.text.extend(std::iter::repeat_n(' ', depth));
    }

    fn key(&mut self, key: &str) {
        self.string(key);
        self.text.push_str(if self.pretty { ": " } else { ":" });
    }

    /// Go's JSON is safe inside HTML.
    fn string(&mut self, text: &str) {
        let quoted = Value::from(text).to_string();
        self.text.push_str(&quoted.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"));
    }
}

const HOST_FIELDS: [&str; 5] = ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_shown_with_every_field() {
        assert_eq!(
            show("ContainerPort", &json!({"containerPort": 80, "protocol": "TCP"})),
            r#"{"Name":"","HostPort":0,"ContainerPort":80,"Protocol":"TCP","HostIP":""}"#
        );
    }

    #[test]
    fn every_type_that_a_field_names_is_known() {
        for (name, fields) in TYPES.iter() {
            for field in fields {
                if let Kind::Struct(of) | Kind::Pointer(of) | Kind::List(of) = field.kind {
                    assert!(TYPES.contains_key(of), "{name}.{}: {of}", field.shown);
                }
            }
        }
    }
}
