//! `'…%s…'.format([…])`.

use std::fmt::Write;

use super::super::issue::Issue;
use super::super::meter::{Meter, VALUE};
use super::super::time;
use super::super::types::Type;
use super::super::value::{Error, LONGEST_TEXT, List, Result, Value};
use super::convert::double;

/// Digits after the point unless told otherwise.
const PRECISION: usize = 6;
/// More digits than any double has.
const MOST_DIGITS: usize = 1000;

pub(super) fn format(template: &str, args: &List<'_>, meter: &Meter<'_>) -> Result<String> {
    let mut used = 0;
    meter.make(template.len())?;
    let mut out = String::new();
    for part in parts(template) {
        match part.map_err(Error)? {
            Part::Text(letter) => out.push(letter),
            Part::Clause(verb, precision) => {
                let arg = args.get(used).ok_or_else(|| Error(format!("index {used} out of range")))?;
                used += 1;
                if let Some(why) = refusal(verb, arg.type_name()) {
                    return Err(Error(why));
                }
                out.push_str(&one(verb, precision, &arg, meter)?);
                if out.len() > LONGEST_TEXT {
                    return Err(Error::too_much());
                }
            }
        }
    }
    Ok(out)
}

/// What is wrong with a template and the types of its arguments, which are at these places.
pub(in super::super) fn objection(at: usize, template: &str, args: &[(usize, Type)]) -> Option<Issue> {
    let mut used = 0;
    for part in parts(template) {
        match part {
            Err(why) => return Some(Issue::new(at, why)),
            Ok(Part::Text(_)) => {}
            Ok(Part::Clause(verb, _)) => {
                let Some((arg_at, of)) = args.get(used) else {
                    return Some(Issue::new(at, format!("index {used} out of range")));
                };
                used += 1;
                let name = match of {
                    Type::Dyn | Type::Error | Type::Var(_) => continue,
                    Type::List(_) => "list".to_owned(),
                    Type::Map(..) => "map".to_owned(),
                    Type::Null => "null_type".to_owned(),
                    Type::Meta(_) => "type".to_owned(),
                    Type::Duration => "google.protobuf.Duration".to_owned(),
                    Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
                    other => other.to_string(),
                };
                if let Some(why) = refusal(verb, &name) {
                    return Some(Issue::new(*arg_at, why));
                }
            }
        }
    }
    let (wanted, given) = (used, args.len());
    (given > wanted).then(|| {
        let why = format!("too many arguments supplied to string.format (expected {wanted}, got {given})");
        Issue::new(at, why)
    })
}

enum Part {
    Text(char),
    /// A verb and its precision.
    Clause(char, usize),
}

fn parts(template: &str) -> impl Iterator<Item = std::result::Result<Part, String>> {
    let mut letters = template.chars();
    std::iter::from_fn(move || {
        let letter = letters.next()?;
        if letter != '%' {
            return Some(Ok(Part::Text(letter)));
        }
        let mut verb = match letters.next() {
            None => return Some(Err("unexpected end of string".to_owned())),
            Some('%') => return Some(Ok(Part::Text('%'))),
            Some(verb) => verb,
        };
        let mut precision = PRECISION;
        if verb == '.' {
            let mut digits = String::new();
            loop {
                match letters.next() {
                    Some(digit) if digit.is_ascii_digit() => digits.push(digit),
                    Some(other) => {
                        verb = other;
                        break;
                    }
                    None => {
                        let why = "could not parse formatting clause: error while parsing precision: could not find end of precision specifier";
                        return Some(Err(why.to_owned()));
                    }
                }
            }
            precision = digits.parse().unwrap_or(PRECISION).min(MOST_DIGITS);
        }
        match verb {
            's' | 'd' | 'f' | 'e' | 'b' | 'o' | 'x' | 'X' => Some(Ok(Part::Clause(verb, precision))),
            other => {
                let why =
                    format!("could not parse formatting clause: unrecognized formatting clause \"{other}\"");
                Some(Err(why))
            }
        }
    })
}

/// Why a verb does not take a type, if so.
fn refusal(verb: char, of: &str) -> Option<String> {
    let (types, rule): (&[&str], &str) = match verb {
        's' => (
            &[
                "list",
                "map",
                "int",
                "uint",
                "double",
                "bool",
                "string",
                "bytes",
                "type",
                "null_type",
                "google.protobuf.Duration",
                "google.protobuf.Timestamp",
            ],
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps",
        ),
        'd' => (&["int", "uint"], "decimal clause can only be used on integers"),
        'f' => (&["double"], "fixed-point clause can only be used on doubles"),
        'e' => (&["double"], "scientific clause can only be used on doubles"),
        'b' => (&["int", "uint", "bool"], "only integers and bools can be formatted as binary"),
        'o' => (&["int", "uint"], "octal clause can only be used on integers"),
        _ => (
            &["int", "uint", "string", "bytes"],
            "only integers, byte buffers, and strings can be formatted as hex",
        ),
    };
    (!types.contains(&of)).then(|| format!("error during formatting: {rule}, was given {of}"))
}

fn one(verb: char, precision: usize, arg: &Value<'_>, meter: &Meter<'_>) -> Result<String> {
    Ok(match (verb, arg) {
        ('f', Value::Double(value)) => fixed(*value, precision),
        ('e', Value::Double(value)) => scientific(*value),
        ('b', Value::Int(value)) => signed(*value, |value| format!("{value:b}")),
        ('b', Value::Uint(value)) => format!("{value:b}"),
        ('b', Value::Bool(value)) => if *value { "1" } else { "0" }.to_owned(),
        ('o', Value::Int(value)) => signed(*value, |value| format!("{value:o}")),
        ('o', Value::Uint(value)) => format!("{value:o}"),
        ('x' | 'X', _) => {
            let hex = match arg {
                Value::Int(value) => signed(*value, |value| format!("{value:x}")),
                Value::Uint(value) => format!("{value:x}"),
                Value::Bytes(value) => bytes(value),
                other => bytes(text(other, meter)?.as_bytes()),
            };
            if verb == 'X' { hex.to_uppercase() } else { hex }
        }
        _ => text(arg, meter)?,
    })
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

/// The precision is taken for a width, which numbers of this length always have.
fn scientific(value: f64) -> String {
    let written = format!("{value:.PRECISION$e}");
    match written.split_once('e') {
        Some((digits, exponent)) => {
            let exponent: i32 = exponent.parse().unwrap_or_default();
            let sign = if exponent < 0 { "⁻" } else { "" };
            format!("{digits}×10{sign}{}", superscript(exponent.unsigned_abs()))
        }
        None => written,
    }
}

/// The locale's way to write exponents.
fn superscript(number: u32) -> String {
    let digits = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    format!("{number:02}").bytes().map(|digit| digits[usize::from(digit - b'0')]).collect()
}

/// A value written out, each part counted before it is made: one list may hold the same text very often.
fn text(arg: &Value<'_>, meter: &Meter<'_>) -> Result<String> {
    meter.touch(1)?;
    meter.make(match arg {
        Value::String(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => VALUE,
    })?;
    Ok(match arg {
        Value::List(list) => {
            let items = list.iter().map(|item| inside(&item, meter)).collect::<Result<Vec<_>>>()?;
            format!("[{}]", items.join(", "))
        }
        Value::Map(_) | Value::Object(_) => {
            let mut entries = Vec::new();
            for (key, value) in arg.pairs()? {
                entries.push((inside(&key, meter)?, inside(&value, meter)?));
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
        Value::Timestamp(at, offset) => time::format_timestamp(*at, *offset),
        Value::Bytes(value) => String::from_utf8_lossy(value).into_owned(),
        other => return Err(Error(format!("no formatting function for {}", other.type_name()))),
    })
}

/// A value inside a list or map, written as CEL would have it.
fn inside(value: &Value<'_>, meter: &Meter<'_>) -> Result<String> {
    Ok(match value {
        Value::String(text) => {
            meter.make(text.len())?;
            format!("{text:?}")
        }
        Value::Bytes(_) => format!("b{:?}", text(value, meter)?),
        Value::Double(value) => format!("{value:.PRECISION$}"),
        Value::Duration(_) => format!("duration({:?})", text(value, meter)?),
        Value::Timestamp(..) => format!("timestamp({:?})", text(value, meter)?),
        Value::Unfit(why) => return Err(Error::new(&**why)),
        other => text(other, meter)?,
    })
}
