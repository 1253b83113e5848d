//! The string formats that custom resources may demand, each read as leniently as the real server does.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;

use jiff::civil::Date;
use regex::Regex;

use crate::names;

/// Names without dashes, as they are compared.
const STRING_FORMATS: &[&str] = &[
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// Whether a format means anything for a type; others are ignored.
pub(crate) fn is_supported(kind: Option<&str>, format: &str) -> bool {
    match kind {
        None | Some("" | "string") => is_known(format),
        Some("integer") => matches!(format, "int32" | "int64"),
        Some("number") => matches!(format, "float" | "double"),
        Some(_) => false,
    }
}

pub(super) fn is_known(format: &str) -> bool {
    STRING_FORMATS.contains(&format.replace('-', "").as_str())
}

/// Whether a text has a known format.
pub(crate) fn has_format(format: &str, text: &str) -> bool {
    match format.replace('-', "").as_str() {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "uri" => is_request_uri(text),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "ipv4" => text.contains('.') && sloppy_ip(text).is_some(),
        "ipv6" => text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        uuid @ ("uuid" | "uuid3" | "uuid4" | "uuid5") => {
            is_uuid(text, uuid.strip_prefix("uuid").unwrap_or(""))
        }
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "ssn" => text.len() == 11 && SSN.is_match(text),
        "hexcolor" => is_hex_color(text),
        "rgbcolor" => RGB.is_match(text),
        "byte" => BASE64.is_match(text),
        "date" => is_date(text),
        "duration" => is_duration(text),
        "datetime" => is_date_time(text),
        "k8sshortname" => names::dns1123_label(text).is_empty(),
        "k8slongname" => names::dns1123_subdomain(text).is_empty(),
        _ => true,
    }
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a pattern of ours is valid")
}

static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)",
        r"|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}",
        r"([a-zA-Z\p{L}]){2,63})$"
    ))
});
static SSN: LazyLock<Regex> = LazyLock::new(|| regex("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"));
static RGB: LazyLock<Regex> = LazyLock::new(|| {
    let part = "[ \\t\\n\\f\\r]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[ \\t\\n\\f\\r]*";
    regex(&format!(r"^rgb\({part},{part},{part}\)$"))
});
static BASE64: LazyLock<Regex> = LazyLock::new(|| {
    regex("^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$")
});
static CREDIT_CARD: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}",
        "|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$"
    ))
});
static CLOCK: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"));
static NUMBER_AND_UNIT: LazyLock<Regex> = LazyLock::new(|| regex("([0-9]+)[ \\t\\n\\f\\r]*([A-Za-zµ]+)"));

fn is_hostname(text: &str) -> bool {
    HOSTNAME.is_match(text) && text.len() <= 255 && text.split('.').all(|label| label.len() <= 63)
}

/// An address whose decimal parts may have leading zeros.
fn sloppy_ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().ok().map(IpAddr::from);
    }
    let mut octets = [0u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *octet = part.parse().ok()?;
    }
    parts.next().is_none().then(|| octets.into())
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let Some(address) = sloppy_ip(address) else { return false };
    let most = if address.is_ipv4() { 32 } else { 128 };
    length.bytes().all(|byte| byte.is_ascii_digit()) && length.parse::<u32>().is_ok_and(|bits| bits <= most)
}

fn is_mac(text: &str) -> bool {
    let groups = |separator: char, digits: usize| {
        let parts: Vec<&str> = text.split(separator).collect();
        let hex = |part: &&str| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        parts.iter().all(hex).then_some(parts.len() * digits / 2)
    };
    let bytes = [groups(':', 2), groups('-', 2), groups('.', 4)].into_iter().flatten().next();
    matches!(bytes, Some(6 | 8 | 20))
}

/// Dashes may be left out; `version` is empty for any.
fn is_uuid(text: &str, version: &str) -> bool {
    let mut digits = String::new();
    let mut rest = text;
    for (at, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if at > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((group, tail)) = rest.split_at_checked(length) else { return false };
        digits.push_str(&group.to_ascii_lowercase());
        rest = tail;
    }
    let variant = matches!(digits.as_bytes().get(16), Some(b'8' | b'9' | b'a' | b'b'));
    rest.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        && digits[12..].starts_with(version)
        && (variant || !matches!(version, "4" | "5"))
}

fn without_spaces_and_dashes(text: &str) -> Vec<u8> {
    text.bytes().filter(|byte| !matches!(byte, b'-' | b' ' | b'\t' | b'\n' | 0x0c | b'\r')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = without_spaces_and_dashes(text);
    let [body @ .., last] = digits.as_slice() else { return false };
    if body.len() != 9 || !body.iter().all(u8::is_ascii_digit) || !(last.is_ascii_digit() || *last == b'X') {
        return false;
    }
    let sum: u32 = body.iter().zip(1..).map(|(digit, weight)| weight * u32::from(digit - b'0')).sum();
    let check = if *last == b'X' { 10 } else { u32::from(last - b'0') };
    (sum + 10 * check).is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits = without_spaces_and_dashes(text);
    if digits.len() != 13 || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let weights = [1, 3].into_iter().cycle();
    let sum: u32 =
        digits[..12].iter().zip(weights).map(|(digit, weight)| weight * u32::from(digit - b'0')).sum();
    u32::from(digits[12] - b'0') == (10 - sum % 10) % 10
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let luhn = digits.bytes().rev().enumerate().map(|(at, digit)| {
        let digit = u32::from(digit - b'0') * if at % 2 == 1 { 2 } else { 1 };
        if digit >= 10 { digit % 10 + 1 } else { digit }
    });
    CREDIT_CARD.is_match(&digits) && luhn.sum::<u32>() % 10 == 0
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = |range: std::ops::Range<usize>| text.get(range).and_then(|part| part.parse::<i16>().ok());
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' || !bytes[0].is_ascii_digit() {
        return false;
    }
    match (digits(0..4), digits(5..7), digits(8..10)) {
        (Some(year), Some(month), Some(day)) => Date::new(year, month as i8, day as i8).is_ok(),
        _ => false,
    }
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(clock)) = (parts.next(), parts.next()) else { return false };
    is_date(date)
        && CLOCK.captures(clock).is_some_and(|parts| {
            let below = |at: usize, most: &str| parts.get(at).is_some_and(|part| part.as_str() <= most);
            below(1, "23") && below(2, "59") && below(3, "59")
        })
}

/// Go's `1h30m`, or any number with a unit in words.
fn is_duration(text: &str) -> bool {
    const UNITS: &[&[&str]] = &[
        &["ns", "nano"],
        &["us", "µs", "micro"],
        &["ms", "milli"],
        &["s", "sec"],
        &["m", "min"],
        &["h", "hr", "hour"],
        &["d", "day"],
        &["w", "wk", "week"],
    ];
    let is_unit = |unit: &str| {
        UNITS.iter().any(|names| {
            let (last, _) = names.split_last().expect("each unit has names");
            unit.starts_with(last) || names.contains(&unit)
        })
    };
    let in_words = || {
        let mut found = false;
        for parts in NUMBER_AND_UNIT.captures_iter(text) {
            if parts[1].parse::<i64>().is_err() {
                return false;
            }
            found |= is_unit(&parts[2].to_lowercase());
        }
        found
    };
    is_go_duration(text) || in_words()
}

fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let number = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let (digits, tail) = rest.split_at(number);
        if !digits.bytes().any(|byte| byte.is_ascii_digit()) || digits.matches('.').count() > 1 {
            return false;
        }
        let unit = tail.find(|letter: char| letter == '.' || letter.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        if !matches!(unit, "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h") {
            return false;
        }
        rest = tail;
    }
    true
}

/// What may stand in the request line of HTTP: an absolute URI or an absolute path.
fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return false;
    }
    if text == "*" || !valid_escapes(text.split('?').next().unwrap_or(text)) {
        return text == "*";
    }
    let scheme = text.bytes().position(|byte| !byte.is_ascii_alphanumeric() && !b"+-.".contains(&byte));
    let rest = match scheme {
        Some(at) if at > 0 && text.as_bytes()[at] == b':' && text.as_bytes()[0].is_ascii_alphabetic() => {
            let rest = &text[at + 1..];
            if !rest.starts_with('/') {
                // Opaque, as in `mailto:someone`.
                return true;
            }
            rest
        }
        _ => text,
    };
    match rest.strip_prefix("//") {
        // Without a scheme this is a path.
        Some(authority) if rest.len() < text.len() => {
            valid_authority(authority.split(['/', '?', '#']).next().unwrap_or_default())
        }
        _ => rest.starts_with('/'),
    }
}

fn valid_escapes(text: &str) -> bool {
    text.match_indices('%').all(|(at, _)| {
        text.as_bytes().get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

fn valid_authority(authority: &str) -> bool {
    let host = authority.rsplit('@').next().unwrap_or(authority);
    let (name, port) = match host.strip_prefix('[') {
        Some(inner) => match inner.split_once(']') {
            Some((name, rest)) => (name, rest.strip_prefix(':').or_else(|| rest.is_empty().then_some(""))),
            None => return false,
        },
        None => host.rsplit_once(':').map_or((host, Some("")), |(name, port)| (name, Some(port))),
    };
    port.is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
        && !name.contains([' ', '"', '<', '>', '\\', '^', '`', '{', '|', '}'])
}

/// `someone@example.com` or `Someone <someone@example.com>`.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.strip_suffix('>') {
        Some(inner) => match inner.rsplit_once('<') {
            Some((_, address)) => address,
            None => return false,
        },
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let quoted = local.len() > 1 && local.starts_with('"') && local.ends_with('"');
    let literal = domain.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    (quoted || is_dot_atom(local))
        && (is_dot_atom(domain) || literal.is_some_and(|ip| sloppy_ip(ip).is_some()))
}

fn is_dot_atom(text: &str) -> bool {
    let atom = |letter: char| {
        letter.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(letter) || !letter.is_ascii()
    };
    text.split('.').all(|part| !part.is_empty() && part.chars().all(atom))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_from_what_only_looks_like_them() {
        for (format, good, bad) in [
            (
                "uri",
                &["http://a/b", "/a", "mailto:x", "https://[::1]:80/"][..],
                &["x", "", "http://a b/", "/%zz"][..],
            ),
            ("email", &["a@b.c", "Bob <a@b>", "\"a b\"@c"], &["x", "a@", "@b", "a..b@c", "a b@c"]),
            ("hostname", &["a", "a.com", "1.example.com"], &["-a", "a_b", "a.b.1"]),
            ("ipv4", &["1.2.3.4", "01.2.3.4"], &["300.1.1.1", "::1", "1.2.3", "1.2.3.4.5", "a.b.c.d"]),
            ("ipv6", &["::1", "2001:db8::"], &["1.2.3.4", ":::"]),
            ("cidr", &["1.2.3.4/8", "::/0"], &["1.2.3.4", "1.2.3.4/33", "1.2.3.4/", "1.2.3.4/+8"]),
            (
                "mac",
                &["00:00:5e:00:53:01", "0000.5e00.5301", "02-00-5e-10-00-00-00-01"],
                &["x", "00:00", "0:0:0:0:0:0"],
            ),
            (
                "uuid",
                &["00000000-0000-0000-0000-000000000000", "00000000000000000000000000000000"],
                &["x", "00000000-0000-0000-0000-00000000000g", "00000000-0000-0000-0000-0000000000000"],
            ),
            ("uuid4", &["F47AC10B-58CC-4372-A567-0E02B2C3D479"], &["F47AC10B-58CC-3372-A567-0E02B2C3D479"]),
            ("isbn10", &["0321751043", "0-321-75104-3"], &["0321751044", "x"]),
            ("isbn13", &["978-0321751041"], &["978-0321751042"]),
            ("creditcard", &["4111 1111 1111 1111"], &["4111 1111 1111 1112", ""]),
            ("ssn", &["111-11-1111"], &["111111111", "x"]),
            ("hexcolor", &["#FFFFFF", "fff"], &["#ff", "red"]),
            ("rgbcolor", &["rgb(255, 0,2)"], &["rgb(256,0,0)", "255,0,0"]),
            ("byte", &["YQ==", "YWJj"], &["", "YQ", "**"]),
            ("date", &["2020-02-28"], &["2020-02-30", "2020-2-28", "x"]),
            ("duration", &["5m", "1h30m", "3 days", "-1.5s", "0"], &["x", "", "5"]),
            (
                "date-time",
                &["2020-01-01T00:00:00Z", "2020-01-01t00:00:00.5+02:00"],
                &["foo", "2020-01-01", "2020-01-01T24:00:00Z"],
            ),
            ("k8s-short-name", &["a-b"], &["A", "a.b"]),
            ("k8s-long-name", &["a.b"], &["A"]),
            ("bsonobjectid", &["507f1f77bcf86cd799439011"], &["x"]),
            ("password", &["", "x"], &[]),
        ] {
            for text in good {
                assert!(has_format(format, text), "{text:?} is a {format}");
            }
            for text in bad {
                assert!(!has_format(format, text), "{text:?} is no {format}");
            }
        }
        assert!(!is_supported(Some("string"), "foo") && !is_supported(Some("boolean"), "date"));
        assert!(is_supported(Some("integer"), "int32") && is_supported(None, "date-time"));
    }
}
