//! Amounts of resources.

use std::cmp::Ordering;
use std::rc::Rc;

use super::super::value::{Error, Result, Value};
use crate::quantity::Quantity;

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Result<Value<'a>>> {
    use Value::{Int, Quantity as Amount};
    let amount = |amount: Quantity| Ok(Amount(Rc::new(amount)));
    Some(match (function, args) {
        ("quantity", [Value::String(text)]) => match Quantity::parse(text) {
            Ok(parsed) => amount(parsed),
            Err(error) => Err(Error::new(error.to_string())),
        },
        ("isQuantity", [Value::String(text)]) => Ok(Value::Bool(Quantity::parse(text).is_ok())),
        ("sign", [Amount(value)]) => Ok(Int(match () {
            () if value.is_zero() => 0,
            () if value.is_negative() => -1,
            () => 1,
        })),
        ("isGreaterThan", [Amount(left), Amount(right)]) => {
            Ok(Value::Bool(left.partial_cmp(right) == Some(Ordering::Greater)))
        }
        ("isLessThan", [Amount(left), Amount(right)]) => {
            Ok(Value::Bool(left.partial_cmp(right) == Some(Ordering::Less)))
        }
        ("compareTo", [Amount(left), Amount(right)]) => {
            Ok(Int(left.partial_cmp(right).map_or(0, |order| order as i64)))
        }
        ("isInteger", [Amount(value)]) => Ok(Value::Bool(integer(value).is_some())),
        ("asInteger", [Amount(value)]) => {
            integer(value).map(Int).ok_or_else(|| Error::new("cannot convert value to integer"))
        }
        ("asApproximateFloat", [Amount(value)]) => Ok(Value::Double(approximate(value))),
        ("add", [Amount(left), Amount(right)]) => amount(left.add(right)),
        ("sub", [Amount(left), Amount(right)]) => amount(left.subtract(right)),
        ("add", [Amount(left), Int(right)]) => amount(left.add(&whole(*right)?)),
        ("sub", [Amount(left), Int(right)]) => amount(left.subtract(&whole(*right)?)),
        _ => return None,
    })
}

fn whole(value: i64) -> Option<Quantity> {
    Quantity::parse(&value.to_string()).ok()
}

/// The amount as a whole number, if it is one.
fn integer(value: &Quantity) -> Option<i64> {
    let rounded = value.value();
    (whole(rounded)? == *value).then_some(rounded)
}

/// The digits times their unit, each rounded: close to the amount, as the name says.
fn approximate(value: &Quantity) -> f64 {
    let text = value.to_string();
    let end = text.find(|letter: char| !matches!(letter, '0'..='9' | '.' | '-')).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let factor = match unit {
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 2f64.powi(10),
        "Mi" => 2f64.powi(20),
        "Gi" => 2f64.powi(30),
        "Ti" => 2f64.powi(40),
        "Pi" => 2f64.powi(50),
        "Ei" => 2f64.powi(60),
        exponent => format!("1{exponent}").parse().unwrap_or(1.0),
    };
    digits.parse::<f64>().unwrap_or_default() * factor
}
