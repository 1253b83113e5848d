//! The rules that names, labels and keys obey, with the sentences Kubernetes gives when they do not.
//!
//! Each function returns what is wrong; nothing means the value is fine. Lengths count bytes, but the
//! older rules say "characters" all the same.

mod ip;

pub use ip::{cidr, ip, is_ipv6, legacy_cidr, legacy_ip, parse_cidr, parse_ip};

const LABEL_MOST: usize = 63;
const SUBDOMAIN_MOST: usize = 253;
const PORT_NAME_MOST: usize = 15;

const DNS1123_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS1123_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const DNS1123_SUBDOMAIN_UNDERSCORE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
const WILDCARD_SUBDOMAIN: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const DNS1035_LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED_NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const C_IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";
const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
const HTTP_HEADER: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
const ENV_VAR: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const DECIMAL: &str = "must be a valid decimal integer in canonical form";

/// The sentence about a number outside `least..=most`.
pub fn range(least: i64, most: i64) -> String {
    format!("must be between {least} and {most}, inclusive")
}

fn too_many_characters(value: &str, most: usize) -> Option<String> {
    (value.len() > most).then(|| format!("must be no more than {most} characters"))
}

fn too_many_bytes(value: &str, most: usize) -> Option<String> {
    (value.len() > most).then(|| format!("must be no more than {most} bytes"))
}

fn unless(fine: bool, sentence: &str) -> Option<String> {
    (!fine).then(|| sentence.to_owned())
}

fn lower_or_digit(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

/// First and last byte obey `edge`, those between `edge` or one of `inner`.
fn shaped(value: &str, edge: fn(u8) -> bool, inner: &[u8]) -> bool {
    match value.as_bytes() {
        [] => false,
        [one] => edge(*one),
        [first, middle @ .., last] => {
            edge(*first) && edge(*last) && middle.iter().all(|byte| edge(*byte) || inner.contains(byte))
        }
    }
}

fn is_subdomain(value: &str) -> bool {
    value.split('.').all(|part| shaped(part, lower_or_digit, b"-"))
}

/// A lowercase RFC 1123 label: namespaces, containers, volumes.
pub fn dns1123_label(value: &str) -> Vec<String> {
    // A name that would do as a subdomain has only its dots wrong, and the hint says so.
    let sentence = if is_subdomain(value) { "must not contain dots" } else { DNS1123_LABEL };
    let length = too_many_characters(value, LABEL_MOST);
    length.into_iter().chain(unless(shaped(value, lower_or_digit, b"-"), sentence)).collect()
}

/// A lowercase RFC 1123 subdomain: the names of most objects.
pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    let length = too_many_characters(value, SUBDOMAIN_MOST);
    length.into_iter().chain(unless(is_subdomain(value), DNS1123_SUBDOMAIN)).collect()
}

/// A lowercase RFC 1123 subdomain that may have underscores: DNS search paths.
pub fn dns1123_subdomain_with_underscore(value: &str) -> Vec<String> {
    let fine =
        value.split('.').all(|part| shaped(part.strip_prefix('_').unwrap_or(part), lower_or_digit, b"-_"));
    let length = too_many_characters(value, SUBDOMAIN_MOST);
    length.into_iter().chain(unless(fine, DNS1123_SUBDOMAIN_UNDERSCORE)).collect()
}

/// `*.` and a subdomain: hosts of an Ingress.
pub fn wildcard_dns1123_subdomain(value: &str) -> Vec<String> {
    let fine = value.strip_prefix("*.").is_some_and(is_subdomain);
    let length = too_many_characters(value, SUBDOMAIN_MOST);
    length.into_iter().chain(unless(fine, WILDCARD_SUBDOMAIN)).collect()
}

/// A DNS-1035 label: the names of Services, and the plurals of custom resources.
pub fn dns1035_label(value: &str) -> Vec<String> {
    let fine = shaped(value, lower_or_digit, b"-") && value.as_bytes()[0].is_ascii_lowercase();
    let length = too_many_characters(value, LABEL_MOST);
    length.into_iter().chain(unless(fine, DNS1035_LABEL)).collect()
}

/// `name` or `prefix/name`: the keys of labels and annotations.
pub fn qualified_name(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = match value.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                let length = too_many_bytes(prefix, SUBDOMAIN_MOST);
                let shape = unless(is_subdomain(prefix), DNS1123_SUBDOMAIN);
                wrong.extend(length.into_iter().chain(shape).map(|why| format!("prefix part {why}")));
            }
            name
        }
        _ => {
            wrong.push(format!(
                "a valid label key {QUALIFIED_NAME} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
            return wrong;
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else {
        wrong.extend(too_many_bytes(name, LABEL_MOST).map(|why| format!("name part {why}")));
    }
    if !shaped(name, alphanumeric, b"-_.") {
        wrong.push(format!("name part {QUALIFIED_NAME}"));
    }
    wrong
}

/// The value of a label.
pub fn label_value(value: &str) -> Vec<String> {
    let fine = value.is_empty() || shaped(value, alphanumeric, b"-_.");
    too_many_bytes(value, LABEL_MOST).into_iter().chain(unless(fine, LABEL_VALUE)).collect()
}

/// A name that is one segment of a URL: the names of roles and bindings.
pub fn path_segment(value: &str) -> Vec<String> {
    if value == "." || value == ".." {
        return vec![format!("may not be '{value}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|bad| value.contains(**bad))
        .map(|bad| format!("may not contain '{bad}'"))
        .collect()
}

/// The name of a port of a container: an IANA service name.
pub fn port_name(value: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_many_characters(value, PORT_NAME_MOST).into_iter().collect();
    let bytes = value.as_bytes();
    if bytes.is_empty() || !bytes.iter().all(|byte| lower_or_digit(*byte) || *byte == b'-') {
        wrong.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !bytes.iter().any(u8::is_ascii_lowercase) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || value.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    wrong
}

/// The number of a port.
pub fn port_number(value: i64) -> Vec<String> {
    in_range(value, 1, 65535)
}

/// A number that must lie in `least..=most`.
pub fn in_range(value: i64, least: i64, most: i64) -> Vec<String> {
    if (least..=most).contains(&value) { Vec::new() } else { vec![range(least, most)] }
}

/// The id of a user or a group.
pub fn user_or_group_id(value: i64) -> Vec<String> {
    in_range(value, 0, i64::from(i32::MAX))
}

/// `25%`.
pub fn percent(value: &str) -> Vec<String> {
    let fine = value
        .strip_suffix('%')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()));
    unless(fine, PERCENT).into_iter().collect()
}

/// An identifier of the C language.
pub fn c_identifier(value: &str) -> Vec<String> {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let fine = value.bytes().next().is_some_and(|first| word(first) && !first.is_ascii_digit())
        && value.bytes().all(word);
    unless(fine, C_IDENTIFIER).into_iter().collect()
}

/// The name of an HTTP header in a probe.
pub fn http_header_name(value: &str) -> Vec<String> {
    let fine = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    unless(fine, HTTP_HEADER).into_iter().collect()
}

/// The name of an environment variable: since 1.34 anything printable but `=`.
pub fn env_var_name(value: &str) -> Vec<String> {
    if value.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    let fine = value.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=');
    unless(fine, ENV_VAR).into_iter().collect()
}

/// A key of a ConfigMap or a Secret, which becomes the name of a file.
pub fn config_map_key(value: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_many_characters(value, SUBDOMAIN_MOST).into_iter().collect();
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if value.is_empty() || !value.bytes().all(allowed) {
        wrong.push(CONFIG_KEY.to_owned());
    }
    wrong.extend(match value {
        "." => Some("must not be '.'".to_owned()),
        ".." => Some("must not be '..'".to_owned()),
        _ => value.starts_with("..").then(|| "must not start with '..'".to_owned()),
    });
    wrong
}

/// A whole number without leading zeros or a plus sign.
pub fn decimal_integer(value: &str) -> Vec<String> {
    if value.is_empty() {
        return vec!["must be non-empty".to_owned()];
    }
    let digits = value.strip_prefix('-').unwrap_or(value);
    let fine = value == "0"
        || (digits.bytes().next().is_some_and(|first| (b'1'..=b'9').contains(&first))
            && digits.bytes().all(|byte| byte.is_ascii_digit()));
    unless(fine, DECIMAL).into_iter().collect()
}

/// What stands for a `generateName` while it is checked as a name: a dash at its end will be
/// followed by a suffix, so it must not count as the last character.
pub fn mask_trailing_dash(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        // The byte before the dash goes as well, as the real server has it.
        Some(rest) if !rest.is_empty() => {
            let keep = rest.char_indices().next_back().map_or(0, |(at, _)| at);
            format!("{}a", &rest[..keep])
        }
        _ => prefix.to_owned(),
    }
}

#[cfg(test)]
mod tests;
