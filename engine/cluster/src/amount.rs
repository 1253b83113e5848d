//! Amounts as Kubernetes writes them: `500m`, `1Gi`, `2e3`.

use std::fmt::{self, Display};

/// Everything is counted in billionths, the smallest part that Kubernetes knows.
const ONE: i128 = 1_000_000_000;
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// An exact amount that remembers how it was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amount {
    billionths: i128,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Decimal,
    Binary,
    Exponent,
}

impl Amount {
    pub(crate) const ZERO: Amount = Amount { billionths: 0, form: Form::Decimal };

    pub(crate) fn count(number: usize) -> Amount {
        Amount { billionths: number as i128 * ONE, form: Form::Decimal }
    }

    pub(crate) fn parse(text: &str) -> Option<Amount> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (mut numerator, mut denominator, form) = scale(suffix)?;
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        numerator = numerator.checked_mul(digits)?;
        denominator = denominator.checked_mul(10i128.checked_pow(u32::try_from(fraction.len()).ok()?)?)?;
        // What is smaller than the smallest part counts as that.
        let billionths = numerator.checked_add(denominator - 1)?.div_euclid(denominator);
        Some(Amount { billionths: if negative { -billionths } else { billionths }, form })
    }

    /// The sum, written as the first of them that is not zero.
    pub(crate) fn plus(self, other: Amount) -> Amount {
        let form = if self.billionths == 0 { other.form } else { self.form };
        Amount { billionths: self.billionths.saturating_add(other.billionths), form }
    }

    pub(crate) fn max(self, other: Amount) -> Amount {
        if other.billionths > self.billionths { other } else { self }
    }

    /// In so many billionths each, rounded up: nobody gets less than asked for.
    pub(crate) fn in_units_of(self, billionths: i128) -> i64 {
        let up = self.billionths.saturating_add(billionths - 1).div_euclid(billionths);
        i64::try_from(up).unwrap_or(i64::MAX)
    }

    pub(crate) fn is_positive(self) -> bool {
        self.billionths > 0
    }

    pub(crate) fn is_zero(self) -> bool {
        self.billionths == 0
    }
}

impl PartialEq for Amount {
    /// However they are written.
    fn eq(&self, other: &Amount) -> bool {
        self.billionths == other.billionths
    }
}

/// What a suffix stands for, in billionths, as a fraction.
fn scale(suffix: &str) -> Option<(i128, i128, Form)> {
    if let Some(step) = DECIMAL.iter().position(|one| *one == suffix) {
        return Some((1000i128.pow(step as u32), 1, Form::Decimal));
    }
    if let Some(step) = BINARY.iter().position(|one| *one == suffix) {
        return Some((ONE << (10 * step), 1, Form::Binary));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let power = 10i128.checked_pow(exponent.unsigned_abs())?;
    let (numerator, denominator) = if exponent < 0 { (ONE, power) } else { (ONE.checked_mul(power)?, 1) };
    Some((numerator, denominator, Form::Exponent))
}

impl Display for Amount {
    /// In the shortest way that loses nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.billionths == 0 {
            return f.write_str("0");
        }
        if self.form == Form::Binary && self.billionths.abs() >= 1024 * ONE {
            let mut value = self.billionths.div_euclid(ONE) + i128::from(self.billionths.rem_euclid(ONE) > 0);
            let mut step = 0;
            while value % 1024 == 0 && step < BINARY.len() - 1 {
                value /= 1024;
                step += 1;
            }
            return write!(f, "{value}{}", BINARY[step]);
        }
        let (mut value, mut step) = (self.billionths, 0);
        while value % 1000 == 0 && step < DECIMAL.len() - 1 {
            value /= 1000;
            step += 1;
        }
        match (self.form, step as i32 * 3 - 9) {
            (Form::Exponent, 0) => write!(f, "{value}"),
            (Form::Exponent, exponent) => write!(f, "{value}e{exponent}"),
            _ => write!(f, "{value}{}", DECIMAL[step]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_in_the_shortest_way() {
        let cases = [
            ("0", "0"),
            ("1", "1"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1Ki", "1Ki"),
            ("1024", "1024"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("1000Ki", "1000Ki"),
            ("1024Ki", "1Mi"),
            ("2e3", "2e3"),
            ("1E", "1E"),
            ("1E3", "1e3"),
            ("100n", "100n"),
            ("0.1n", "1n"),
            ("-5", "-5"),
            (".5", "500m"),
            ("1.", "1"),
        ];
        for (text, expected) in cases {
            assert_eq!(Amount::parse(text).unwrap().to_string(), expected, "{text}");
        }
        for wrong in ["", "x", "1.2.3", "1x", "e3", "1e", "-"] {
            assert!(Amount::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_sum_is_written_as_its_first_part() {
        let sum = |parts: &[&str]| {
            let parts = parts.iter().map(|part| Amount::parse(part).unwrap());
            parts.fold(Amount::ZERO, Amount::plus).to_string()
        };
        assert_eq!(sum(&["1Ki", "1k"]), "2024");
        assert_eq!(sum(&["128Mi", "128Mi"]), "256Mi");
        assert_eq!(sum(&["250m", "1"]), "1250m");
        assert_eq!(sum(&["0", "1Gi"]), "1Gi");
        assert_eq!(Amount::parse("1Ki"), Amount::parse("1024"));
    }
}
