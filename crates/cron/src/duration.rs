//! Durations such as `1h30m`, as Go reads them.

/// Reads a duration in nanoseconds; says what is wrong with it in Go's words.
pub(crate) fn parse(text: &str) -> Result<i64, String> {
    let (sign, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        _ => (1, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    let invalid = || format!("time: invalid duration {text:?}");
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: i64 = 0;
    while !rest.is_empty() {
        let end = rest.find(|one: char| !one.is_ascii_digit() && one != '.').unwrap_or(rest.len());
        let (amount, after) = rest.split_at(end);
        if !amount.bytes().any(|byte| byte.is_ascii_digit()) || amount.matches('.').count() > 1 {
            return Err(invalid());
        }
        let end = after.find(|one: char| one.is_ascii_digit() || one == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let nanos: i64 = match unit {
            "" => return Err(format!("time: missing unit in duration {text:?}")),
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(format!("time: unknown unit {unit:?} in duration {text:?}")),
        };
        total = scaled(amount, nanos).and_then(|part| total.checked_add(part)).ok_or_else(invalid)?;
        rest = after;
    }
    Ok(sign * total)
}

/// A decimal number of units in nanoseconds.
fn scaled(amount: &str, nanos: i64) -> Option<i64> {
    let (whole, fraction) = amount.split_once('.').unwrap_or((amount, ""));
    let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // More digits than these are less than a nanosecond, of hours too.
    let digits = fraction.get(..fraction.len().min(14))?;
    let fraction: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let part = fraction * i128::from(nanos) / 10i128.pow(u32::try_from(digits.len()).ok()?);
    whole.checked_mul(nanos)?.checked_add(i64::try_from(part).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_by_go() {
        let seconds = |text: &str| parse(text).unwrap() as f64 / 1e9;
        assert_eq!(seconds("0"), 0.0);
        assert_eq!(seconds("1h30m"), 5400.0);
        assert_eq!(seconds("1.5h"), 5400.0);
        assert_eq!(seconds(".5s"), 0.5);
        assert_eq!(seconds("-2m"), -120.0);
        assert_eq!(seconds("1m1500ms"), 61.5);
        for bad in ["", "-", "1", "1x", "..5s", "s", "99999999999h"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
