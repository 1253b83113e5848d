use super::*;

#[track_caller]
fn check(rule: fn(&str) -> Vec<String>, good: &[&str], bad: &[(&str, &[&str])]) {
    for value in good {
        assert_eq!(rule(value), Vec::<String>::new(), "{value:?}");
    }
    for (value, sentences) in bad {
        assert_eq!(rule(value), *sentences, "{value:?}");
    }
}

#[test]
fn labels_and_subdomains() {
    check(
        dns1123_label,
        &["a", "web-0", "0", "a-b-c"],
        &[
            ("", &[DNS1123_LABEL]),
            ("-a", &[DNS1123_LABEL]),
            ("A", &[DNS1123_LABEL]),
            ("ü", &[DNS1123_LABEL]),
            ("a.b", &["must not contain dots"]),
            (&"a".repeat(64), &["must be no more than 63 characters"]),
        ],
    );
    check(
        dns1123_subdomain,
        &["a", "a.b.c", "0.1"],
        &[
            ("", &[DNS1123_SUBDOMAIN]),
            ("a..b", &[DNS1123_SUBDOMAIN]),
            ("a_b", &[DNS1123_SUBDOMAIN]),
            (&"a".repeat(254), &["must be no more than 253 characters"]),
        ],
    );
    check(
        dns1123_subdomain_with_underscore,
        &["_tcp.example", "a_b"],
        &[("a_", &[DNS1123_SUBDOMAIN_UNDERSCORE])],
    );
    check(
        wildcard_dns1123_subdomain,
        &["*.a.b"],
        &[("*", &[WILDCARD_SUBDOMAIN]), ("a", &[WILDCARD_SUBDOMAIN])],
    );
    check(dns1035_label, &["web-0"], &[("0a", &[DNS1035_LABEL]), ("", &[DNS1035_LABEL])]);
}

#[test]
fn keys_and_values() {
    let name = format!("name part {QUALIFIED_NAME}");
    check(
        qualified_name,
        &["a", "example.com/My.Name_1"],
        &[
            ("", &["name part must be non-empty", &name]),
            ("/a", &["prefix part must be non-empty"]),
            (
                "a/b/c",
                &[&format!(
                    "a valid label key {QUALIFIED_NAME} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
                )],
            ),
            ("A/b", &[&format!("prefix part {DNS1123_SUBDOMAIN}")]),
            (&"a".repeat(64), &["name part must be no more than 63 bytes"]),
        ],
    );
    check(
        label_value,
        &["", "a_b"],
        &[("a b", &[LABEL_VALUE]), (&"a".repeat(64), &["must be no more than 63 bytes"])],
    );
    check(
        path_segment,
        &["system:node"],
        &[(".", &["may not be '.'"]), ("a/b%", &["may not contain '/'", "may not contain '%'"])],
    );
    check(
        config_map_key,
        &["a.b", "..a.b".trim_start_matches('.')],
        &[("", &[CONFIG_KEY]), ("..", &["must not be '..'"]), ("..a", &["must not start with '..'"])],
    );
    check(env_var_name, &["a b", "1"], &[("a=b", &[ENV_VAR]), ("ü", &[ENV_VAR])]);
}

#[test]
fn numbers_and_ports() {
    check(percent, &["0%", "100%"], &[("%", &[PERCENT]), ("1", &[PERCENT]), ("-1%", &[PERCENT])]);
    check(
        decimal_integer,
        &["0", "-5", "10"],
        &[("-", &[DECIMAL]), ("01", &[DECIMAL]), ("-0", &[DECIMAL]), ("", &["must be non-empty"])],
    );
    check(
        port_name,
        &["http", "a-1"],
        &[
            ("1", &["must contain at least one letter (a-z)"]),
            ("-a", &["must not begin or end with a hyphen"]),
            ("a--b", &["must not contain consecutive hyphens"]),
            (
                "A",
                &[
                    "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                    "must contain at least one letter (a-z)",
                ],
            ),
        ],
    );
    assert_eq!(port_number(0), ["must be between 1 and 65535, inclusive"]);
}

#[test]
fn addresses() {
    check(
        legacy_ip,
        &["10.0.0.1", "FE80::1"],
        &[
            ("10.0.0.01", &["must not have leading 0s"]),
            ("::ffff:1.2.3.4", &["must not be an IPv4-mapped IPv6 address"]),
            ("x", &["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]),
        ],
    );
    check(ip, &["fe80::1"], &[("FE80::1", &["must be in canonical form (\"fe80::1\")"])]);
    check(
        legacy_cidr,
        &["10.0.0.0/8", "::/0", "0.0.0.0/0"],
        &[
            ("10.0.0.1/8", &["must not have bits set beyond the prefix length"]),
            ("10.0.0.0/08", &["must not have leading 0s in IP or prefix length"]),
            ("10.0.0.0", &["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]),
            ("10.0.0.0/33", &["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]),
        ],
    );
    check(cidr, &["10.0.0.0/8"], &[("2001:DB8::/32", &["must be in canonical form (\"2001:db8::/32\")"])]);
}

#[test]
fn a_prefix_is_checked_as_if_a_suffix_followed() {
    assert_eq!(mask_trailing_dash("web-"), "wea");
    assert_eq!(mask_trailing_dash("-"), "-");
    assert!(dns1123_label(&mask_trailing_dash("web-")).is_empty());
}
