//! One step of a path: a field, an item told apart by its keys or its value, or an index.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Map, Value};

/// One step of a path into an object.
#[derive(Debug, Clone)]
pub enum Element {
    /// A field of an object, or a key of a map: `f:name`.
    Field(Box<str>),
    /// The item of a list that has these fields, sorted by name: `k:{"name":"web"}`.
    Key(Box<[(Box<str>, Value)]>),
    /// The item of a set: `v:"finalizer"`.
    Value(Value),
    /// The item at a place of a list: `i:0`.
    Index(i64),
}

/// Why a text is not a path element.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("key must be 2 characters long:")]
    Short,
    #[error("missing colon: {0}")]
    NoColon(String),
    #[error("{0}")]
    Content(String),
}

impl Element {
    pub fn field(name: &str) -> Self {
        Element::Field(name.into())
    }

    /// Reads the form used in FieldsV1. `None` for a kind of element that a later release may know.
    pub fn parse(text: &str) -> Result<Option<Self>, ParseError> {
        let bytes = text.as_bytes();
        if bytes.len() < 2 {
            return Err(ParseError::Short);
        }
        if bytes[1] != b':' {
            return Err(ParseError::NoColon(text.to_owned()));
        }
        let content = &text[2..];
        let bad = |error: serde_json::Error| ParseError::Content(error.to_string());
        let element = match bytes[0] {
            b'f' => Element::field(content),
            b'v' => Element::Value(serde_json::from_str(content).map_err(bad)?),
            b'k' => {
                let fields: Map<String, Value> = serde_json::from_str(content).map_err(bad)?;
                Element::Key(fields.into_iter().map(|(name, value)| (name.into(), value)).collect())
            }
            b'i' => Element::Index(
                content.parse().map_err(|_| ParseError::Content(format!("bad index: {text}")))?,
            ),
            _ => return Ok(None),
        };
        Ok(Some(element))
    }

    /// The form used in FieldsV1.
    pub fn encode(&self) -> String {
        match self {
            Element::Field(name) => format!("f:{name}"),
            Element::Key(fields) => {
                let inner: Vec<String> = fields
                    .iter()
                    .map(|(name, value)| format!("{}:{}", go_json(&Value::from(&**name)), go_json(value)))
                    .collect();
                format!("k:{{{}}}", inner.join(","))
            }
            Element::Value(value) => format!("v:{}", go_json(value)),
            Element::Index(index) => format!("i:{index}"),
        }
    }
}

/// For people: `.spec`, `[name="web"]`, `[="a"]`, `[0]`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Field(name) => write!(f, ".{name}"),
            Element::Key(fields) => {
                f.write_str("[")?;
                for (at, (name, value)) in fields.iter().enumerate() {
                    let comma = if at > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={}", show(value))?;
                }
                f.write_str("]")
            }
            Element::Value(value) => write!(f, "[={}]", show(value)),
            Element::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Element::Field(left), Element::Field(right)) => left.cmp(right),
            (Element::Key(left), Element::Key(right)) => compare_keys(left, right),
            (Element::Value(left), Element::Value(right)) => compare(left, right),
            (Element::Index(left), Element::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Element {}

impl Element {
    fn rank(&self) -> u8 {
        match self {
            Element::Field(_) => 0,
            Element::Key(_) => 1,
            Element::Value(_) => 2,
            Element::Index(_) => 3,
        }
    }
}

fn compare_keys(left: &[(Box<str>, Value)], right: &[(Box<str>, Value)]) -> Ordering {
    for ((left_name, left_value), (right_name, right_value)) in left.iter().zip(right) {
        let order = left_name.cmp(right_name).then_with(|| compare(left_value, right_value));
        if order != Ordering::Equal {
            return order;
        }
    }
    left.len().cmp(&right.len())
}

/// A total order of values in which `1` and `1.0` are the same.
pub(super) fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => a.as_f64().unwrap_or(0.0).total_cmp(&b.as_f64().unwrap_or(0.0)),
        },
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let unequal = a.iter().zip(b).map(|(a, b)| compare(a, b)).find(|order| order.is_ne());
            unequal.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            let items = a.iter().zip(b);
            let mut orders = items.map(|((ka, va), (kb, vb))| ka.cmp(kb).then_with(|| compare(va, vb)));
            orders.find(|order| order.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        _ => type_rank(left).cmp(&type_rank(right)),
    }
}

/// Whether two values are the same, numbers by their worth.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    compare(left, right) == Ordering::Equal
}

fn type_rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

/// A value as people read it: a whole number that came as a float has no fraction.
pub(super) fn show(value: &Value) -> String {
    match value.as_f64() {
        Some(float) if !value.is_i64() && float.fract() == 0.0 && float.abs() < 1e15 => {
            (float as i64).to_string()
        }
        _ => value.to_string(),
    }
}

/// JSON as Go writes it: characters that HTML could take for markup are escaped.
pub(super) fn go_json(value: &Value) -> String {
    let text = show(value);
    if !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                escaped.push_str(&format!("\\u{:04x}", letter as u32))
            }
            _ => escaped.push(letter),
        }
    }
    escaped
}
