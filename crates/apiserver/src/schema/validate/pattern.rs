//! Patterns in Go's syntax, compiled once.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use regex::Regex;

/// Patterns by their text; those that are not valid are remembered, too.
type Compiled = HashMap<Box<str>, Option<Arc<Regex>>>;

/// Compiled patterns; CRDs are few, and each pattern is used again and again.
static COMPILED: LazyLock<Mutex<Compiled>> = LazyLock::new(Mutex::default);
/// Enough for any real set of CRDs; beyond it we start anew rather than grow.
const MOST: usize = 4096;

/// The pattern, or `None` when it is not valid.
pub(crate) fn compiled(pattern: &str) -> Option<Arc<Regex>> {
    let mut cache = COMPILED.lock();
    if let Some(known) = cache.get(pattern) {
        return known.clone();
    }
    let regex = Regex::new(&translated(pattern)).ok().map(Arc::new);
    if cache.len() >= MOST {
        cache.clear();
    }
    cache.insert(pattern.into(), regex.clone());
    regex
}

/// Why a pattern is not valid, in Go's words as far as they are known.
pub(crate) fn objection(pattern: &str) -> Option<String> {
    if compiled(pattern).is_some() {
        return None;
    }
    let unclosed = pattern.matches('(').count() > pattern.matches(')').count();
    Some(match pattern {
        _ if unclosed => format!("missing closing ): `{pattern}`"),
        _ if pattern.matches(')').count() > pattern.matches('(').count() => {
            format!("unexpected ): `{pattern}`")
        }
        _ if pattern.ends_with('\\') => "trailing backslash at end of expression: ``".to_owned(),
        _ => format!("invalid or unsupported syntax: `{pattern}`"),
    })
}

/// The pattern in the syntax of this crate's regular expressions, where `\d` and the like know more than
/// ASCII and classes nest.
fn translated(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut letters = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(escaped) => escape(escaped, in_class, &mut out),
                None => out.push('\\'),
            },
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                if letters.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                // A bracket that closes at once stands for itself.
                if letters.next_if_eq(&']').is_some() {
                    out.push_str("\\]");
                }
            }
            '[' if letters.peek() == Some(&':') => {
                out.push('[');
                for inner in letters.by_ref() {
                    out.push(inner);
                    if inner == ']' {
                        break;
                    }
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '[' | '&' | '~' if in_class => out.extend(['\\', letter]),
            _ => out.push(letter),
        }
    }
    out
}

fn escape(letter: char, in_class: bool, out: &mut String) {
    let class = match letter {
        'd' | 'D' => "0-9",
        'w' | 'W' => "0-9A-Za-z_",
        's' | 'S' => "\\t\\n\\f\\r ",
        'b' | 'B' if !in_class => return out.push_str(&format!("(?-u:\\{letter})")),
        _ if letter.is_ascii_punctuation() => return out.push_str(&regex::escape(&letter.to_string())),
        _ => return out.extend(['\\', letter]),
    };
    match (letter.is_ascii_uppercase(), in_class) {
        (false, true) => out.push_str(class),
        (false, false) => out.push_str(&format!("[{class}]")),
        (true, _) => out.push_str(&format!("[^{class}]")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        for (pattern, text, matches) in [
            (r"^\d+$", "12", true),
            (r"^\d+$", "٣", false),
            (r"^[\w.-]+$", "a_b.c-d", true),
            (r"^[^\s]+$", "a b", false),
            (r"^[[]a$", "[a", true),
            (r"^[a&&b]+$", "&", true),
            (r"^[]a]+$", "]a", true),
            (r"^a\/b\-c$", "a/b-c", true),
            (r"^[[:alpha:]]+$", "ab", true),
            (r"^\D$", "x", true),
            (r"\bfoo\b", "a foo b", true),
            (r"^[\D]$", "5", false),
        ] {
            assert_eq!(compiled(pattern).expect(pattern).is_match(text), matches, "{pattern} {text}");
        }
        assert!(compiled("(").is_none());
    }
}
