//! From JSON to the bytes that Go would have written of the same object: fields by number, maps by key,
//! zero values included. What does not fit its field is written as zero; objects of the store do fit.

use serde_json::{Map, Value};

use super::special;
use super::table::{Holds, Many, Message};
use super::wire::{self, FIXED64, VARINT};

/// Appends the fields of a message.
pub(super) fn fields(out: &mut Vec<u8>, message: &'static Message, object: &Map<String, Value>) {
    for field in message.fields() {
        let Some(name) = field.name else {
            if let Holds::Message(place) = field.holds {
                wire::put_nested(out, field.number, |out| fields(out, place.message(), object));
            }
            continue;
        };
        let value = object.get(name).unwrap_or(&Value::Null);
        // Go knows a nil slice, which is not written, from an empty one.
        let nilable = field.many == Many::Pointer || matches!(field.holds, Holds::Bytes | Holds::Names);
        match field.many {
            Many::One | Many::Pointer if nilable && value.is_null() => {}
            Many::One | Many::Pointer => single(out, field.number, field.holds, value),
            Many::List => {
                for item in value.as_array().into_iter().flatten() {
                    single(out, field.number, field.holds, item);
                }
            }
            Many::Map => {
                for (key, value) in value.as_object().into_iter().flatten() {
                    wire::put_nested(out, field.number, |out| {
                        wire::put_bytes(out, 1, key.as_bytes());
                        single(out, 2, field.holds, value);
                    });
                }
            }
        }
    }
}

fn single(out: &mut Vec<u8>, number: u16, holds: Holds, value: &Value) {
    let text = || value.as_str().unwrap_or_default();
    let mut varint = |value: i64| {
        wire::put_tag(out, number, VARINT);
        wire::put_varint(out, value as u64);
    };
    match holds {
        Holds::String => wire::put_bytes(out, number, text().as_bytes()),
        Holds::Bytes => wire::put_bytes(out, number, &special::bytes(text())),
        Holds::Bool => varint(value.as_bool().unwrap_or_default().into()),
        Holds::Int32 | Holds::Int64 => varint(value.as_i64().unwrap_or_default()),
        Holds::Double => {
            wire::put_tag(out, number, FIXED64);
            out.extend_from_slice(&value.as_f64().unwrap_or_default().to_le_bytes());
        }
        Holds::Message(place) => {
            let empty = Map::new();
            let object = value.as_object().unwrap_or(&empty);
            wire::put_nested(out, number, |out| fields(out, place.message(), object));
        }
        _ => wire::put_nested(out, number, |out| special::write(out, holds, value)),
    }
}
