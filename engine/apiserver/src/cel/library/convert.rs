//! Conversions between types, sizes, and the parts of times.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

use super::super::time;
use super::super::value::{Error, Result, Value};

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Result<Value<'a>>> {
    if let Some(part) = part_of_time(function) {
        return read_time(part, args);
    }
    let [value] = args else { return None };
    Some(match function {
        "size" => Ok(Value::Int(size(value)?)),
        "type" => Ok(Value::Type(value.type_name().into())),
        "dyn" => Ok(value.clone()),
        "bool" => to_bool(value)?,
        "int" => to_int(value)?,
        "uint" => to_uint(value)?,
        "double" => to_double(value)?,
        "string" => to_string(value)?,
        "bytes" => match value {
            Value::Bytes(_) => Ok(value.clone()),
            Value::String(text) => Ok(Value::Bytes(text.as_bytes().into())),
            _ => return None,
        },
        "duration" => match value {
            Value::Duration(_) => Ok(value.clone()),
            Value::Int(_) => Err(unconvertible(value, "google.protobuf.Duration")),
            Value::String(text) => {
                let span = time::parse_duration(text).map(Value::Duration);
                span.ok_or_else(|| unconvertible(value, "google.protobuf.Duration"))
            }
            _ => return None,
        },
        "timestamp" => match value {
            Value::Timestamp(..) => Ok(value.clone()),
            Value::Int(seconds) => Timestamp::from_second(*seconds)
                .map(|time| Value::Timestamp(time, Offset::UTC))
                .map_err(|_| Error::new("timestamp overflow")),
            Value::String(text) => {
                let time = time::parse_timestamp(text).map(|(time, offset)| Value::Timestamp(time, offset));
                time.ok_or_else(|| unconvertible(value, "google.protobuf.Timestamp"))
            }
            _ => return None,
        },
        _ => return None,
    })
}

fn unconvertible(value: &Value<'_>, to: &str) -> Error {
    Error::new(format!("type conversion error from '{}' to '{to}'", value.type_name()))
}

fn size(value: &Value<'_>) -> Option<i64> {
    Some(match value {
        Value::String(text) => text.chars().count() as i64,
        Value::Bytes(bytes) => bytes.len() as i64,
        Value::List(list) => list.len() as i64,
        Value::Map(map) => map.len() as i64,
        Value::Object(object) => object.fields.len() as i64,
        _ => return None,
    })
}

fn to_bool<'a>(value: &Value<'a>) -> Option<Result<Value<'a>>> {
    Some(match value {
        Value::Bool(_) => Ok(value.clone()),
        Value::String(text) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(unconvertible(value, "bool")),
        },
        _ => return None,
    })
}

fn to_int<'a>(value: &Value<'a>) -> Option<Result<Value<'a>>> {
    let overflow = || Error::new("integer overflow");
    Some(match value {
        Value::Int(_) => Ok(value.clone()),
        Value::Uint(value) => i64::try_from(*value).map(Value::Int).map_err(|_| overflow()),
        Value::Double(value) if value.is_finite() && value.abs() < 9_223_372_036_854_775_807.0 => {
            Ok(Value::Int(*value as i64))
        }
        Value::Double(_) => Err(overflow()),
        Value::Duration(nanoseconds) => Ok(Value::Int(*nanoseconds)),
        Value::Timestamp(time, _) => Ok(Value::Int(time.as_second())),
        Value::String(text) => text.parse().map(Value::Int).map_err(|_| unconvertible(value, "int")),
        _ => return None,
    })
}

fn to_uint<'a>(value: &Value<'a>) -> Option<Result<Value<'a>>> {
    let overflow = || Error::new("unsigned integer overflow");
    Some(match value {
        Value::Uint(_) => Ok(value.clone()),
        Value::Int(value) => u64::try_from(*value).map(Value::Uint).map_err(|_| overflow()),
        Value::Double(value) if *value >= 0.0 && *value < 18_446_744_073_709_551_615.0 => {
            Ok(Value::Uint(*value as u64))
        }
        Value::Double(_) => Err(overflow()),
        // Go takes no sign here.
        Value::String(text) if text.starts_with('+') => Err(unconvertible(value, "uint")),
        Value::String(text) => text.parse().map(Value::Uint).map_err(|_| unconvertible(value, "uint")),
        _ => return None,
    })
}

fn to_double<'a>(value: &Value<'a>) -> Option<Result<Value<'a>>> {
    Some(match value {
        Value::Double(_) => Ok(value.clone()),
        Value::Int(value) => Ok(Value::Double(*value as f64)),
        Value::Uint(value) => Ok(Value::Double(*value as f64)),
        Value::String(text) => text.parse().map(Value::Double).map_err(|_| unconvertible(value, "double")),
        _ => return None,
    })
}

fn to_string<'a>(value: &Value<'a>) -> Option<Result<Value<'a>>> {
    Some(Ok(Value::string(match value {
        Value::String(_) => return Some(Ok(value.clone())),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => double(*value),
        Value::Duration(nanoseconds) => time::format_duration(*nanoseconds),
        Value::Timestamp(time, offset) => time::format_timestamp(*time, *offset),
        Value::Ip(address) => address.to_string(),
        Value::Cidr(address, width) => format!("{address}/{width}"),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => return Some(Err(Error::new("invalid UTF-8 in bytes, cannot convert to string"))),
        },
        _ => return None,
    })))
}

/// A number as Go's `%g` writes it: as short as can be, with an exponent when it is large or small.
pub(in super::super) fn double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    format!("{value}")
}

/// Parts of a time, each a number.
#[derive(Clone, Copy)]
enum Part {
    Year,
    Month,
    DayOfYear,
    DayOfMonth,
    Date,
    DayOfWeek,
    Hours,
    Minutes,
    Seconds,
    Milliseconds,
}

fn part_of_time(function: &str) -> Option<Part> {
    Some(match function {
        "getFullYear" => Part::Year,
        "getMonth" => Part::Month,
        "getDayOfYear" => Part::DayOfYear,
        "getDayOfMonth" => Part::DayOfMonth,
        "getDate" => Part::Date,
        "getDayOfWeek" => Part::DayOfWeek,
        "getHours" => Part::Hours,
        "getMinutes" => Part::Minutes,
        "getSeconds" => Part::Seconds,
        "getMilliseconds" => Part::Milliseconds,
        _ => return None,
    })
}

fn read_time<'a>(part: Part, args: &[Value<'a>]) -> Option<Result<Value<'a>>> {
    let (time, zone) = match args {
        [Value::Timestamp(time, _)] => (*time, "UTC"),
        [Value::Timestamp(time, _), Value::String(zone)] => (*time, &**zone),
        [Value::Duration(span)] => {
            return Some(Ok(Value::Int(match part {
                Part::Hours => span / 3_600_000_000_000,
                Part::Minutes => span / 60_000_000_000,
                Part::Seconds => span / 1_000_000_000,
                Part::Milliseconds => span / 1_000_000,
                _ => return None,
            })));
        }
        _ => return None,
    };
    let read = |at: DateTime| {
        Value::Int(match part {
            Part::Year => at.year().into(),
            Part::Month => i64::from(at.month()) - 1,
            Part::DayOfYear => i64::from(at.day_of_year()) - 1,
            Part::DayOfMonth => i64::from(at.day()) - 1,
            Part::Date => at.day().into(),
            Part::DayOfWeek => at.weekday().to_sunday_zero_offset().into(),
            Part::Hours => at.hour().into(),
            Part::Minutes => at.minute().into(),
            Part::Seconds => at.second().into(),
            Part::Milliseconds => at.millisecond().into(),
        })
    };
    Some(time::in_zone(time, zone).map(read).map_err(Error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_as_go_writes_them() {
        let cases = [
            (1.0, "1"),
            (-12300.0, "-12300"),
            (1_000_000.0, "1e+06"),
            (123_456_789.0, "1.23456789e+08"),
            (100_000.5, "100000.5"),
            (0.0001, "0.0001"),
            (0.000_012_5, "1.25e-05"),
            (0.0, "0"),
        ];
        for (value, wanted) in cases {
            assert_eq!(double(value), wanted);
        }
    }
}
