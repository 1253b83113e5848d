//! The rules that names, labels and keys obey, with the sentences Kubernetes gives when they do not.
//!
//! Each function returns what is wrong; nothing means the value is fine.

const LABEL_MOST: usize = 63;
const SUBDOMAIN_MOST: usize = 253;

const DNS1123_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS1123_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const DNS1035_LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED_NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn too_long(most: usize) -> String {
    format!("must be no more than {most} bytes")
}

fn lower_or_digit(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// First and last byte obey `edge`, those between `edge` or one of `inner`.
fn shaped(value: &str, edge: fn(u8) -> bool, inner: &[u8]) -> bool {
    let bytes = value.as_bytes();
    match bytes {
        [] => false,
        [one] => edge(*one),
        [first, middle @ .., last] => {
            edge(*first) && edge(*last) && middle.iter().all(|byte| edge(*byte) || inner.contains(byte))
        }
    }
}

/// A lowercase RFC 1123 label: namespaces, containers, ports.
pub fn dns1123_label(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > LABEL_MOST {
        wrong.push(too_long(LABEL_MOST));
    }
    if !shaped(value, lower_or_digit, b"-") {
        // A name that would do as a subdomain has only its dots wrong, and the hint says so.
        let dots_only = dns1123_subdomain(value).is_empty();
        wrong.push(if dots_only { "must not contain dots".to_owned() } else { DNS1123_LABEL.to_owned() });
    }
    wrong
}

/// A lowercase RFC 1123 subdomain: the names of most objects.
pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > SUBDOMAIN_MOST {
        wrong.push(too_long(SUBDOMAIN_MOST));
    }
    if !value.split('.').all(|part| shaped(part, lower_or_digit, b"-")) {
        wrong.push(DNS1123_SUBDOMAIN.to_owned());
    }
    wrong
}

/// A DNS-1035 label: the names of custom resources' plurals and, for long, of Services.
pub fn dns1035_label(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > LABEL_MOST {
        wrong.push(too_long(LABEL_MOST));
    }
    if !shaped(value, lower_or_digit, b"-") || !value.as_bytes()[0].is_ascii_lowercase() {
        wrong.push(DNS1035_LABEL.to_owned());
    }
    wrong
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
                wrong.extend(dns1123_subdomain(prefix).into_iter().map(|why| format!("prefix part {why}")));
            }
            name
        }
        _ => {
            let detail = QUALIFIED_NAME.strip_prefix("name part ").unwrap_or(QUALIFIED_NAME);
            wrong.push(format!(
                "a valid label key or qualified name {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                detail
            ).replacen("a valid label key or qualified name must", "a qualified name must", 1));
            return wrong;
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MOST {
        wrong.push(format!("name part {}", too_long(LABEL_MOST)));
    }
    if !shaped(name, |byte| byte.is_ascii_alphanumeric(), b"-_.") {
        wrong.push(QUALIFIED_NAME.to_owned());
    }
    wrong
}

/// The value of a label.
pub fn label_value(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > LABEL_MOST {
        wrong.push(too_long(LABEL_MOST));
    }
    if !value.is_empty() && !shaped(value, |byte| byte.is_ascii_alphanumeric(), b"-_.") {
        wrong.push(LABEL_VALUE.to_owned());
    }
    wrong
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_names_pass() {
        for name in ["a", "web-0", "0", "a-b-c"] {
            assert!(dns1123_label(name).is_empty(), "{name}");
            assert!(dns1123_subdomain(name).is_empty(), "{name}");
        }
        assert!(dns1123_subdomain("a.b.c").is_empty());
        assert!(dns1035_label("web-0").is_empty());
        assert!(qualified_name("example.com/My.Name_1").is_empty());
        assert!(label_value("").is_empty());
        assert!(path_segment("system:node").is_empty());
    }

    #[test]
    fn bad_names_do_not() {
        for name in ["", "-a", "a-", "A", "a_b", "ü"] {
            assert!(!dns1123_label(name).is_empty(), "{name}");
            assert!(!dns1123_subdomain(name).is_empty(), "{name}");
        }
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert_eq!(dns1123_label(&"a".repeat(64)), ["must be no more than 63 bytes"]);
        assert!(!dns1035_label("0a").is_empty());
        assert!(!qualified_name("/a").is_empty());
        assert!(!qualified_name("a/b/c").is_empty());
        assert!(!label_value("a b").is_empty());
        assert_eq!(path_segment("a/b"), ["may not contain '/'"]);
    }
}
