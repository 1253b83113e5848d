//! How JSON becomes a value: by its schema, and in the words of the stock server where it does not fit.

use std::rc::Rc;

use base64::Engine as _;
use jiff::tz::Offset;
use serde_json::Value as Json;

use super::{Error, List, Object, Result, Text, Value};
use crate::cel::schema::Schema;
use crate::cel::time;

/// What a part of the resource is worth under its schema.
pub(super) fn read<'a>(json: &'a Json, schema: &'a Schema) -> Result<Value<'a>> {
    let unfit = |wanted: &str| {
        let found = match json {
            Json::Null => "<nil>",
            Json::Bool(_) => "bool",
            Json::Number(number) if number.is_f64() => "float64",
            Json::Number(_) => "int64",
            Json::String(_) => "string",
            Json::Array(_) => "[]interface {}",
            Json::Object(_) => "map[string]interface {}",
        };
        Err(Error::new(format!("invalid data, expected {wanted}, got {found}")))
    };
    if json.is_null() {
        return match schema.nullable {
            true => Ok(Value::Null),
            false => Err(Error::new("invalid data, got null for schema with nullable=false")),
        };
    }
    if schema.int_or_string {
        return match json {
            Json::String(text) => Ok(Value::String(Text::Written(text))),
            Json::Number(number) if number.is_i64() => Ok(Value::Int(number.as_i64().unwrap_or_default())),
            _ => {
                Err(Error::new("invalid data, expected XIntOrString value to be either a string or integer"))
            }
        };
    }
    match (schema.kind.as_str(), json) {
        ("object", Json::Object(fields)) => {
            let schema = schema.resource.as_deref().unwrap_or(schema);
            Ok(Value::Object(Object { fields, schema }))
        }
        ("object", _) => {
            Err(Error::new("invalid data, expected a map for the provided schema with type=object"))
        }
        ("array", Json::Array(items)) => match &schema.items {
            Some(below) => Ok(Value::List(Rc::new(List::Written(items, &schema.list, below)))),
            None => Err(Error::new("invalid array type, expected Items with a non-empty Schema")),
        },
        ("array", _) => {
            Err(Error::new("invalid data, expected an array for the provided schema with type=array"))
        }
        ("string", Json::String(text)) => formatted(text, &schema.format),
        ("string", _) => unfit("string"),
        ("number", Json::Number(number)) => Ok(Value::Double(number.as_f64().unwrap_or(f64::NAN))),
        ("number", _) => unfit("float"),
        ("integer", Json::Number(number)) => match number.as_i64() {
            Some(value) => Ok(Value::Int(value)),
            None => unfit("int"),
        },
        ("integer", _) => unfit("int"),
        ("boolean", Json::Bool(value)) => Ok(Value::Bool(*value)),
        ("boolean", _) => unfit("bool"),
        _ if schema.preserve_unknown => Ok(Value::Preserved(json)),
        (kind, _) => Err(Error::new(format!(
            "invalid type, expected object, array, number, integer, boolean or string, or no type with x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got {kind}"
        ))),
    }
}

fn formatted<'a>(text: &'a str, format: &str) -> Result<Value<'a>> {
    let wrong = |kind: &str, why: &str| Err(Error::new(format!("Invalid {kind} {text}: {why}")));
    match format {
        "duration" => match time::parse_loose_duration(text) {
            Some(nanoseconds) => Ok(Value::Duration(nanoseconds)),
            None => wrong("duration", &format!("unable to parse {text} as duration")),
        },
        "date" => match time::parse_date(text) {
            Some(time) => Ok(Value::Timestamp(time, Offset::UTC)),
            None => wrong("date formatted string", &format!("cannot parse {text:?}")),
        },
        "date-time" => match time::parse_timestamp(text) {
            Some((time, offset)) => Ok(Value::Timestamp(time, offset)),
            None => wrong("date-time formatted string", &format!("cannot parse {text:?}")),
        },
        "byte" => match base64::engine::general_purpose::STANDARD.decode(text) {
            Ok(bytes) => Ok(Value::Bytes(bytes.into())),
            Err(_) => wrong("byte formatted string", "illegal base64 data"),
        },
        _ => Ok(Value::String(Text::Written(text))),
    }
}
