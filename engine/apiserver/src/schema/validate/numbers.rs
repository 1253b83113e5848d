//! Ranges and multiples, with the real server's way of truncating limits for integers.

use serde_json::Number;

use super::{Finding, Outcome, Validator};
use crate::schema::Rules;

/// Floats beyond this cannot tell neighbouring integers apart.
const LARGEST_EXACT: f64 = 9_007_199_254_740_991.0;

impl Validator<'_> {
    pub(super) fn number(&self, path: &str, number: &Number, types: &[&str], rules: &Rules) -> Outcome {
        let kind = if types.len() == 1 { types[0] } else { "" };
        let format = rules.format.as_deref().unwrap_or_default();
        let range = Range { kind, format, path };
        let mut outcome = Outcome::default();
        if let Some(message) = range.objection(number, "Checked") {
            outcome.add(self.composite(message));
        }
        let mut check = |limit: f64, what: &str, test: &dyn Fn(Limit) -> Option<Finding>| {
            let as_number = Number::from_f64(limit).unwrap_or_else(|| 0.into());
            let objection = range.objection(&as_number, what);
            // A limit that does not fit the type is told, and then compared as a float.
            let limit = match number.as_i64() {
                Some(integer) if objection.is_none() => Limit::Integer(integer, limit as i64),
                _ => Limit::Float(number.as_f64().unwrap_or_default(), limit),
            };
            if let Some(message) = objection {
                outcome.add(self.composite(message));
            }
            if let Some(finding) = test(limit) {
                outcome.add(finding);
            }
        };
        if let Some(factor) = rules.multiple_of {
            check(factor, "MultipleOf", &|limit| self.multiple(path, limit));
        }
        if let Some(least) = rules.minimum {
            let exclusive = rules.exclusive_minimum;
            check(least, "Minimum boundary", &|limit| {
                let words = if exclusive { "greater than" } else { "greater than or equal to" };
                let fails =
                    if exclusive { limit.compare(|a, b| a <= b) } else { limit.compare(|a, b| a < b) };
                fails.then(|| self.beyond(path, limit, words))
            });
        }
        if let Some(most) = rules.maximum {
            let exclusive = rules.exclusive_maximum;
            check(most, "Maximum boundary", &|limit| {
                let words = if exclusive { "less than" } else { "less than or equal to" };
                let fails =
                    if exclusive { limit.compare(|a, b| a >= b) } else { limit.compare(|a, b| a > b) };
                fails.then(|| self.beyond(path, limit, words))
            });
        }
        outcome.matched += 1;
        outcome
    }

    fn beyond(&self, path: &str, limit: Limit, words: &str) -> Finding {
        self.invalid(path, limit.value(), format!("{path} in body should be {words} {}", limit.shown()))
    }

    fn multiple(&self, path: &str, limit: Limit) -> Option<Finding> {
        let (positive, divides) = match limit {
            Limit::Integer(_, factor) if factor <= 0 => (false, true),
            Limit::Integer(value, factor) => (true, value % factor == 0),
            Limit::Float(_, factor) if factor <= 0.0 => (false, true),
            Limit::Float(value, factor) => {
                let times = if factor < 1.0 { 1.0 / factor * value } else { value / factor };
                (true, is_json_integer(times))
            }
        };
        let shown = limit.shown();
        if !positive {
            let message = format!("factor MultipleOf declared for {path} must be positive: {shown}");
            return Some(self.invalid(path, limit.limit(), message));
        }
        let message = format!("{path} in body should be a multiple of {shown}");
        (!divides).then(|| self.invalid(path, limit.value(), message))
    }
}

/// A value and its limit, both as the value's type.
#[derive(Clone, Copy)]
enum Limit {
    Integer(i64, i64),
    Float(f64, f64),
}

impl Limit {
    fn compare(self, fails: impl Fn(f64, f64) -> bool) -> bool {
        match self {
            // Exact: the difference of two integers has the right sign as a float, too.
            Limit::Integer(value, limit) => fails((i128::from(value) - i128::from(limit)) as f64, 0.0),
            Limit::Float(value, limit) => fails(value, limit),
        }
    }

    fn value(self) -> serde_json::Value {
        match self {
            Limit::Integer(value, _) => value.into(),
            Limit::Float(value, _) => value.into(),
        }
    }

    fn limit(self) -> serde_json::Value {
        match self {
            Limit::Integer(_, limit) => limit.into(),
            Limit::Float(_, limit) => limit.into(),
        }
    }

    fn shown(self) -> String {
        match self {
            Limit::Integer(_, limit) => limit.to_string(),
            Limit::Float(_, limit) => go_float(limit),
        }
    }
}

struct Range<'a> {
    kind: &'a str,
    format: &'a str,
    path: &'a str,
}

impl Range<'_> {
    /// What is said of a number that its type cannot hold.
    fn objection(&self, number: &Number, what: &str) -> Option<String> {
        let Range { kind, format, path } = self;
        let fits = match (*kind, *format) {
            ("integer", "int32") => integer(number).is_some_and(|integer| i32::try_from(integer).is_ok()),
            ("integer", _) => integer(number).is_some(),
            ("number", "float") => number.as_f64().is_some_and(|float| float.abs() <= f64::from(f32::MAX)),
            _ => true,
        };
        if fits {
            return None;
        }
        let format =
            if format.is_empty() { "(default format)".to_owned() } else { format!("with format {format}") };
        Some(format!("{what} value must be of type {kind} {format} in {path}"))
    }
}

fn integer(number: &Number) -> Option<i64> {
    let whole = |float: f64| (float.fract() == 0.0 && float.abs() < 9.3e18).then_some(float as i64);
    number
        .as_i64()
        .or_else(|| number.as_f64().filter(|float| *float < 9.223_372_036_854_775e18).and_then(whole))
}

/// Whether a float stands for an integer, nearly.
pub(super) fn is_json_integer(float: f64) -> bool {
    if !float.is_finite() || float.abs() > LARGEST_EXACT {
        return false;
    }
    let whole = float.trunc();
    let difference = (float - whole).abs();
    float == whole || (whole != 0.0 && difference / (float.abs() + whole.abs()) < 1e-9)
}

/// A float as Go's `%v` shows it.
fn go_float(float: f64) -> String {
    let size = float.abs();
    if size == 0.0 || (1e-4..1e21).contains(&size) {
        return float.to_string();
    }
    let shown = format!("{float:e}");
    let (number, exponent) = shown.split_once('e').unwrap_or((&shown, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{number}e{sign}{digits:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_show_as_in_go() {
        for (float, shown) in [
            (0.5, "0.5"),
            (10.0, "10"),
            (1e21, "1e+21"),
            (1.5e-7, "1.5e-07"),
            (0.0, "0"),
            (1e20, "100000000000000000000"),
        ] {
            assert_eq!(go_float(float), shown);
        }
    }
}
