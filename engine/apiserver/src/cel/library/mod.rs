//! The functions of CEL and of Kubernetes. One match in each file: the name and the kinds of arguments
//! choose what is done, and what no file knows has no overload.

pub(super) mod convert;
mod formats;
pub(super) mod lists;
mod net;
mod numbers;
mod quantity;
pub mod rights;
pub(super) mod semver;
mod strings;
pub(super) mod text_format;
pub(super) mod url;

use super::ast::Literal;
use super::meter::{Budget, Meter};
use super::value::{Error, Result, Value};
use crate::schema::validate::pattern;

/// Calls a function; the one it is called on, if any, is the first argument.
pub(super) fn call<'a>(function: &str, args: &[Value<'a>], meter: &Meter<'_>) -> Result<Value<'a>> {
    let known = numbers::call(function, args, meter)
        .or_else(|| convert::call(function, args))
        .or_else(|| strings::call(function, args, meter))
        .or_else(|| lists::call(function, args, meter))
        .or_else(|| optional(function, args, meter))
        .or_else(|| net::call(function, args))
        .or_else(|| url::call(function, args))
        .or_else(|| quantity::call(function, args))
        .or_else(|| semver::call(function, args))
        .or_else(|| formats::call(function, args))
        .or_else(|| rights::call(function, args));
    known.unwrap_or_else(|| Err(no_overload(function, args)))
}

/// Calls a function outside of any evaluation.
pub(super) fn call_once<'a>(function: &str, args: &[Value<'a>]) -> Result<Value<'a>> {
    call(function, args, &Meter::new(&Budget::default()))
}

/// How much text a function goes through, or may copy.
pub(super) fn length(function: &str, args: &[Value<'_>]) -> usize {
    // These look at no more than the shorter of two texts, and count themselves.
    if matches!(
        function,
        "_==_"
            | "_!=_"
            | "_<_"
            | "_<=_"
            | "_>_"
            | "_>=_"
            | "@in"
            | "dyn"
            | "type"
            | "startsWith"
            | "endsWith"
    ) {
        return 0;
    }
    let text = |value: &Value<'_>| match value {
        Value::String(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    };
    args.iter().map(text).sum()
}

fn no_overload(function: &str, args: &[Value<'_>]) -> Error {
    match function {
        // Operators and the functions that take only texts do not tell what they got.
        "contains" | "startsWith" | "endsWith" => Error::no_such_overload(),
        operator if operator.contains('_') || operator.starts_with('@') => Error::no_such_overload(),
        "size" | "matches" | "sort" => Error::new(format!("no such overload: {function}")),
        _ => {
            let types: Vec<&str> = args.iter().map(Value::type_name).collect();
            Error::new(format!("no such overload: {function}({})", types.join(", ")))
        }
    }
}

/// Whether a literal is a valid argument of a function that reads texts.
pub(super) fn accepts_literal(function: &str, literal: &Literal) -> bool {
    match (function, literal) {
        ("matches", Literal::String(text)) => pattern::compiled(text).is_some(),
        ("matches", _) => true,
        _ => call_once(function, &[Value::literal(literal)]).is_ok(),
    }
}

fn optional<'a>(function: &str, args: &[Value<'a>], meter: &Meter<'_>) -> Option<Result<Value<'a>>> {
    Some(Ok(match (function, args) {
        ("optional.of", [value]) => Value::some(value.clone()),
        ("optional.ofNonZeroValue", [value]) if is_zero(value) => Value::Optional(None),
        ("optional.ofNonZeroValue", [value]) => Value::some(value.clone()),
        ("optional.none", []) => Value::Optional(None),
        ("hasValue", [Value::Optional(value)]) => Value::Bool(value.is_some()),
        ("value", [Value::Optional(Some(value))]) => (**value).clone(),
        ("value", [Value::Optional(None)]) => return Some(Err(Error::new("optional.none() dereference"))),
        ("optional.unwrap" | "unwrapOpt", [Value::List(list)]) => {
            let items = match list.copied(meter) {
                Ok(items) => items,
                Err(error) => return Some(Err(error)),
            };
            let known = items.into_iter().filter_map(|item| match item {
                Value::Optional(Some(value)) => Some((*value).clone()),
                _ => None,
            });
            Value::list(known.collect())
        }
        _ => return None,
    }))
}

fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Null | Value::Optional(None) => true,
        Value::Bool(value) => !value,
        Value::Int(value) | Value::Duration(value) => *value == 0,
        Value::Uint(value) => *value == 0,
        Value::Double(value) => *value == 0.0,
        Value::String(value) => value.is_empty(),
        Value::Bytes(value) => value.is_empty(),
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
        Value::Message(made) => made.fields.is_empty(),
        _ => false,
    }
}
