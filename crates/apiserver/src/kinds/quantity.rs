//! Amounts such as `500m` and `2Gi`: reading, comparing, adding and writing them in canonical form.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

/// An amount, exact to a billionth, which is all that Kubernetes keeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quantity {
    nano: i128,
    binary: bool,
}

const NANO: i128 = 1_000_000_000;
const MILLI: i128 = 1_000_000;
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl Quantity {
    pub(crate) const ZERO: Quantity = Quantity { nano: 0, binary: false };

    /// Reads an amount; `None` if it is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let binary = BINARY.iter().position(|one| *one == suffix);
        let (scale, exponent) = match binary {
            Some(at) => (1024i128.pow(at as u32 + 1), 0),
            None => (1, decimal_exponent(suffix)?),
        };
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        let nano = scaled(digits.checked_mul(scale)?, 9 + exponent - i32::try_from(fraction.len()).ok()?);
        let nano = if text.starts_with('-') { -nano } else { nano };
        Some(Quantity { nano, binary: binary.is_some() })
    }

    /// Reads an amount as it stands in an object; zero if there is none.
    pub(crate) fn of(value: &Value) -> Self {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => None,
        }
        .unwrap_or(Self::ZERO)
    }

    pub(crate) fn is_negative(self) -> bool {
        self.nano < 0
    }

    pub(crate) fn is_zero(self) -> bool {
        self.nano == 0
    }

    /// The amount in whole units, rounded up.
    pub(crate) fn value(self) -> i64 {
        ceiling(self.nano, NANO).try_into().unwrap_or(i64::MAX)
    }

    /// The amount in thousandths, rounded up.
    pub(crate) fn milli_value(self) -> i64 {
        ceiling(self.nano, MILLI).try_into().unwrap_or(i64::MAX)
    }

    /// Rounded up to thousandths: nothing finer is stored.
    pub(crate) fn rounded_to_milli(self) -> Self {
        let magnitude = ceiling(self.nano.abs(), MILLI) * MILLI;
        Quantity { nano: magnitude * self.nano.signum(), ..self }
    }

    /// The sum, written as the first one is.
    pub(crate) fn plus(self, other: Self) -> Self {
        let binary = if self.is_zero() { other.binary } else { self.binary };
        Quantity { nano: self.nano + other.nano, binary }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nano == 0 {
            return f.write_str("0");
        }
        let sign = if self.nano < 0 { "-" } else { "" };
        let magnitude = self.nano.abs();
        // Below 1024 the binary form has no suffix of its own.
        if self.binary && magnitude >= 1024 * NANO {
            let mut units = ceiling(magnitude, NANO);
            let mut suffix = "";
            for next in BINARY {
                if units % 1024 != 0 {
                    break;
                }
                units /= 1024;
                suffix = next;
            }
            return write!(f, "{sign}{units}{suffix}");
        }
        let mut mantissa = magnitude;
        let mut suffix = DECIMAL[0].0;
        for (next, _) in &DECIMAL[1..] {
            if mantissa % 1000 != 0 {
                break;
            }
            mantissa /= 1000;
            suffix = next;
        }
        write!(f, "{sign}{mantissa}{suffix}")
    }
}

fn decimal_exponent(suffix: &str) -> Option<i32> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some(*exponent);
    }
    suffix.strip_prefix(['e', 'E'])?.parse().ok().filter(|exponent: &i32| exponent.abs() <= 18)
}

/// `digits × 10^exponent`, rounded away from zero.
fn scaled(digits: i128, exponent: i32) -> i128 {
    if exponent >= 0 {
        return 10i128
            .checked_pow(exponent as u32)
            .and_then(|by| digits.checked_mul(by))
            .unwrap_or(i128::MAX);
    }
    10i128.checked_pow(exponent.unsigned_abs()).map_or(i128::from(digits != 0), |by| ceiling(digits, by))
}

fn ceiling(value: i128, by: i128) -> i128 {
    value.div_euclid(by) + i128::from(value.rem_euclid(by) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_in_canonical_form() {
        let cases = [
            ("1", "1"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("1500Mi", "1500Mi"),
            ("1024", "1024"),
            ("1000", "1k"),
            ("0.5Gi", "512Mi"),
            ("1e3", "1k"),
            ("-1", "-1"),
            ("100Ki", "100Ki"),
            ("0", "0"),
            ("0.5Ki", "512"),
        ];
        for (input, output) in cases {
            assert_eq!(Quantity::parse(input).unwrap().to_string(), output, "{input}");
        }
        for bad in ["", "a", "1.2.3", "1Zi", "m", "1 "] {
            assert!(Quantity::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn comparing_and_rounding() {
        let of = |text| Quantity::parse(text).unwrap();
        assert!(of("1") > of("999m"));
        assert_eq!(of("1Ki"), of("1024"));
        assert_eq!(of("100u").rounded_to_milli().to_string(), "1m");
        assert_eq!(of("1500m").value(), 2);
        assert_eq!(of("-1500m").value(), -1);
        assert_eq!(of("1Gi").plus(of("1")).to_string(), "1073741825");
    }
}
