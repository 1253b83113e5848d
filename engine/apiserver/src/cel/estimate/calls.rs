//! What calls cost at most, and how large their results are.

use super::size::{Size, by_factor};
use super::{Entries, Estimator, Known};
use crate::cel::ast::{Call, Expr, Kind, Literal};
use crate::cel::cost::{CALL, CHECK, LIST, STRUCT};
use crate::cel::declarations::{CIDR, FORMAT, IP, Overload, URL};
use crate::cel::types::Type;

/// To go through one letter of a text.
const LETTER: f64 = 0.1;
/// One letter of a regular expression, taken to be a quarter of a state.
const PATTERN: f64 = 0.25;
/// The longest name of a format, and the longest pattern behind one.
const FORMAT_NAME: u64 = 64;
const FORMAT_PATTERN: f64 = 128.0;

/// An argument, or what a method is called on.
struct Argument<'a> {
    expr: &'a Expr,
    known: Known,
    size: Size,
}

/// What a call costs beside its arguments.
struct Estimate {
    cost: u64,
    size: Option<Size>,
}

impl Estimate {
    fn new(cost: u64) -> Estimate {
        Estimate { cost, size: None }
    }

    fn sized(cost: u64, size: Size) -> Estimate {
        Estimate { cost, size: Some(size) }
    }

    /// A call that makes a list.
    fn list(size: Size, factor: f64) -> Estimate {
        Estimate::sized(size.costs(factor).saturating_add(CALL + LIST), size)
    }
}

impl Estimator<'_> {
    pub(super) fn call(&mut self, expr: &Expr, call: &Call, of: Type) -> Known {
        if let ("dyn", [arg]) = (call.function.as_str(), call.args.as_slice()) {
            let arg = self.of(arg);
            let size = self.size(&arg);
            return Known { size, entries: arg.entries, ..Known::new(arg.cost.saturating_add(CALL), of) };
        }
        let args: Vec<Argument<'_>> = call.args.iter().map(|arg| self.argument(arg)).collect();
        let target = call.target.as_ref().map(|target| self.argument(target));
        let mut result = Known::new(0, of);
        for overload in self.checked.overloads_of(expr) {
            let cost = self.with_arguments(&call.function, overload, target.as_ref(), &args, &mut result);
            result.cost = result.cost.max(cost);
            // The path of what an index picks is known.
            let inside = match (call.function.as_str(), &overload.args[..]) {
                ("_[_]", [Type::List(_), _]) => Some("@items"),
                ("_[_]", [Type::Map(..), _]) => Some("@values"),
                _ => None,
            };
            if let (Some(inside), Some(list)) = (inside, args.first()) {
                result.size = list.known.entries.map(|entries| entries.value);
                result.path = list.known.path.append(inside);
            }
            result.size = self.size(&result);
        }
        let of_target = target.map_or(0, |target| target.known.cost);
        result.cost = result.cost.saturating_add(of_target);
        result
    }

    fn argument<'e>(&mut self, expr: &'e Expr) -> Argument<'e> {
        let mut known = self.of(expr);
        known.size = self.size(&known);
        Argument { expr, size: known.size.unwrap_or(Size::UNKNOWN), known }
    }

    /// The cost of one form of a function with its arguments; sizes of the result are joined to what is known of it.
    fn with_arguments(
        &self,
        function: &str,
        overload: &Overload,
        target: Option<&Argument<'_>>,
        args: &[Argument<'_>],
        result: &mut Known,
    ) -> u64 {
        let all = || args.iter().fold(0_u64, |sum, arg| sum.saturating_add(arg.known.cost));
        let (cost, size) = match (function, args) {
            // Neither costs anything by itself.
            ("_&&_" | "_||_", _) => (all(), None),
            ("_?_:_", [condition, yes, no]) => {
                let entries = Entries::union(yes.known.entries, no.known.entries);
                result.entries = entries.or(result.entries);
                let cost = condition.known.cost.saturating_add(yes.known.cost.max(no.known.cost));
                (cost, Some(yes.size.union(no.size)))
            }
            _ => {
                if let ("_+_", [left, right], Some(Type::String | Type::Bytes | Type::List(_))) =
                    (function, args, overload.args.first())
                {
                    let entries = Entries::union(left.known.entries, right.known.entries);
                    result.entries = entries.or(result.entries);
                }
                let estimate = self.estimate(function, overload, target, args);
                (estimate.cost.saturating_add(all()), estimate.size)
            }
        };
        if let Some(size) = size {
            result.size = Some(result.size.map_or(size, |known| known.union(size)));
        }
        cost
    }

    fn estimate(
        &self,
        function: &str,
        overload: &Overload,
        target: Option<&Argument<'_>>,
        args: &[Argument<'_>],
    ) -> Estimate {
        let of_lists = of_lists(function, overload, target, args);
        let found = of_lists.or_else(|| self.of_kubernetes(function, overload, target, args));
        found.or_else(|| of_cel(function, overload, target, args)).unwrap_or_else(|| Estimate::new(CALL))
    }

    /// The functions that Kubernetes adds, and those of strings that it counts itself.
    fn of_kubernetes(
        &self,
        function: &str,
        overload: &Overload,
        target: Option<&Argument<'_>>,
        args: &[Argument<'_>],
    ) -> Option<Estimate> {
        let first = args.first().map(|arg| arg.size);
        let of_target = target.map(|target| target.size);
        Some(match function {
            "check" => Estimate::new(CHECK),
            "fieldSelector" | "labelSelector" if args.len() == 1 => {
                let requirements = by_factor(first?.costs(0.5), (LIST + STRUCT) as f64);
                Estimate::new(LIST.saturating_add(first?.costs(LETTER)).saturating_add(requirements))
            }
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
                let target = target?;
                match self.element(target) {
                    Some((of, size)) => {
                        let letters = match of {
                            Type::String | Type::Bytes => size.costs(LETTER),
                            _ => 0,
                        };
                        Estimate::new(target.size.max.saturating_mul(letters.saturating_add(1)))
                    }
                    None => Estimate::new(target.size.costs(LETTER)),
                }
            }
            "url" if args.len() == 1 => Estimate::sized(first?.costs(LETTER), first?),
            "lowerAscii" | "upperAscii" | "substring" | "trim" => {
                Estimate::sized(of_target?.costs(LETTER), of_target?)
            }
            "replace" => {
                let [from, to, ..] = args else { return None };
                Estimate::sized(of_target?.costs(2.0 * LETTER), replaced(of_target?, from.size, to.size))
            }
            "split" => {
                let most = match args.get(1).map(|arg| &arg.expr.kind) {
                    Some(Kind::Literal(Literal::Int(most))) => *most as u64,
                    _ => of_target?.max,
                };
                Estimate::sized(of_target?.costs(2.0 * LETTER), Size { min: 0, max: most })
            }
            "join" => {
                let size = self.joined(target?, first);
                Estimate::sized(size.costs(LETTER), size)
            }
            "find" | "findAll" => {
                let letters = of_target?.plus(Size::exactly(1)).costs(LETTER);
                let cost = letters.saturating_mul(first?.costs(PATTERN));
                Estimate::sized(cost, Size { min: 0, max: of_target?.max })
            }
            "ip" if matches!(overload.args.as_slice(), [Type::Opaque(CIDR, _)]) => Estimate::new(CALL),
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
                Estimate::new(first?.costs(LETTER))
            }
            "ip.isCanonical" => Estimate::new(first?.costs(2.0 * LETTER)),
            "containsIP" | "containsCIDR" => Estimate::new(contained(function, overload, first?)),
            "validate" => Estimate::new(by_factor(first?.costs(LETTER), FORMAT_PATTERN * PATTERN)),
            "_==_" => of_equality(args)?,
            _ => return None,
        })
    }

    /// The type of a list's elements, and their size where the schema says it.
    fn element<'t>(&self, list: &'t Argument<'_>) -> Option<(&'t Type, Size)> {
        let of = match &list.known.of {
            Type::List(item) => item,
            Type::Map(key, _) => key,
            Type::Opaque(_, params) => params.first()?,
            _ => return None,
        };
        // A copy, not an append: nothing else is overwritten.
        let path = list.known.path.copied();
        let size = if path.is_empty() { None } else { self.root.size_at(&path.append("@items")) };
        Some((of, size.unwrap_or(Size::UNKNOWN)))
    }

    /// The text that a list of texts is joined to.
    fn joined(&self, list: &Argument<'_>, separator: Option<Size>) -> Size {
        let texts = self.element(list).map_or_else(|| Size::exactly(0), |(_, size)| list.size.times(size));
        match separator {
            Some(separator) => {
                let between =
                    Size { min: list.size.min.saturating_sub(1), max: list.size.max.saturating_sub(1) };
                texts.plus(separator.times(between))
            }
            None => texts,
        }
    }
}

/// Lists and sets, which cel-go's extensions count.
fn of_lists(
    function: &str,
    overload: &Overload,
    target: Option<&Argument<'_>>,
    args: &[Argument<'_>],
) -> Option<Estimate> {
    let list = target.map(|target| target.size);
    let number = |arg: &Argument<'_>, default: u64| match &arg.expr.kind {
        Kind::Literal(Literal::Int(number)) => u64::try_from(*number).unwrap_or_default(),
        _ => default,
    };
    let compared = |size: Size, of: &Type| match of {
        Type::String | Type::Bytes => Estimate::list(size.times(size), 2.0 + LETTER),
        _ => Estimate::list(size.times(size), 2.0),
    };
    Some(match (function, args) {
        ("slice", [start, end]) => {
            // Go's numbers go round.
            let size = number(end, list?.max).wrapping_sub(number(start, 0));
            Estimate::list(Size::exactly(size), 1.0)
        }
        ("lists.range", [end]) => Estimate::list(Size::exactly(number(end, u64::MAX)), 1.0),
        ("reverse", []) => Estimate::list(list?, 1.0),
        ("flatten", []) => Estimate::list(list?, 1.0),
        ("flatten", [depth]) => Estimate::list(list?, number(depth, u64::MAX) as f64),
        ("distinct", []) => Estimate::list(list?.times(list?), 2.0),
        ("sort", []) => compared(list?, item(overload.args.first()?)?),
        ("@sortByAssociatedKeys", [keys]) => compared(keys.size, item(overload.args.get(1)?)?),
        ("sets.contains" | "sets.intersects", [left, right]) => {
            Estimate::new(left.size.times(right.size).costs(1.0).saturating_add(CALL))
        }
        ("sets.equivalent", [left, right]) => {
            Estimate::new(left.size.times(right.size).costs(2.0).saturating_add(CALL))
        }
        _ => return None,
    })
}

fn item(list: &Type) -> Option<&Type> {
    match list {
        Type::List(item) => Some(item),
        _ => None,
    }
}

/// The language's own functions.
fn of_cel(
    function: &str,
    overload: &Overload,
    target: Option<&Argument<'_>>,
    args: &[Argument<'_>],
) -> Option<Estimate> {
    let first = args.first().map(|arg| arg.size);
    let of_target = target.map(|target| target.size);
    let takes = overload.args.first();
    Some(match (function, args) {
        ("format", _) => Estimate::new(of_target?.costs(LETTER)),
        ("bytes", [_]) if matches!(takes, Some(Type::String)) => {
            let size = Size { min: first?.min, max: first?.max.wrapping_mul(4) };
            Estimate::sized(first?.costs(LETTER), size)
        }
        ("string", [_]) if matches!(takes, Some(Type::Bytes)) => {
            let size = Size { min: first?.min / 4, max: first?.max };
            Estimate::sized(first?.costs(LETTER), size)
        }
        ("strings.quote", [_]) => {
            let size =
                Size { min: first?.min.wrapping_add(2), max: first?.max.wrapping_mul(2).wrapping_add(2) };
            Estimate::sized(first?.costs(LETTER), size)
        }
        ("startsWith" | "endsWith", [_]) => Estimate::new(first?.costs(LETTER)),
        ("@in", [_, list]) if matches!(overload.args.get(1), Some(Type::List(_))) => {
            Estimate::new(list.size.costs(1.0))
        }
        ("matches", [_]) => {
            let letters = of_target?.plus(Size::exactly(1)).costs(LETTER);
            Estimate::new(letters.saturating_mul(first?.costs(PATTERN)))
        }
        ("contains", [_]) => Estimate::new(of_target?.costs(LETTER).saturating_mul(first?.costs(LETTER))),
        ("_+_", [left, right]) => {
            let size = left.size.plus(right.size);
            match takes {
                Some(Type::List(_)) => Estimate::sized(CALL, size),
                Some(Type::String | Type::Bytes) => Estimate::sized(size.costs(LETTER), size),
                _ => return None,
            }
        }
        ("_<_" | "_<=_" | "_>_" | "_>=_", [left, right])
            if matches!(takes, Some(Type::String | Type::Bytes)) =>
        {
            Estimate::new(by_factor(left.size.max.min(right.size.max), LETTER))
        }
        ("_==_" | "_!=_", [left, right]) => {
            Estimate::new(by_factor(left.size.max.min(right.size.max), LETTER))
        }
        _ => return None,
    })
}

/// Values of Kubernetes' own types are compared at once, but for texts in disguise.
fn of_equality(args: &[Argument<'_>]) -> Option<Estimate> {
    let [left, right] = args else { return None };
    let Type::Opaque(name, _) = &left.known.of else { return None };
    if !left.known.of.same(&right.known.of) {
        return None;
    }
    Some(Estimate::new(match *name {
        URL => by_factor(right.known.size.map_or(1, |size| size.max), LETTER),
        FORMAT => by_factor(FORMAT_NAME, LETTER),
        IP | CIDR => CALL,
        name if name.starts_with("kubernetes.") => CALL,
        _ => return None,
    }))
}

/// Whether an address or a range lies in a range: bytes are compared, after a text was read.
fn contained(function: &str, overload: &Overload, text: Size) -> u64 {
    let bytes = Size { min: 4, max: 16 };
    let mut cost = bytes.plus(bytes).costs(LETTER);
    if function == "containsCIDR" {
        cost += bytes.costs(LETTER) + 1;
    }
    match overload.args.get(1) {
        Some(Type::String) => cost.saturating_add(text.costs(LETTER)),
        _ => cost,
    }
}

/// The text that comes of replacing one text in it by another.
fn replaced(text: Size, from: Size, to: Size) -> Size {
    let (longest, kept_of_longest) = if from.min == 0 {
        (text.max.saturating_add(1), text.max)
    } else if to.max <= from.min {
        (0, text.max)
    } else {
        ((text.max as f64 / from.min as f64).ceil() as u64, 0)
    };
    let (shortest, kept_of_shortest) = if from.max == 0 {
        (text.min.saturating_add(1), text.min)
    } else if from.max <= to.min {
        (0, text.min)
    } else {
        ((text.min as f64 / from.max as f64).ceil() as u64, 0)
    };
    Size { min: shortest, max: longest }.times(to).plus(Size { min: kept_of_shortest, max: kept_of_longest })
}
