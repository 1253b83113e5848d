//! How a found value reads as text: Go's formatting, which clients see in the cells of a table.

use std::fmt::Write;

use serde_json::Value;

use super::eval::whole;

/// A value as a printer column of type `string` shows it, and a selectable field is compared with.
pub fn print(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(_) => print_number(value),
        Value::Array(_) | Value::Object(_) => {
            let mut json = String::new();
            write_json(value, &mut json);
            json
        }
    }
}

fn print_number(value: &Value) -> String {
    if let Some(number) = whole(value) {
        return number.to_string();
    }
    let number = value.as_f64().unwrap_or_default();
    let scientific = format!("{number:e}");
    match split_exponent(&scientific) {
        Some((mantissa, exponent)) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
        _ => number.to_string(),
    }
}

fn split_exponent(scientific: &str) -> Option<(&str, i32)> {
    let (mantissa, exponent) = scientific.split_once('e')?;
    Some((mantissa, exponent.parse().ok()?))
}

/// Compact JSON with what a browser might misread escaped, as Go's encoder does.
fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::Number(_) => write_json_number(value, out),
        Value::String(text) => write_json_text(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (index, (key, item)) in map.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json_text(key, out);
                out.push(':');
                write_json(item, out);
            }
            out.push('}');
        }
        Value::Null | Value::Bool(_) => out.push_str(&value.to_string()),
    }
}

fn write_json_number(value: &Value, out: &mut String) {
    if let Some(number) = whole(value) {
        return out.push_str(&number.to_string());
    }
    let number = value.as_f64().unwrap_or_default();
    let scientific = format!("{number:e}");
    match split_exponent(&scientific) {
        Some((mantissa, exponent)) if !(-6..21).contains(&exponent) => {
            let sign = if exponent < 0 { "-" } else { "+" };
            out.push_str(&format!("{mantissa}e{sign}{}", exponent.abs()));
        }
        _ => out.push_str(&number.to_string()),
    }
}

fn write_json_text(text: &str, out: &mut String) {
    for character in Value::from(text).to_string().chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                // Writing to a String does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            other => out.push(other),
        }
    }
}
