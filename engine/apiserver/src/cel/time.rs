//! Times and durations as Go reads and writes them.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

/// The time of `2006-01-02T15:04:05Z07:00`, with any fraction of a second.
pub(super) fn parse_timestamp(text: &str) -> Option<(Timestamp, Offset)> {
    // What jiff takes beyond RFC 3339, Go does not: lower case, blanks, names of zones.
    let bytes = text.as_bytes();
    let shape = bytes.len() >= 20 && bytes[4] == b'-' && bytes[7] == b'-' && bytes[10] == b'T';
    let zone = text.ends_with('Z') || matches!(bytes.get(bytes.len().wrapping_sub(6)), Some(b'+' | b'-'));
    if !shape || !zone || text.contains(['[', ' ', 't', 'z']) {
        return None;
    }
    let offset = match text.strip_suffix('Z') {
        Some(_) => Offset::UTC,
        None => {
            let (hours, minutes) = text.get(text.len() - 5..)?.split_once(':')?;
            let seconds = hours.parse::<i32>().ok()? * 3600 + minutes.parse::<i32>().ok()? * 60;
            let sign = if text.as_bytes()[text.len() - 6] == b'-' { -1 } else { 1 };
            Offset::from_seconds(sign * seconds).ok()?
        }
    };
    Some((text.parse().ok()?, offset))
}

/// The start of a day, in UTC.
pub(super) fn parse_date(text: &str) -> Option<Timestamp> {
    if text.len() != 10 {
        return None;
    }
    Some(parse_timestamp(&format!("{text}T00:00:00Z"))?.0)
}

/// The time as `timestamp` values are written.
pub(super) fn format_timestamp(time: Timestamp, offset: Offset) -> String {
    // RFC 3339 with as many digits of a second as there are, which is what jiff writes.
    match offset {
        Offset::UTC => time.to_string(),
        offset => time.display_with_offset(offset).to_string(),
    }
}

/// The duration in nanoseconds of texts such as `1h30m` and `-1.5s`.
pub(super) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(end);
        let end = tail.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        total += scaled(number, nanoseconds(unit)?)?;
        rest = tail;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// The duration of a field with format `duration`, which may be written in words and in days and weeks.
pub(super) fn parse_loose_duration(text: &str) -> Option<i64> {
    if let Some(plain) = parse_duration(text) {
        return Some(plain);
    }
    let mut total: i128 = 0;
    let mut found = false;
    let mut rest = text;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let tail = &rest[start..];
        let end = tail.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(tail.len());
        let (number, tail) = tail.split_at(end);
        let tail = tail.trim_start();
        let end =
            tail.find(|letter: char| !letter.is_ascii_alphabetic() && letter != 'µ').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let unit = match unit.to_lowercase().trim_end_matches('s') {
            "n" | "nano" => 1,
            "u" | "µ" | "micro" => 1_000,
            "m" if unit.len() == 2 => 1_000_000,
            "milli" => 1_000_000,
            "" | "sec" | "second" => 1_000_000_000,
            "m" | "min" | "minute" => 60_000_000_000,
            "h" | "hr" | "hour" => 3_600_000_000_000,
            "d" | "day" => 86_400_000_000_000,
            "w" | "wk" | "week" => 604_800_000_000_000,
            _ => return None,
        };
        total += number.parse::<i128>().ok()? * unit;
        found = true;
        rest = tail;
    }
    if found { i64::try_from(total).ok() } else { None }
}

fn scaled(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let mut total = if whole.is_empty() { 0 } else { whole.parse::<i128>().ok()?.checked_mul(unit)? };
    let mut unit = unit;
    for digit in fraction.bytes() {
        unit /= 10;
        total += i128::from(digit - b'0') * unit;
    }
    Some(total)
}

fn nanoseconds(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// A duration as CEL writes it: in seconds.
pub(super) fn format_duration(nanoseconds: i64) -> String {
    format!("{}s", nanoseconds as f64 / 1e9)
}

/// The date and time of a moment in a zone, given by name or as an offset such as `-08:00`.
pub(super) fn in_zone(time: Timestamp, zone: &str) -> Result<DateTime, String> {
    let offset = || -> Option<TimeZone> {
        let (sign, rest) = match zone.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, zone.strip_prefix('+').unwrap_or(zone)),
        };
        let (hours, minutes) = rest.split_once(':')?;
        let seconds = hours.parse::<i32>().ok()? * 3600 + minutes.parse::<i32>().ok()? * 60;
        Some(Offset::from_seconds(sign * seconds).ok()?.to_time_zone())
    };
    let zone = match zone {
        "" | "UTC" => TimeZone::UTC,
        _ => offset()
            .or_else(|| TimeZone::get(zone).ok())
            .ok_or_else(|| format!("unknown time zone {zone}"))?,
    };
    Ok(zone.to_datetime(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let second = 1_000_000_000;
        let cases = [
            ("1s", Some(second)),
            ("1.5s", Some(second + second / 2)),
            ("-1h1m", Some(-3660 * second)),
            ("0", Some(0)),
            ("1", None),
            ("", None),
            ("1x", None),
            (".s", None),
            ("9999999h", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(parse_duration(text), wanted, "{text}");
        }
        assert_eq!(parse_loose_duration("2 days"), Some(172_800 * second));
        assert_eq!(parse_loose_duration("1w"), Some(604_800 * second));
    }

    #[test]
    fn times_must_be_in_the_strict_form() {
        for text in ["2024-01-02T03:04:05Z", "2024-01-02T03:04:05.5+02:00"] {
            assert!(parse_timestamp(text).is_some(), "{text}");
        }
        for text in ["2024-01-02", "2024-01-02 03:04:05Z", "2024-01-02t03:04:05z", "2024-01-02T03:04:05", "x"]
        {
            assert!(parse_timestamp(text).is_none(), "{text}");
        }
    }
}
