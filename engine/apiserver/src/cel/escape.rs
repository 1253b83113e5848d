//! Names of properties as expressions spell them.

/// Words that no identifier may be, because the language may come to use them.
pub(super) const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Whether a name is a word of the language, in use or reserved.
pub(crate) fn is_reserved(name: &str) -> bool {
    matches!(name, "true" | "false" | "null" | "in") || RESERVED.contains(&name)
}

/// The identifier for a property; `None` for names that expressions cannot use.
pub(super) fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|letter: char| letter.is_ascii_digit()) {
        return None;
    }
    if is_reserved(name) {
        return Some(format!("__{name}__"));
    }
    let mut out = String::with_capacity(name.len());
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '_' if letters.next_if_eq(&'_').is_some() => out.push_str("__underscores__"),
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            letter if letter.is_ascii_alphanumeric() || letter == '_' => out.push(letter),
            _ => return None,
        }
    }
    Some(out)
}

/// The property that an identifier stands for.
pub(super) fn unescape(name: &str) -> Option<String> {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(start) = rest.find("__") {
        let inner = &rest[start + 2..];
        let length = inner.find('_').unwrap_or(inner.len());
        if length == 0 || !inner[length..].starts_with("__") {
            // Not an escape: two underscores that stand for themselves.
            let kept = start + 1;
            out.push_str(&rest[..kept]);
            rest = &rest[kept..];
            continue;
        }
        out.push_str(&rest[..start]);
        match &inner[..length] {
            "underscores" => out.push_str("__"),
            "dot" => out.push('.'),
            "dash" => out.push('-'),
            "slash" => out.push('/'),
            word if is_reserved(word) && word.len() + 4 == name.len() => out.push_str(word),
            _ => return None,
        }
        rest = &inner[length + 2..];
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_the_way_there_and_back() {
        let cases = [
            ("plain", Some("plain")),
            ("with_one", Some("with_one")),
            ("with__two", Some("with__underscores__two")),
            ("a-b.c/d", Some("a__dash__b__dot__c__slash__d")),
            ("namespace", Some("__namespace__")),
            ("namespaces", Some("namespaces")),
            ("___", Some("__underscores___")),
            ("9lives", None),
            ("a$b", None),
            ("", None),
        ];
        for (name, escaped) in cases {
            assert_eq!(escape(name).as_deref(), escaped, "{name}");
            if let Some(escaped) = escaped {
                assert_eq!(unescape(escaped).as_deref(), Some(name), "{escaped}");
            }
        }
        assert_eq!(unescape("a__unknown__b"), None);
    }
}
