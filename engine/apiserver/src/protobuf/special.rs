//! The types whose JSON is not that of their fields: times, quantities, raw JSON, the unions of JSON
//! schemas. Each is a small message; here are both directions.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Number, Value};

use super::table::{Holds, Message, Place};
use super::wire::{self, DELIMITED, Reader, Tag, VARINT};
use super::{Fault, decode, encode};
use crate::context::{rfc3339, rfc3339_micro};
use crate::quantity::Quantity;

/// Go's zero time, the first second of year one, which JSON has as null.
const ZERO_TIME: i64 = -62_135_596_800;

/// The JSON of a special type.
pub(super) fn read(holds: Holds, data: &[u8], depth: usize) -> Result<Value, Fault> {
    match holds {
        Holds::Time => time(data, |seconds, _| (seconds, 0), rfc3339),
        Holds::MicroTime => time(data, |seconds, nanos| (seconds, nanos / 1000 * 1000), rfc3339_micro),
        Holds::Quantity => quantity(data),
        Holds::IntOrString => int_or_string(data),
        Holds::Raw(name) => raw(name, data, depth),
        Holds::Names => names(data),
        Holds::SchemaOrArray(place) => schema_or_array(place, data, depth),
        Holds::SchemaOrBool(place) => schema_or_bool(place, data, depth),
        Holds::SchemaOrNames(place) => schema_or_names(place, data, depth),
        _ => Ok(Value::Null),
    }
}

/// Appends the fields of a special type's message.
pub(super) fn write(out: &mut Vec<u8>, holds: Holds, value: &Value) {
    let text = value.as_str().unwrap_or_default();
    match holds {
        Holds::Time | Holds::MicroTime => {
            if let Ok(time) = text.parse::<Timestamp>() {
                let nanos = if holds == Holds::Time { 0 } else { time.subsec_nanosecond() };
                put_number(out, 1, time.as_second());
                put_number(out, 2, nanos.into());
            }
        }
        Holds::Quantity if value.is_null() => wire::put_bytes(out, 1, b"0"),
        Holds::Quantity => wire::put_bytes(out, 1, text.as_bytes()),
        Holds::IntOrString => {
            put_number(out, 1, value.is_string().into());
            put_number(out, 2, value.as_i64().unwrap_or_default());
            wire::put_bytes(out, 3, text.as_bytes());
        }
        Holds::Raw(_) if value.is_null() => {}
        Holds::Raw(_) => {
            let text = serde_json::to_vec(value).expect("a value can be written");
            wire::put_bytes(out, 1, &text);
        }
        Holds::Names => put_names(out, 1, value),
        Holds::SchemaOrBool(place) => {
            put_number(out, 1, (value.is_object() || *value == Value::Bool(true)).into());
            put_schema(out, 2, place, value);
        }
        Holds::SchemaOrNames(place) => {
            put_schema(out, 1, place, value);
            put_names(out, 2, value);
        }
        Holds::SchemaOrArray(place) => {
            put_schema(out, 1, place, value);
            for schema in value.as_array().into_iter().flatten() {
                put_schema(out, 2, place, schema);
            }
        }
        _ => {}
    }
}

fn put_number(out: &mut Vec<u8>, number: u16, value: i64) {
    wire::put_tag(out, number, VARINT);
    wire::put_varint(out, value as u64);
}

fn put_names(out: &mut Vec<u8>, number: u16, value: &Value) {
    for name in value.as_array().into_iter().flatten() {
        wire::put_bytes(out, number, name.as_str().unwrap_or_default().as_bytes());
    }
}

fn put_schema(out: &mut Vec<u8>, number: u16, place: Place, value: &Value) {
    if let Value::Object(schema) = value {
        wire::put_nested(out, number, |out| encode::fields(out, place.message(), schema));
    }
}

pub(super) fn base64(data: &[u8]) -> String {
    STANDARD.encode(data)
}

/// What base64 stands for; nothing where it is not base64, which no stored object has.
pub(super) fn bytes(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap_or_default()
}

/// Go writes a whole number without a point.
pub(super) fn double(number: f64) -> Result<Value, Fault> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT {
        return Ok((number as i64).into());
    }
    let unsupported = || Fault(format!("json: unsupported value: {number}"));
    Number::from_f64(number).map(Value::Number).ok_or_else(unsupported)
}

fn fields<'a>(
    message: &'static str,
    data: &'a [u8],
    mut each: impl FnMut(Tag, &mut Reader<'a>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut reader = Reader::new(message, data);
    while let Some(tag) = reader.tag()? {
        each(tag, &mut reader)?;
    }
    Ok(())
}

fn varint(tag: Tag, reader: &mut Reader<'_>, go_name: &str) -> Result<u64, Fault> {
    tag.expect(VARINT, go_name)?;
    reader.varint()
}

pub(super) fn piece<'a>(tag: Tag, reader: &mut Reader<'a>, go_name: &str) -> Result<&'a [u8], Fault> {
    tag.expect(DELIMITED, go_name)?;
    reader.delimited()
}

fn time(
    data: &[u8],
    precision: fn(i64, i32) -> (i64, i32),
    write: fn(Timestamp) -> String,
) -> Result<Value, Fault> {
    if data.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    fields("Timestamp", data, |tag, reader| {
        match tag.number {
            1 => seconds = varint(tag, reader, "Seconds")? as i64,
            2 => nanos = varint(tag, reader, "Nanos")? as i32,
            _ => reader.skip(tag)?,
        }
        Ok(())
    })?;
    let (seconds, nanos) = precision(seconds, nanos);
    if (seconds, nanos) == (ZERO_TIME, 0) {
        return Ok(Value::Null);
    }
    let time = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let out_of_range = |_| Fault(format!("time of {seconds} seconds is out of range"));
    Timestamp::from_nanosecond(time).map(|time| write(time).into()).map_err(out_of_range)
}

fn quantity(data: &[u8]) -> Result<Value, Fault> {
    let mut found = "0".to_owned();
    fields("Quantity", data, |tag, reader| {
        if tag.number != 1 {
            return reader.skip(tag);
        }
        let text = decode::text(piece(tag, reader, "String_")?);
        let amount = Quantity::parse(&text).map_err(|error| Fault(error.to_string()))?;
        found = amount.to_string();
        Ok(())
    })?;
    Ok(found.into())
}

fn int_or_string(data: &[u8]) -> Result<Value, Fault> {
    let (mut which, mut number, mut text) = (0, 0, String::new());
    fields("IntOrString", data, |tag, reader| {
        match tag.number {
            1 => which = varint(tag, reader, "Type")? as i64,
            2 => number = varint(tag, reader, "IntVal")? as i32,
            3 => text = decode::text(piece(tag, reader, "StrVal")?),
            _ => reader.skip(tag)?,
        }
        Ok(())
    })?;
    match which {
        0 => Ok(number.into()),
        1 => Ok(text.into()),
        _ => Err(Fault("impossible IntOrString.Type".into())),
    }
}

fn raw(message: &'static str, data: &[u8], depth: usize) -> Result<Value, Fault> {
    let mut text: &[u8] = &[];
    fields(message, data, |tag, reader| {
        match tag.number {
            1 => text = piece(tag, reader, "Raw")?,
            _ => reader.skip(tag)?,
        }
        Ok(())
    })?;
    if text.is_empty() {
        return Ok(Value::Null);
    }
    let value: Value = serde_json::from_slice(text).map_err(|error| Fault(error.to_string()))?;
    decode::check_depth(depth + deepness(&value))?;
    Ok(value)
}

fn deepness(value: &Value) -> usize {
    let deepest = match value {
        Value::Array(items) => items.iter().map(deepness).max(),
        Value::Object(entries) => entries.values().map(deepness).max(),
        _ => return 0,
    };
    1 + deepest.unwrap_or(0)
}

fn names(data: &[u8]) -> Result<Value, Fault> {
    let mut names = Vec::new();
    fields("ExtraValue", data, |tag, reader| {
        match tag.number {
            1 => names.push(Value::String(decode::text(piece(tag, reader, "Items")?))),
            _ => reader.skip(tag)?,
        }
        Ok(())
    })?;
    Ok(names.into())
}

/// Reads on in a schema, which the same message may bring in pieces.
fn merge(
    schema: &mut Option<Map<String, Value>>,
    message: &'static Message,
    data: &[u8],
    depth: usize,
) -> Result<(), Fault> {
    decode::nested(message, data, schema.get_or_insert_default(), depth)
}

fn schema_or_bool(place: Place, data: &[u8], depth: usize) -> Result<Value, Fault> {
    let (mut allows, mut schema) = (false, None);
    fields("JSONSchemaPropsOrBool", data, |tag, reader| {
        match tag.number {
            1 => allows = varint(tag, reader, "Allows")? != 0,
            2 => merge(&mut schema, place.message(), piece(tag, reader, "Schema")?, depth + 1)?,
            _ => reader.skip(tag)?,
        }
        Ok(())
    })?;
    Ok(schema.map_or(Value::Bool(allows), Value::Object))
}

fn schema_or_array(place: Place, data: &[u8], depth: usize) -> Result<Value, Fault> {
    let (mut schema, mut schemas) = (None, Vec::new());
    fields("JSONSchemaPropsOrArray", data, |tag, reader| {
        match tag.number {
            1 => merge(&mut schema, place.message(), piece(tag, reader, "Schema")?, depth + 1)?,
            2 => {
                let mut one = None;
                merge(&mut one, place.message(), piece(tag, reader, "JSONSchemas")?, depth + 2)?;
                schemas.extend(one.map(Value::Object));
            }
            _ => reader.skip(tag)?,
        }
        Ok(())
    })?;
    Ok(one_or_many(schema, schemas))
}

fn schema_or_names(place: Place, data: &[u8], depth: usize) -> Result<Value, Fault> {
    let (mut schema, mut names) = (None, Vec::new());
    fields("JSONSchemaPropsOrStringArray", data, |tag, reader| {
        match tag.number {
            1 => merge(&mut schema, place.message(), piece(tag, reader, "Schema")?, depth + 1)?,
            2 => names.push(Value::String(decode::text(piece(tag, reader, "Property")?))),
            _ => reader.skip(tag)?,
        }
        Ok(())
    })?;
    Ok(one_or_many(schema, names))
}

fn one_or_many(one: Option<Map<String, Value>>, many: Vec<Value>) -> Value {
    if many.is_empty() { one.map_or(Value::Null, Value::Object) } else { many.into() }
}
