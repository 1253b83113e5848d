//! From the bytes of a message to the JSON that Go would have written of it.
//!
//! Presence on the wire says little (zero values are written, too), so a message is read field by field
//! first and then brought to what Go's JSON has: [`finish`] drops empty fields and adds the zero values
//! of those that are never left out.

use serde_json::{Map, Value};

use super::Fault;
use super::special;
use super::table::{Field, Holds, Many, Message};
use super::wire::{DELIMITED, FIXED64, Reader, Tag, VARINT};

/// How deep lists and objects may nest, so that what reads our JSON (which stops at 128) can follow.
const DEEPEST: usize = 120;

/// The object that a message stands for.
pub(super) fn object(message: &'static Message, data: &[u8]) -> Result<Map<String, Value>, Fault> {
    let mut into = Map::new();
    nested(message, data, &mut into, 1)?;
    Ok(into)
}

/// Reads one more piece of an object: a message that comes twice is merged.
pub(super) fn nested(
    message: &'static Message,
    data: &[u8],
    into: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), Fault> {
    read(message, data, into, depth)?;
    finish(message, into);
    Ok(())
}

fn read(
    message: &'static Message,
    data: &[u8],
    into: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), Fault> {
    check_depth(depth)?;
    let mut reader = Reader::new(message.go_name(), data);
    while let Some(tag) = reader.tag()? {
        match message.field(tag.number) {
            Some(field) => read_field(field, tag, &mut reader, into, depth)?,
            None => reader.skip(tag)?,
        }
    }
    Ok(())
}

pub(super) fn check_depth(depth: usize) -> Result<(), Fault> {
    if depth > DEEPEST { Err(Fault("exceeded max depth".into())) } else { Ok(()) }
}

fn read_field(
    field: &'static Field,
    tag: Tag,
    reader: &mut Reader<'_>,
    into: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), Fault> {
    let Some(name) = field.name else {
        tag.expect(DELIMITED, field.go_name())?;
        let Holds::Message(place) = field.holds else { return reader.skip(tag) };
        return read(place.message(), reader.delimited()?, into, depth);
    };
    match field.many {
        Many::One | Many::Pointer => {
            let previous = into.remove(name);
            let value = value(field.holds, tag, reader, previous, depth, &|| field.go_name())?;
            into.insert(name.to_owned(), value);
        }
        Many::List => {
            let list = into.entry(name).or_insert(Value::Null);
            if !list.is_array() {
                *list = Value::Array(Vec::new());
            }
            let Value::Array(list) = list else { return Ok(()) };
            read_items(field, tag, reader, list, depth + 1)?;
        }
        Many::Map => {
            tag.expect(DELIMITED, field.go_name())?;
            let (key, value) = entry(field, reader.delimited()?, depth + 1)?;
            let map = into.entry(name).or_insert(Value::Null);
            match map {
                Value::Object(map) => drop(map.insert(key, value)),
                _ => *map = Value::Object(Map::from_iter([(key, value)])),
            }
        }
    }
    Ok(())
}

/// Numbers may be packed: many of them in one piece.
fn read_items(
    field: &'static Field,
    tag: Tag,
    reader: &mut Reader<'_>,
    list: &mut Vec<Value>,
    depth: usize,
) -> Result<(), Fault> {
    let packable = matches!(field.holds, Holds::Bool | Holds::Int32 | Holds::Int64);
    if packable && tag.wire == DELIMITED {
        let mut packed = Reader::new("", reader.delimited()?);
        while !packed.is_done() {
            list.push(number(field.holds, packed.varint()?));
        }
        return Ok(());
    }
    list.push(value(field.holds, tag, reader, None, depth, &|| field.go_name())?);
    Ok(())
}

/// One entry of a map; what is missing in it is zero.
fn entry(field: &'static Field, data: &[u8], depth: usize) -> Result<(String, Value), Fault> {
    let mut reader = Reader::new(field.name.unwrap_or_default(), data);
    let (mut key, mut found) = (String::new(), None);
    while let Some(tag) = reader.tag()? {
        match tag.number {
            1 => key = text(reader.delimited()?),
            2 => found = Some(value(field.holds, tag, &mut reader, found, depth, &|| "Value".to_owned())?),
            _ => reader.skip(tag)?,
        }
    }
    Ok((key, found.unwrap_or_else(|| zero(field.holds))))
}

fn value(
    holds: Holds,
    tag: Tag,
    reader: &mut Reader<'_>,
    previous: Option<Value>,
    depth: usize,
    go_name: &dyn Fn() -> String,
) -> Result<Value, Fault> {
    let wire = match holds {
        Holds::Bool | Holds::Int32 | Holds::Int64 => VARINT,
        Holds::Double => FIXED64,
        _ => DELIMITED,
    };
    if tag.wire != wire {
        tag.expect(wire, go_name())?;
    }
    match wire {
        VARINT => Ok(number(holds, reader.varint()?)),
        FIXED64 => special::double(f64::from_bits(reader.fixed64()?)),
        _ => delimited(holds, reader.delimited()?, previous, depth),
    }
}

fn number(holds: Holds, varint: u64) -> Value {
    match holds {
        Holds::Bool => (varint != 0).into(),
        Holds::Int32 => (varint as i32).into(),
        _ => (varint as i64).into(),
    }
}

/// Go keeps what is not UTF-8 until it writes JSON, and replaces it then.
pub(super) fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}

fn delimited(holds: Holds, data: &[u8], previous: Option<Value>, depth: usize) -> Result<Value, Fault> {
    match holds {
        Holds::String => Ok(text(data).into()),
        Holds::Bytes => Ok(special::base64(data).into()),
        Holds::Message(place) => {
            let mut object = match previous {
                Some(Value::Object(object)) => object,
                _ => Map::new(),
            };
            nested(place.message(), data, &mut object, depth + 1)?;
            Ok(object.into())
        }
        _ => special::read(holds, data, depth),
    }
}

/// Brings an object that was read from the wire to what Go's JSON has of it.
fn finish(message: &'static Message, object: &mut Map<String, Value>) {
    for field in message.fields() {
        match (field.name, field.holds) {
            (None, Holds::Message(place)) => finish(place.message(), object),
            (None, _) => {}
            (Some(name), _) => match object.get(name) {
                Some(value) if is_left_out(field, value) => drop(object.remove(name)),
                Some(_) => {}
                None => {
                    if let Some(value) = absent(field) {
                        object.insert(name.to_owned(), value);
                    }
                }
            },
        }
    }
}

fn is_left_out(field: &Field, value: &Value) -> bool {
    let empty = || match value {
        Value::Null => false,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
    };
    match field.many {
        Many::Pointer => false,
        Many::List | Many::Map => field.omit_empty && empty(),
        Many::One => {
            field.omit_empty && is_plain(field.holds) && empty()
                || field.omit_zero && *value == zero(field.holds)
        }
    }
}

/// Whether `omitempty` has a meaning for it: Go never takes a struct for empty.
fn is_plain(holds: Holds) -> bool {
    use Holds::{Bool, Bytes, Double, Int32, Int64, Names, String};
    matches!(holds, String | Bool | Int32 | Int64 | Double | Bytes | Names)
}

/// What Go's JSON has for a field that was not set.
fn absent(field: &Field) -> Option<Value> {
    let nil = field.many != Many::One || matches!(field.holds, Holds::Bytes | Holds::Names);
    if nil || is_plain(field.holds) {
        let value = || if nil { Value::Null } else { zero(field.holds) };
        return (!field.omit_empty && !field.omit_zero).then(value);
    }
    (!field.omit_zero).then(|| zero(field.holds))
}

/// The JSON of a zero value.
fn zero(holds: Holds) -> Value {
    match holds {
        Holds::String | Holds::Bytes => "".into(),
        Holds::Bool | Holds::SchemaOrBool(_) => false.into(),
        Holds::Int32 | Holds::Int64 | Holds::Double | Holds::IntOrString => 0.into(),
        Holds::Quantity => "0".into(),
        Holds::Names => Value::Array(Vec::new()),
        Holds::Time | Holds::MicroTime | Holds::Raw(_) => Value::Null,
        Holds::SchemaOrArray(_) | Holds::SchemaOrNames(_) => Value::Null,
        Holds::Message(place) => {
            let mut object = Map::new();
            finish(place.message(), &mut object);
            object.into()
        }
    }
}
