//! Amounts such as `500m`, `1.5Gi` and `12e6`, exactly as Kubernetes reads, compares, adds and writes them.

mod digits;

use std::cmp::Ordering;
use std::fmt;

use digits::Digits;

/// How an amount is written: with which suffixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`
    BinarySi,
    /// `12M`
    DecimalSi,
}

/// The text is not a quantity; the messages are those of the real server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    #[error("unable to parse numeric part of quantity")]
    Number,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// An exact amount: `digits` times ten to the power of `scale`.
#[derive(Debug, Clone)]
pub struct Quantity {
    negative: bool,
    digits: Digits,
    scale: i64,
    format: Format,
    /// The text it was read from, where that is kept rather than the canonical form.
    written: Option<Box<str>>,
}

/// Digits beyond this are not kept: amounts are rounded up to billionths.
const FINEST: i64 = -9;
/// Digits that a sum keeps, unless one of its parts was written with more. `1e2147483647` is a valid amount, and a stock
/// server that adds to it works out all of its digits; here what is finer is rounded up.
const PRECISION: usize = 1024;
/// Numbers with up to this many digits fit 64 bits for sure.
const SMALL_DIGITS: i64 = 18;

impl Quantity {
    /// Zero.
    pub fn zero() -> Self {
        Quantity {
            negative: false,
            digits: Digits::zero(),
            scale: 0,
            format: Format::DecimalSi,
            written: None,
        }
    }

    /// Reads a quantity as it stands in an object.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.is_empty() {
            return Err(Error::Format);
        }
        if text == "0" {
            return Ok(Quantity { written: Some("0".into()), ..Self::zero() });
        }
        let parts = split(text)?;
        let suffix = interpret(parts.suffix).ok_or(Error::Suffix)?;
        match small(text, &parts, &suffix) {
            Some(quantity) => Ok(quantity),
            None => large(&parts, &suffix),
        }
    }

    pub fn is_zero(&self) -> bool {
        self.digits.is_zero()
    }

    pub fn is_negative(&self) -> bool {
        self.negative && !self.is_zero()
    }

    pub fn format(&self) -> Format {
        self.format
    }

    /// The sum; formatted as the first, unless that is zero.
    pub fn add(&self, other: &Quantity) -> Quantity {
        if self.is_zero() || other.is_zero() {
            let sum = if self.is_zero() { other } else { self };
            return Quantity { written: None, ..sum.clone() };
        }
        let room = PRECISION.max(self.digits.len()).max(other.digits.len());
        let scale = self.scale.min(other.scale).max(self.size().max(other.size()) - room as i64);
        let left = self.digits.rescaled(self.scale, scale);
        let right = other.digits.rescaled(other.scale, scale);
        let (negative, digits) = if self.negative == other.negative {
            (self.negative, left.plus(&right))
        } else {
            match left.cmp(&right) {
                Ordering::Less => (other.negative, right.minus(&left)),
                _ => (self.negative, left.minus(&right)),
            }
        };
        Quantity { negative, digits, scale, format: self.format, written: None }
    }

    /// The difference.
    pub fn subtract(&self, other: &Quantity) -> Quantity {
        self.add(&Quantity { negative: !other.negative, written: None, ..other.clone() })
    }

    /// The amount as whole units, rounded away from zero; the ends of the range stand for what is beyond.
    pub fn value(&self) -> i64 {
        self.scaled(0)
    }

    /// The amount in thousandths, rounded away from zero.
    pub fn milli_value(&self) -> i64 {
        self.scaled(-3)
    }

    /// How many digits it has before the point.
    fn size(&self) -> i64 {
        self.digits.len() as i64 + self.scale
    }

    fn scaled(&self, scale: i64) -> i64 {
        // No more digits than a number of 64 bits may have are worked out.
        let fits = self.is_zero() || self.size() - scale <= SMALL_DIGITS + 1;
        let whole = fits.then(|| self.digits.rescaled(self.scale, scale));
        let magnitude = whole.and_then(|whole| whole.to_u64()).and_then(|value| i64::try_from(value).ok());
        match (magnitude, self.negative) {
            (Some(value), false) => value,
            (Some(value), true) => -value,
            (None, false) => i64::MAX,
            (None, true) => i64::MIN,
        }
    }

    fn canonical(&self) -> String {
        if self.is_zero() {
            return "0".to_owned();
        }
        let sign = if self.negative { "-" } else { "" };
        if self.format == Format::BinarySi
            && let Some((number, exponent)) = self.binary()
        {
            let suffix =
                BINARY.iter().find(|(_, power)| *power == exponent * 10).map_or("", |(name, _)| name);
            return format!("{sign}{number}{suffix}");
        }
        let (mut number, tens) = self.digits.without_tens();
        let mut exponent = self.scale + tens;
        while exponent % 3 != 0 {
            number = number.times(10);
            exponent -= 1;
        }
        match self.format {
            // What is not worked out in powers of two is written with its exponent.
            Format::BinarySi if self.size() > PRECISION as i64 => format!("{sign}{number}e{exponent}"),
            Format::DecimalExponent if exponent == 0 => format!("{sign}{number}"),
            Format::DecimalExponent => format!("{sign}{number}e{exponent}"),
            // An amount of more than a thousand quintillions has no suffix, and the real server drops its size too.
            _ => {
                let suffix =
                    DECIMAL.iter().find(|(_, power)| *power == exponent).map_or("", |(name, _)| name);
                format!("{sign}{number}{suffix}")
            }
        }
    }

    /// The number and how many times 1024, for whole amounts of at least 1024 that are not immense.
    fn binary(&self) -> Option<(Digits, i64)> {
        if self.size() > PRECISION as i64 {
            return None;
        }
        let whole = if self.scale >= 0 {
            self.digits.shifted(self.scale as u64)
        } else {
            match self.digits.rounded_up((-self.scale) as u64) {
                (whole, true) => whole,
                (_, false) => return None,
            }
        };
        if whole.cmp(&Digits::from(1024)) == Ordering::Less {
            return None;
        }
        Some(whole.without_factor(1024))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.written {
            Some(text) => f.write_str(text),
            None => f.write_str(&self.canonical()),
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
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
        let sign = |one: &Quantity| {
            if one.is_zero() {
                0
            } else if one.negative {
                -1
            } else {
                1
            }
        };
        match sign(self).cmp(&sign(other)) {
            Ordering::Equal => {}
            different => return different,
        }
        let magnitude = self.digits.cmp_scaled(self.scale, &other.digits, other.scale);
        if self.negative { magnitude.reverse() } else { magnitude }
    }
}

/// A quantity taken apart: sign, whole digits without leading zeros, fraction, suffix.
struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

fn split(text: &str) -> Result<Parts<'_>, Error> {
    let (negative, rest) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let rest = rest.trim_start_matches('0');
    let (whole, rest) = leading_digits(rest);
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => leading_digits(rest),
        None => ("", rest),
    };
    let letters = suffix.trim_start_matches(|letter| "eEinumkKMGTP".contains(letter));
    let exponent = letters.strip_prefix(['-', '+']).unwrap_or(letters);
    if !exponent.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Error::Format);
    }
    Ok(Parts { negative, whole: if whole.is_empty() { "0" } else { whole }, fraction, suffix })
}

fn leading_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// What a suffix means: two or ten to a power.
struct Suffix {
    format: Format,
    exponent: i64,
}

const DECIMAL: &[(&str, i64)] = &[
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY: &[(&str, i64)] = &[("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

fn interpret(suffix: &str) -> Option<Suffix> {
    let named =
        |table: &[(&str, i64)]| table.iter().find(|(name, _)| *name == suffix).map(|(_, power)| *power);
    if let Some(exponent) = named(DECIMAL) {
        return Some(Suffix { format: Format::DecimalSi, exponent });
    }
    if let Some(exponent) = named(BINARY) {
        return Some(Suffix { format: Format::BinarySi, exponent });
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?.parse::<i64>().ok()?;
    // The real server keeps 32 bits.
    Some(Suffix { format: Format::DecimalExponent, exponent: i64::from(exponent as i32) })
}

/// An amount that fits 64 bits; these keep their text where it is canonical enough.
fn small(text: &str, parts: &Parts<'_>, suffix: &Suffix) -> Option<Quantity> {
    let count = (parts.whole.len() + parts.fraction.len()) as i64;
    let (room, multiplier) = match suffix.format {
        Format::BinarySi if parts.fraction.is_empty() => {
            let taken = suffix.exponent * 3 / 10;
            (15 - parts.whole.len() as i64 - taken - 1, 1i64 << suffix.exponent)
        }
        Format::BinarySi => return None,
        _ => (SMALL_DIGITS - count, 1),
    };
    let scale = match suffix.format {
        Format::BinarySi => 0,
        _ => suffix.exponent - parts.fraction.len() as i64,
    };
    if room < 0 || scale < FINEST {
        return None;
    }
    let shifted = format!("{}{}", parts.whole, parts.fraction);
    let number: i64 = shifted.parse().ok()?;
    let value = number.checked_mul(multiplier)?;
    let keeps_text = match suffix.format {
        Format::BinarySi => suffix.exponent % 10 == 0 && number & 7 != 0,
        _ => scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0'),
    };
    Some(Quantity {
        negative: parts.negative,
        digits: Digits::from(value as u64),
        scale,
        format: suffix.format,
        written: keeps_text.then(|| text.into()),
    })
}

fn large(parts: &Parts<'_>, suffix: &Suffix) -> Result<Quantity, Error> {
    let mut digits = Digits::parse(&format!("{}{}", parts.whole, parts.fraction)).ok_or(Error::Number)?;
    let mut scale = -(parts.fraction.len() as i64);
    match suffix.format {
        Format::BinarySi => {
            for _ in 0..suffix.exponent / 10 {
                digits = digits.times(1024);
            }
        }
        _ => scale += suffix.exponent,
    }
    if scale < FINEST && !digits.is_zero() {
        digits = digits.rounded_up((FINEST - scale) as u64).0;
        scale = FINEST;
    }
    let mut format = suffix.format;
    if format == Format::BinarySi {
        if digits.cmp_scaled(scale, &Digits::from(i64::MAX as u64), 0) == Ordering::Greater {
            (digits, scale) = (Digits::from(i64::MAX as u64), 0);
        }
        if !digits.is_zero() && digits.cmp_scaled(scale, &Digits::from(1), 0) == Ordering::Less {
            format = Format::DecimalSi;
        }
    }
    Ok(Quantity { negative: parts.negative, digits, scale, format, written: None })
}

#[cfg(test)]
mod tests;
