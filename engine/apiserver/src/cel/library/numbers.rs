//! Operators on numbers, times and everything else that has an order.

use std::cmp::Ordering;
use std::rc::Rc;

use jiff::SignedDuration;

use super::super::meter::Meter;
use super::super::value::{Error, LONGEST_TEXT, Result, Value};

pub(super) fn call<'a>(function: &str, args: &[Value<'a>], meter: &Meter<'_>) -> Option<Result<Value<'a>>> {
    let [left, right] = args else { return alone(function, args) };
    let ordered =
        |fits: fn(Ordering) -> bool| Some(left.compare(right, meter).map(|order| Value::Bool(fits(order))));
    match function {
        "_==_" => Some(left.equals(right, meter).map(Value::Bool)),
        "_!=_" => Some(left.equals(right, meter).map(|equal| Value::Bool(!equal))),
        "_<_" => ordered(Ordering::is_lt),
        "_<=_" => ordered(Ordering::is_le),
        "_>_" => ordered(Ordering::is_gt),
        "_>=_" => ordered(Ordering::is_ge),
        "@in" => Some(right.contains(left, meter).map(Value::Bool)),
        "_+_" => plus(left, right, meter),
        "_-_" => minus(left, right),
        "_*_" | "_/_" | "_%_" => arithmetic(function, left, right),
        _ => None,
    }
}

fn alone<'a>(function: &str, args: &[Value<'a>]) -> Option<Result<Value<'a>>> {
    match (function, args) {
        ("!_", [Value::Bool(value)]) => Some(Ok(Value::Bool(!value))),
        ("-_", [Value::Int(value)]) => Some(whole(value.checked_neg())),
        ("-_", [Value::Double(value)]) => Some(Ok(Value::Double(-value))),
        _ => None,
    }
}

fn whole<'a>(result: Option<i64>) -> Result<Value<'a>> {
    result.map(Value::Int).ok_or_else(|| Error::new("integer overflow"))
}

fn natural<'a>(result: Option<u64>) -> Result<Value<'a>> {
    result.map(Value::Uint).ok_or_else(|| Error::new("unsigned integer overflow"))
}

fn span<'a>(result: Option<i64>) -> Result<Value<'a>> {
    result.map(Value::Duration).ok_or_else(|| Error::new("integer overflow"))
}

fn plus<'a>(left: &Value<'a>, right: &Value<'a>, meter: &Meter<'_>) -> Option<Result<Value<'a>>> {
    Some(match (left, right) {
        (Value::Int(left), Value::Int(right)) => whole(left.checked_add(*right)),
        (Value::Uint(left), Value::Uint(right)) => natural(left.checked_add(*right)),
        (Value::Double(left), Value::Double(right)) => Ok(Value::Double(left + right)),
        (Value::String(left), Value::String(right)) if left.len() + right.len() > LONGEST_TEXT => {
            Err(Error::too_much())
        }
        (Value::Bytes(left), Value::Bytes(right)) if left.len() + right.len() > LONGEST_TEXT => {
            Err(Error::too_much())
        }
        (Value::String(left), Value::String(right)) => {
            meter.make(left.len() + right.len()).map(|()| Value::string(format!("{left}{right}")))
        }
        (Value::Bytes(left), Value::Bytes(right)) => {
            meter.make(left.len() + right.len()).map(|()| Value::Bytes([&**left, &**right].concat().into()))
        }
        (Value::List(left), Value::List(right)) => {
            left.plus(right, meter).map(|sum| Value::List(Rc::new(sum)))
        }
        (Value::Duration(left), Value::Duration(right)) => span(left.checked_add(*right)),
        (Value::Timestamp(time, offset), Value::Duration(span))
        | (Value::Duration(span), Value::Timestamp(time, offset)) => time
            .checked_add(SignedDuration::from_nanos(*span))
            .map(|time| Value::Timestamp(time, *offset))
            .map_err(|_| Error::new("timestamp overflow")),
        _ => return None,
    })
}

fn minus<'a>(left: &Value<'a>, right: &Value<'a>) -> Option<Result<Value<'a>>> {
    Some(match (left, right) {
        (Value::Int(left), Value::Int(right)) => whole(left.checked_sub(*right)),
        (Value::Uint(left), Value::Uint(right)) => natural(left.checked_sub(*right)),
        (Value::Double(left), Value::Double(right)) => Ok(Value::Double(left - right)),
        (Value::Duration(left), Value::Duration(right)) => span(left.checked_sub(*right)),
        (Value::Timestamp(left, _), Value::Timestamp(right, _)) => {
            span(i64::try_from(left.duration_since(*right).as_nanos()).ok())
        }
        (Value::Timestamp(time, offset), Value::Duration(span)) => time
            .checked_sub(SignedDuration::from_nanos(*span))
            .map(|time| Value::Timestamp(time, *offset))
            .map_err(|_| Error::new("timestamp overflow")),
        _ => return None,
    })
}

fn arithmetic<'a>(function: &str, left: &Value<'a>, right: &Value<'a>) -> Option<Result<Value<'a>>> {
    let by_zero = |what: &str| Some(Err(Error::new(format!("{what} by zero"))));
    Some(match (function, left, right) {
        ("_/_", _, Value::Int(0) | Value::Uint(0)) => return by_zero("division"),
        ("_%_", _, Value::Int(0) | Value::Uint(0)) => return by_zero("modulus"),
        ("_*_", Value::Int(left), Value::Int(right)) => whole(left.checked_mul(*right)),
        ("_/_", Value::Int(left), Value::Int(right)) => whole(left.checked_div(*right)),
        ("_%_", Value::Int(left), Value::Int(right)) => whole(left.checked_rem(*right)),
        ("_*_", Value::Uint(left), Value::Uint(right)) => natural(left.checked_mul(*right)),
        ("_/_", Value::Uint(left), Value::Uint(right)) => natural(left.checked_div(*right)),
        ("_%_", Value::Uint(left), Value::Uint(right)) => natural(left.checked_rem(*right)),
        ("_*_", Value::Double(left), Value::Double(right)) => Ok(Value::Double(left * right)),
        ("_/_", Value::Double(left), Value::Double(right)) => Ok(Value::Double(left / right)),
        _ => return None,
    })
}
