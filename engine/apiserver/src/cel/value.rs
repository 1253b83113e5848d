//! Values while an expression is evaluated. Those of the object are read where they are, as the schema
//! says, only when they are asked for.

mod list;
mod read;
mod text;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;

use jiff::Timestamp;
use jiff::tz::Offset;
use serde_json::{Map as JsonMap, Value as Json};

use super::ast::Literal;
use super::escape::{escape, unescape};
use super::library::rights::Right;
use super::library::semver::Semver;
use super::library::url::Url;
use super::message::Made;
use super::meter::Meter;
use super::schema::{ListType, Schema};
use crate::quantity::Quantity;

pub(super) use list::List;
pub(super) use text::Text;

/// Why an evaluation failed, in the words of cel-go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Error(pub(super) String);

pub(super) type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Error(why.into())
    }

    /// A result that would take too much memory. The real server, which counts costs, stops long before.
    pub(super) fn too_much() -> Self {
        Error("operation cancelled: actual cost limit exceeded".to_owned())
    }

    pub(super) fn no_such_overload() -> Self {
        Error("no such overload".to_owned())
    }
}

/// Longer texts and lists are not made: objects are much smaller.
pub(super) const LONGEST_TEXT: usize = 16 << 20;
pub(super) const LONGEST_LIST: usize = 1 << 20;

#[derive(Debug, Clone)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Rc<[u8]>),
    /// In nanoseconds.
    Duration(i64),
    /// A moment, and how far from UTC it was written.
    Timestamp(Timestamp, Offset),
    List(Rc<List<'a>>),
    Map(Rc<Map<'a>>),
    Object(Object<'a>),
    /// What a schema keeps without knowing it: can only be compared.
    Preserved(&'a Json),
    Optional(Option<Rc<Value<'a>>>),
    Type(Cow<'static, str>),
    Url(Rc<Url>),
    Quantity(Rc<Quantity>),
    Ip(IpAddr),
    Cidr(IpAddr, u8),
    Semver(Rc<Semver>),
    Format(&'static str),
    /// A question about rights, or its answer.
    Right(Rc<Right<'a>>),
    /// What a mutation makes.
    Message(Rc<Made<'a>>),
    /// A part of the object that does not fit its schema, until it is used.
    Unfit(Rc<str>),
}

/// Entries by key, with the key as it was given.
pub(super) type Map<'a> = BTreeMap<Key<'a>, (Value<'a>, Value<'a>)>;

/// A key of a map: numbers of different types are the same key when they are equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key<'a> {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(Text<'a>),
}

/// An object or map of the resource.
#[derive(Debug, Clone, Copy)]
pub(super) struct Object<'a> {
    pub(super) fields: &'a JsonMap<String, Json>,
    pub(super) schema: &'a Schema,
}

impl<'a> Value<'a> {
    pub(super) fn string(text: impl AsRef<str>) -> Self {
        Value::String(Text::Made(text.as_ref().into()))
    }

    pub(super) fn list(items: Vec<Value<'a>>) -> Self {
        Value::List(Rc::new(List::Made(items, ListType::Atomic)))
    }

    pub(super) fn some(value: Value<'a>) -> Self {
        Value::Optional(Some(Rc::new(value)))
    }

    pub(super) fn literal(literal: &Literal) -> Self {
        match literal {
            Literal::Null => Value::Null,
            Literal::Bool(value) => Value::Bool(*value),
            Literal::Int(value) => Value::Int(*value),
            Literal::Uint(value) => Value::Uint(*value),
            Literal::Double(value) => Value::Double(*value),
            Literal::String(value) => Value::String(Text::Literal(value.as_str().into())),
            Literal::Bytes(value) => Value::Bytes(value.as_slice().into()),
        }
    }

    /// What a schema makes of a part of the object.
    pub(super) fn read(json: &'a Json, schema: &'a Schema) -> Self {
        read::read(json, schema).unwrap_or_else(|error| Value::Unfit(error.0.into()))
    }

    /// The value, unless it does not fit its schema.
    pub(super) fn fit(self) -> Result<Self> {
        match self {
            Value::Unfit(why) => Err(Error::new(&*why)),
            fit => Ok(fit),
        }
    }

    /// The name of the type, as `type()` and messages give it.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::String(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::Timestamp(..) => "google.protobuf.Timestamp",
            Value::List(_) => "list",
            Value::Map(_) | Value::Object(_) => "map",
            Value::Preserved(_) => "unknown",
            Value::Optional(_) => "optional_type",
            Value::Type(_) => "type",
            Value::Url(_) => super::declarations::URL,
            Value::Quantity(_) => super::declarations::QUANTITY,
            Value::Ip(_) => super::declarations::IP,
            Value::Cidr(..) => super::declarations::CIDR,
            Value::Semver(_) => super::declarations::SEMVER,
            Value::Format(_) => super::declarations::FORMAT,
            Value::Right(right) => right.type_name(),
            Value::Message(made) => made.type_name(),
            Value::Unfit(_) => "error",
        }
    }

    /// Whether two values are equal; each that is compared counts, and as much of texts as must be looked at.
    pub(super) fn equals(&self, other: &Value<'a>, meter: &Meter<'_>) -> Result<bool> {
        meter.touch(1)?;
        Ok(match (self, other) {
            (Value::Unfit(why), _) | (_, Value::Unfit(why)) => return Err(Error::new(&**why)),
            (Value::Null, Value::Null) => true,
            (Value::Bool(left), Value::Bool(right)) => left == right,
            (Value::String(left), Value::String(right)) => {
                equal_bytes(left.as_bytes(), right.as_bytes(), meter)?
            }
            (Value::Bytes(left), Value::Bytes(right)) => equal_bytes(left, right, meter)?,
            (Value::Duration(left), Value::Duration(right)) => left == right,
            (Value::Timestamp(left, _), Value::Timestamp(right, _)) => left == right,
            (Value::Type(left), Value::Type(right)) => left == right,
            (Value::Url(left), Value::Url(right)) => left.text() == right.text(),
            (Value::Quantity(left), Value::Quantity(right)) => **left == **right,
            (Value::Ip(left), Value::Ip(right)) => left == right,
            (Value::Cidr(left, width), Value::Cidr(right, other)) => left == right && width == other,
            (Value::Semver(left), Value::Semver(right)) => left.compare(right) == Ordering::Equal,
            (Value::Format(left), Value::Format(right)) => left == right,
            (Value::Preserved(left), Value::Preserved(right)) => equal_json(left, right, meter)?,
            (Value::Optional(left), Value::Optional(right)) => match (left, right) {
                (Some(left), Some(right)) => left.equals(right, meter)?,
                (left, right) => left.is_none() && right.is_none(),
            },
            (Value::List(left), Value::List(right)) => left.equals(right, meter)?,
            (Value::Object(left), Value::Object(right)) => left.equals(right, meter)?,
            (Value::Message(left), Value::Message(right)) => {
                left.name == right.name
                    && left.fields.len() == right.fields.len()
                    && all(left.fields.iter(), |(name, value)| match right.fields.get(name) {
                        Some(other) => value.equals(other, meter),
                        None => Ok(false),
                    })?
            }
            (Value::Map(left), Value::Map(right)) => {
                left.len() == right.len()
                    && all(left.iter(), |(key, (_, value))| match right.get(key) {
                        Some((_, other)) => value.equals(other, meter),
                        None => Ok(false),
                    })?
            }
            (Value::Map(map), Value::Object(object)) | (Value::Object(object), Value::Map(map)) => {
                map.len() == object.fields.len()
                    && all(map.values(), |(key, value)| match object.get(key)? {
                        Some(other) => value.equals(&other, meter),
                        None => Ok(false),
                    })?
            }
            _ => matches!(numeric(self, other), Some(Some(Ordering::Equal))),
        })
    }

    /// The same, where values that cannot be compared are not equal.
    pub(super) fn same(&self, other: &Value<'a>, meter: &Meter<'_>) -> Result<bool> {
        match self.equals(other, meter) {
            Err(error) if meter.is_spent() => Err(error),
            equal => Ok(equal.unwrap_or(false)),
        }
    }

    pub(super) fn compare(&self, other: &Value<'a>, meter: &Meter<'_>) -> Result<Ordering> {
        meter.touch(1)?;
        match (self, other) {
            (Value::String(left), Value::String(right)) => meter.scan(left.len().min(right.len()))?,
            (Value::Bytes(left), Value::Bytes(right)) => meter.scan(left.len().min(right.len()))?,
            _ => {}
        }
        Ok(match (self, other) {
            (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
            (Value::String(left), Value::String(right)) => left.cmp(right),
            (Value::Bytes(left), Value::Bytes(right)) => left.cmp(right),
            (Value::Duration(left), Value::Duration(right)) => left.cmp(right),
            (Value::Timestamp(left, _), Value::Timestamp(right, _)) => left.cmp(right),
            _ => match numeric(self, other) {
                Some(Some(order)) => order,
                Some(None) => return Err(Error::new("NaN values cannot be ordered")),
                None => return Err(Error::no_such_overload()),
            },
        })
    }

    /// The key that a value is in a map, if it can be one.
    pub(super) fn key(&self) -> Option<Key<'a>> {
        Some(match self {
            Value::Bool(value) => Key::Bool(*value),
            Value::Int(value) => Key::Int(*value),
            Value::Uint(value) => i64::try_from(*value).map_or(Key::Uint(*value), Key::Int),
            Value::Double(value) if value.fract() == 0.0 && value.abs() < 9.2e18 => Key::Int(*value as i64),
            Value::String(value) => Key::String(value.clone()),
            _ => return None,
        })
    }

    /// The item at a key or index, if there is one.
    pub(super) fn find(&self, key: &Value<'a>) -> Result<Option<Value<'a>>> {
        match self {
            Value::Object(object) => object.get(key),
            Value::Message(made) => {
                let Value::String(name) = key else { return Err(Error::no_such_overload()) };
                made.fields.get(&**name).cloned().map(Value::fit).transpose()
            }
            Value::Map(map) => {
                let found = key.key().and_then(|key| map.get(&key));
                found.map(|(_, value)| value.clone().fit()).transpose()
            }
            Value::List(list) => {
                let index = match key.key() {
                    Some(Key::Int(index)) => usize::try_from(index).ok(),
                    _ => {
                        return Err(Error::new(format!(
                            "unsupported index type '{}' in list",
                            key.type_name()
                        )));
                    }
                };
                index.and_then(|index| list.get(index)).map(Value::fit).transpose()
            }
            _ => Err(Error::no_such_overload()),
        }
    }

    pub(super) fn contains(&self, wanted: &Value<'a>, meter: &Meter<'_>) -> Result<bool> {
        match self {
            Value::List(list) => {
                for item in list.iter() {
                    if item.equals(wanted, meter)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Value::Object(_) | Value::Map(_) => Ok(self.find(wanted)?.is_some()),
            _ => Err(Error::no_such_overload()),
        }
    }

    /// The pairs that a fold goes through: indexes and items, or keys and values.
    ///
    /// One by one: a fold may look at the first of very many, very often.
    pub(super) fn pairs(&self) -> Result<Box<dyn Iterator<Item = (Value<'a>, Value<'a>)> + '_>> {
        Ok(match self {
            Value::List(list) => {
                let items = list.iter().enumerate();
                Box::new(items.map(|(index, item)| (Value::Int(index as i64), item)))
            }
            Value::Map(map) => Box::new(map.values().cloned()),
            Value::Object(object) => Box::new(object.entries()),
            other => {
                let name = match other {
                    Value::Duration(_) => "Duration".to_owned(),
                    Value::Timestamp(..) => "Timestamp".to_owned(),
                    Value::Null => "Null".to_owned(),
                    other => {
                        let name = other.type_name();
                        format!("{}{}", name[..1].to_uppercase(), &name[1..])
                    }
                };
                return Err(Error::new(format!("got 'types.{name}', expected iterable type")));
            }
        })
    }
}

fn all<T>(mut items: impl Iterator<Item = T>, mut holds: impl FnMut(T) -> Result<bool>) -> Result<bool> {
    for item in items.by_ref() {
        if !holds(item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// How two numbers compare: `None` if they are none, `Some(None)` if they have no order.
fn numeric(left: &Value<'_>, right: &Value<'_>) -> Option<Option<Ordering>> {
    Some(match (left, right) {
        (Value::Int(left), Value::Int(right)) => Some(left.cmp(right)),
        (Value::Uint(left), Value::Uint(right)) => Some(left.cmp(right)),
        (Value::Int(left), Value::Uint(right)) => Some(i128::from(*left).cmp(&i128::from(*right))),
        (Value::Uint(left), Value::Int(right)) => Some(i128::from(*left).cmp(&i128::from(*right))),
        (Value::Double(left), Value::Double(right)) => left.partial_cmp(right),
        (Value::Double(left), Value::Int(right)) => against_whole(*left, i128::from(*right)),
        (Value::Double(left), Value::Uint(right)) => against_whole(*left, i128::from(*right)),
        (Value::Int(left), Value::Double(right)) => {
            against_whole(*right, i128::from(*left)).map(Ordering::reverse)
        }
        (Value::Uint(left), Value::Double(right)) => {
            against_whole(*right, i128::from(*left)).map(Ordering::reverse)
        }
        _ => return None,
    })
}

fn against_whole(left: f64, right: i128) -> Option<Ordering> {
    if left.is_nan() {
        return None;
    }
    if left.abs() > 1e30 {
        return Some(if left > 0.0 { Ordering::Greater } else { Ordering::Less });
    }
    let whole = left.trunc();
    Some((whole as i128).cmp(&right).then_with(|| left.partial_cmp(&whole).unwrap_or(Ordering::Equal)))
}

fn equal_bytes(left: &[u8], right: &[u8], meter: &Meter<'_>) -> Result<bool> {
    if left.len() != right.len() {
        return Ok(false);
    }
    meter.scan(left.len())?;
    Ok(left == right)
}

/// Whether two parts of objects are equal that no schema tells about.
fn equal_json(left: &Json, right: &Json, meter: &Meter<'_>) -> Result<bool> {
    meter.touch(1)?;
    match (left, right) {
        (Json::String(left), Json::String(right)) => equal_bytes(left.as_bytes(), right.as_bytes(), meter),
        (Json::Array(left), Json::Array(right)) => Ok(left.len() == right.len()
            && all(left.iter().zip(right), |(left, right)| equal_json(left, right, meter))?),
        (Json::Object(left), Json::Object(right)) => Ok(left.len() == right.len()
            && all(left.iter(), |(name, left)| match right.get(name) {
                Some(right) => equal_json(left, right, meter),
                None => Ok(false),
            })?),
        (left, right) => Ok(left == right),
    }
}

impl<'a> Object<'a> {
    /// The value of a field or key; null fields of objects are absent.
    fn get(&self, key: &Value<'a>) -> Result<Option<Value<'a>>> {
        let Value::String(name) = key else { return Err(Error::no_such_overload()) };
        match self.schema.properties {
            Some(_) => match unescape(name) {
                Some(name) => self.field(&name),
                None => Ok(None),
            },
            None => self.field(name),
        }
    }

    fn field(&self, name: &str) -> Result<Option<Value<'a>>> {
        match (self.fields.get(name), self.schema.property(name)) {
            (Some(Json::Null), _) if self.schema.properties.is_some() => Ok(None),
            (Some(value), Some(schema)) => Value::read(value, schema).fit().map(Some),
            _ => Ok(None),
        }
    }

    fn entries(&self) -> impl Iterator<Item = (Value<'a>, Value<'a>)> + use<'a> {
        let schema = self.schema;
        self.fields.iter().filter_map(move |(name, value)| {
            let of = schema.property(name)?;
            let name = match schema.properties.as_ref().and_then(|_| escape(name)) {
                Some(escaped) => Value::string(escaped),
                None => Value::String(Text::Written(name)),
            };
            Some((name, Value::read(value, of)))
        })
    }

    fn equals(&self, other: &Object<'a>, meter: &Meter<'_>) -> Result<bool> {
        if self.fields.len() != other.fields.len() {
            return Ok(false);
        }
        all(self.fields.iter(), |(name, value)| match self.schema.property(name) {
            Some(_) => match (self.field(name)?, other.field(name)?) {
                (Some(left), Some(right)) => left.equals(&right, meter),
                (left, right) => Ok(left.is_none() && right.is_none()),
            },
            None => match other.fields.get(name) {
                Some(other) => equal_json(other, value, meter),
                None => Ok(true),
            },
        })
    }
}

impl fmt::Display for Value<'_> {
    /// As Go prints it in messages such as "no such key: …".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::String(text) => f.write_str(text),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Int(value) => write!(f, "{value}"),
            Value::Uint(value) => write!(f, "{value}"),
            Value::Double(value) => f.write_str(&super::library::convert::double(*value)),
            Value::Null => f.write_str("null"),
            other => f.write_str(other.type_name()),
        }
    }
}
