//! What calls cost on a stock server: cel-go's cost tracker, its extensions, and the costs of Kubernetes' own functions.

use super::ast::{Expr, Fold, FoldKind, Kind};
use super::meter::Meter;
use super::value::{Result, Value};

/// A variable that is read, or a field.
pub(super) const READ: u64 = 1;
/// A list that is written out.
pub(super) const LIST: u64 = 10;
/// A map that is written out.
pub(super) const MAP: u64 = 30;
/// A call that is as quick for all arguments.
pub(super) const CALL: u64 = 1;
/// An authorization check; two of them fit one expression.
pub(super) const CHECK: u64 = 350_000;
/// A struct: a message of a mutation, or a requirement of a selector.
pub(super) const STRUCT: u64 = 40;

/// The cost of a call, known before it is made.
pub(super) fn of_call(function: &str, args: &[Value<'_>], meter: &Meter<'_>) -> Result<u64> {
    let size = |at: usize| args.get(at).map_or(Ok(1), |value| size(value, meter));
    Ok(match function {
        "check" => CHECK,
        "fieldSelector" | "labelSelector" => {
            let length = size(1)?;
            LIST + tenths(length) + length.div_ceil(2) * (LIST + STRUCT)
        }
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => match args.first() {
            Some(value) => traversal(value, meter)?,
            None => 0,
        },
        "ip" if matches!(args, [Value::Cidr(..)]) => CALL,
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "isIP" | "isCIDR" | "ip"
        | "quantity" | "isQuantity" | "semver" | "isSemver" | "startsWith" | "endsWith" | "strings.quote"
        | "format" => tenths(size(0)?),
        "bytes" | "string" if matches!(args, [Value::String(_) | Value::Bytes(_)]) => tenths(size(0)?),
        "replace" | "split" | "ip.isCanonical" => tenths(2 * size(0)?),
        // What is made is charged by its size, once that is known.
        "join" => 0,
        "matches" | "find" | "findAll" => tenths(1 + size(0)?).saturating_mul(size(1)?.div_ceil(4)),
        "contains" => tenths(size(0)?).saturating_mul(tenths(size(1)?)),
        "containsIP" | "containsCIDR" => match args {
            [_, Value::String(_)] => CALL + tenths(size(1)?),
            _ => CALL,
        },
        "validate" => match args {
            [Value::Format(name), _] => tenths(1 + size(1)?).saturating_mul(pattern_length(name).div_ceil(4)),
            _ => CALL,
        },
        "_==_" | "_!=_" => tenths(smaller(args, meter)?),
        "_<_" | "_<=_" | "_>_" | "_>=_" => match args {
            [Value::String(_) | Value::Bytes(_), _] => tenths(smaller(args, meter)?),
            _ => CALL,
        },
        "_+_" => match args {
            [Value::String(_) | Value::Bytes(_), _] => tenths(size(0)?.saturating_add(size(1)?)),
            _ => CALL,
        },
        "@in" => match args {
            [_, Value::List(list)] => list.len() as u64,
            _ => CALL,
        },
        "lists.range" => match args {
            [Value::Int(end)] => allocating(u64::try_from(*end).unwrap_or_default()),
            _ => CALL,
        },
        "slice" => match args {
            [_, Value::Int(start), Value::Int(end)] => {
                allocating(u64::try_from(end.saturating_sub(*start)).unwrap_or_default())
            }
            _ => CALL,
        },
        "reverse" if matches!(args, [Value::List(_)]) => allocating(size(0)?),
        "flatten" => match args {
            [_, Value::Int(depth)] => {
                allocating(size(0)?.saturating_mul(u64::try_from(*depth).unwrap_or_default()))
            }
            _ => allocating(size(0)?),
        },
        "distinct" | "sort" => match args {
            [Value::List(list)] => self_compare(list.len(), list.get(0).as_ref()),
            _ => CALL,
        },
        "sets.contains" | "sets.intersects" => CALL + size(0)?.saturating_mul(size(1)?),
        "sets.equivalent" => CALL + size(0)?.saturating_mul(size(1)?).saturating_mul(2),
        _ => CALL,
    })
}

/// What a call costs once its result is known.
pub(super) fn of_result(function: &str, result: &Value<'_>, meter: &Meter<'_>) -> Result<u64> {
    match function {
        "join" => Ok(tenths(2 * size(result, meter)?)),
        _ => Ok(0),
    }
}

/// The items of a list compared with each other.
pub(super) fn self_compare(items: usize, first: Option<&Value<'_>>) -> u64 {
    let pairs = (items as u64).saturating_mul(items as u64);
    let texts = match first {
        Some(Value::String(_) | Value::Bytes(_)) => pairs / 10,
        _ => 0,
    };
    allocating(pairs.saturating_mul(2).saturating_add(texts))
}

/// The cost of a fold itself, and of each item that it takes and each that it leaves: macros are written with the
/// operators of the language, which cost what they cost.
pub(super) struct FoldCost {
    pub(super) own: u64,
    pub(super) taken: u64,
    pub(super) left: u64,
}

pub(super) fn of_fold(fold: &Fold) -> FoldCost {
    // Each item is added as a list of one.
    let one = if is_constant(&fold.body) { 0 } else { LIST };
    // A list or map that is empty at first is a constant; and what stays as it was is not read.
    let (own, taken, left) = match fold.kind {
        FoldKind::All => (READ, 3, 3),
        FoldKind::Exists => (READ, 4, 4),
        FoldKind::ExistsOne => (READ + CALL, 2, 0),
        FoldKind::Map | FoldKind::SortBy => (READ, one + 2, 0),
        FoldKind::Filter => (READ, LIST + 3, 0),
        FoldKind::TransformMap => (READ, 3, 0),
        FoldKind::TransformMapEntry => (READ, 2, 0),
        FoldKind::OptMap | FoldKind::OptFlatMap => (2 * CALL, 0, 0),
    };
    FoldCost { own, taken, left }
}

/// Whether an expression is worked out once, with its program, and costs nothing afterwards.
pub(super) fn is_constant(expr: &Expr) -> bool {
    match &expr.kind {
        Kind::Literal(_) => true,
        Kind::List(items) => items.iter().all(|item| !item.optional && is_constant(&item.value)),
        Kind::Map(entries) => entries
            .iter()
            .all(|entry| !entry.optional && is_constant(&entry.key) && is_constant(&entry.value)),
        Kind::Call(call) => match (call.function.as_str(), call.args.as_slice(), &call.target) {
            ("@in", [_, list], None) => matches!(list.kind, Kind::List(_)) && is_constant(list),
            (function, [arg], None) => is_conversion(function) && matches!(arg.kind, Kind::Literal(_)),
            _ => false,
        },
        _ => false,
    }
}

fn is_conversion(function: &str) -> bool {
    matches!(
        function,
        "bool" | "bytes" | "double" | "duration" | "dyn" | "int" | "string" | "timestamp" | "type" | "uint"
    )
}

/// How many parts a value has; texts have letters.
fn size(value: &Value<'_>, meter: &Meter<'_>) -> Result<u64> {
    Ok(match value {
        Value::String(text) => {
            meter.scan(text.len())?;
            text.chars().count() as u64
        }
        Value::Bytes(bytes) => bytes.len() as u64,
        Value::List(list) => list.len() as u64,
        Value::Map(map) => map.len() as u64,
        Value::Object(object) => object.fields.len() as u64,
        Value::Optional(Some(value)) => return size(value, meter),
        _ => 1,
    })
}

/// The size of the smaller of two; that of a much longer text need not be known.
fn smaller(args: &[Value<'_>], meter: &Meter<'_>) -> Result<u64> {
    match args {
        [Value::String(left), Value::String(right)] if left.len() <= right.len() / 4 => size(&args[0], meter),
        [Value::String(left), Value::String(right)] if right.len() <= left.len() / 4 => size(&args[1], meter),
        [left, right] => Ok(size(left, meter)?.min(size(right, meter)?)),
        _ => Ok(1),
    }
}

/// What it costs to go through all of a value.
fn traversal(value: &Value<'_>, meter: &Meter<'_>) -> Result<u64> {
    meter.touch(1)?;
    Ok(match value {
        Value::String(text) => text.len() as u64 / 10,
        Value::Bytes(bytes) => bytes.len() as u64 / 10,
        Value::List(_) | Value::Map(_) | Value::Object(_) => {
            let keyed = !matches!(value, Value::List(_));
            let mut cost = 0;
            for (key, item) in value.pairs()? {
                cost += traversal(&item, meter)?;
                if keyed {
                    cost += traversal(&key, meter)?;
                }
            }
            cost
        }
        _ => 1,
    })
}

fn tenths(size: u64) -> u64 {
    size.div_ceil(10)
}

/// A call that makes a list.
fn allocating(size: u64) -> u64 {
    size.saturating_add(CALL + LIST)
}

/// How long the pattern of a format is taken to be.
fn pattern_length(format: &str) -> u64 {
    match format {
        "dns1123Subdomain" | "dns1123SubdomainPrefix" | "qualifiedName" => 60,
        "labelValue" => 40,
        _ => 30,
    }
}
