//! `'…%s…'.format([…])`.

use std::fmt::Write;

use super::super::time;
use super::super::value::{Error, Result, Value};
use super::convert::double;

/// Digits after the point unless told otherwise.
const PRECISION: usize = 6;

pub(super) fn format(template: &str, args: &[Value<'_>]) -> Result<String> {
    let mut out = String::new();
    let mut letters = template.chars();
    let mut args = args.iter().enumerate();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        let mut verb = letters.next().ok_or_else(|| Error::new("unexpected end of string"))?;
        if verb == '%' {
            out.push('%');
            continue;
        }
        let mut precision = PRECISION;
        if verb == '.' {
            let mut digits = String::new();
            loop {
                verb =
                    letters.next().ok_or_else(|| Error::new("could not find end of precision specifier"))?;
                if !verb.is_ascii_digit() {
                    break;
                }
                digits.push(verb);
            }
            precision = digits.parse().unwrap_or(PRECISION).min(1000);
        }
        let count = args.len();
        let Some((_, arg)) = args.next() else {
            return Err(Error::new(format!("index {count} out of range")));
        };
        out.push_str(&one(verb, precision, arg)?);
    }
    Ok(out)
}

fn one(verb: char, precision: usize, arg: &Value<'_>) -> Result<String> {
    let wrong = |rule: &str| {
        let why = format!("error during formatting: {rule}, was given {}", arg.type_name());
        Err(Error::new(why))
    };
    match (verb, arg) {
        ('s', _) => text(arg),
        ('d', Value::Int(value)) => Ok(value.to_string()),
        ('d', Value::Uint(value)) => Ok(value.to_string()),
        ('d', _) => wrong("decimal clause can only be used on integers"),
        ('f', Value::Double(value)) => Ok(fixed(*value, precision)),
        ('f', _) => wrong("fixed-point clause can only be used on doubles"),
        ('e', Value::Double(value)) => Ok(scientific(*value, precision)),
        ('e', _) => wrong("scientific clause can only be used on doubles"),
        ('b', Value::Int(value)) => Ok(signed(*value, |value| format!("{value:b}"))),
        ('b', Value::Uint(value)) => Ok(format!("{value:b}")),
        ('b', Value::Bool(value)) => Ok(if *value { "1" } else { "0" }.to_owned()),
        ('b', _) => wrong("only integers and bools can be formatted as binary"),
        ('o', Value::Int(value)) => Ok(signed(*value, |value| format!("{value:o}"))),
        ('o', Value::Uint(value)) => Ok(format!("{value:o}")),
        ('o', _) => wrong("octal clause can only be used on integers"),
        ('x' | 'X', _) => {
            let hex = match arg {
                Value::Int(value) => signed(*value, |value| format!("{value:x}")),
                Value::Uint(value) => format!("{value:x}"),
                Value::String(text) => bytes(text.as_bytes()),
                Value::Bytes(value) => bytes(value),
                _ => return wrong("only integers, byte buffers, and strings can be formatted as hex"),
            };
            Ok(if verb == 'X' { hex.to_uppercase() } else { hex })
        }
        _ => Err(Error::new(format!(
            "could not parse formatting clause: unrecognized formatting clause \"{verb}\""
        ))),
    }
}

fn signed(value: i64, write: impl Fn(u64) -> String) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", write(value.unsigned_abs()))
}

fn bytes(value: &[u8]) -> String {
    value.iter().fold(String::new(), |mut out, byte| {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// With thousands apart, as the locale has it.
fn fixed(value: f64, precision: usize) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "∞"
        } else {
            "-∞"
        }
        .to_owned();
    }
    let plain = format!("{value:.precision$}");
    let (sign, digits) = plain.strip_prefix('-').map_or(("", plain.as_str()), |rest| ("-", rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    match fraction {
        "" => format!("{sign}{grouped}"),
        fraction => format!("{sign}{grouped}.{fraction}"),
    }
}

fn scientific(value: f64, precision: usize) -> String {
    let written = format!("{value:.precision$e}");
    match written.split_once('e') {
        Some((digits, exponent)) => {
            let exponent: i32 = exponent.parse().unwrap_or_default();
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits} × 10{}", superscript(&format!("{sign}{:02}", exponent.abs())))
        }
        None => written,
    }
}

/// The locale's way to write exponents.
fn superscript(text: &str) -> String {
    let small = |letter| match letter {
        '-' => '⁻',
        '+' => '⁺',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '0'..='9' => char::from_u32('⁰' as u32 + letter as u32 - '0' as u32).unwrap_or(letter),
        other => other,
    };
    text.chars().map(small).collect()
}

fn text(arg: &Value<'_>) -> Result<String> {
    Ok(match arg {
        Value::List(list) => {
            let items = list.items.iter().map(inside).collect::<Result<Vec<_>>>()?;
            format!("[{}]", items.join(", "))
        }
        Value::Map(_) | Value::Object(_) => {
            let mut entries = Vec::new();
            for (key, value) in arg.pairs()? {
                entries.push((inside(&key)?, inside(&value)?));
            }
            entries.sort();
            let entries: Vec<String> = entries.iter().map(|(key, value)| format!("{key}:{value}")).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::String(text) => text.to_string(),
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => double(*value),
        Value::Type(name) => name.to_string(),
        Value::Duration(span) => time::format_duration(*span),
        Value::Timestamp(at) => time::format_timestamp(*at),
        Value::Bytes(value) => String::from_utf8_lossy(value).into_owned(),
        other => {
            let why = "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given";
            return Err(Error::new(format!("{why} {}", other.type_name())));
        }
    })
}

/// A value inside a list or map, written as CEL would have it.
fn inside(value: &Value<'_>) -> Result<String> {
    Ok(match value {
        Value::String(text) => format!("{text:?}"),
        Value::Bytes(_) => format!("b{:?}", text(value)?),
        Value::Double(value) => format!("{value:.PRECISION$}"),
        Value::Duration(_) => format!("duration({:?})", text(value)?),
        Value::Timestamp(_) => format!("timestamp({:?})", text(value)?),
        Value::Unfit(why) => return Err(Error::new(&**why)),
        other => text(other)?,
    })
}
