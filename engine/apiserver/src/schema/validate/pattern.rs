//! Patterns in Go's syntax, and a cache of those that schemas and expressions have.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use regex::{Regex, RegexBuilder};

/// What a pattern may take when it is compiled, in steps: the first that suffices tells what it is charged in the cache.
/// The largest is more than any pattern needs that repeats a class of letters as often as Go allows.
const SIZES: [usize; 4] = [64 << 10, 256 << 10, 1 << 20, 4 << 20];
/// What a search may remember besides; a pattern that needs more is searched for without it.
const SEARCH_MEMORY: usize = 256 << 10;
/// What all compiled patterns may take.
const MOST_BYTES: usize = 64 << 20;
/// What remembering a pattern that is not valid is charged, besides its text.
const ENTRY: usize = 256;

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(|| Mutex::new(Cache::of(MOST_BYTES)));

/// The pattern of a schema or of an expression, or `None` when it is not valid. It is kept: these are few, and each is
/// used again and again.
pub(crate) fn compiled(pattern: &str) -> Option<Arc<Regex>> {
    if let Some(known) = CACHE.lock().get(pattern) {
        return known;
    }
    // Not under the lock: another pattern is not to wait for this one.
    let (regex, bytes) = build(pattern);
    CACHE.lock().keep(pattern, regex.clone(), bytes);
    regex
}

/// A pattern that comes from an object, of which nothing is kept; and how many bytes it took to find out.
pub(crate) fn compiled_once(pattern: &str) -> (Option<Arc<Regex>>, usize) {
    build(pattern)
}

/// The pattern and the most that it takes, or that was taken in vain.
fn build(pattern: &str) -> (Option<Arc<Regex>>, usize) {
    let translated = translated(pattern);
    let mut tried = 0;
    for size in SIZES {
        tried = size;
        match RegexBuilder::new(&translated).size_limit(size).dfa_size_limit(SEARCH_MEMORY).build() {
            Ok(regex) => return (Some(Arc::new(regex)), size),
            Err(regex::Error::CompiledTooBig(_)) => {}
            Err(_) => break,
        }
    }
    (None, tried)
}

/// Patterns by their text, in two generations: when the young ones fill half of the room, the old ones go. Those that
/// are not valid are remembered, too.
struct Cache {
    young: Generation,
    old: Generation,
    most_bytes: usize,
}

#[derive(Default)]
struct Generation {
    patterns: HashMap<Box<str>, (Option<Arc<Regex>>, usize)>,
    bytes: usize,
}

impl Cache {
    fn of(most_bytes: usize) -> Self {
        Cache { young: Generation::default(), old: Generation::default(), most_bytes }
    }

    fn get(&mut self, pattern: &str) -> Option<Option<Arc<Regex>>> {
        if let Some((known, _)) = self.young.patterns.get(pattern) {
            return Some(known.clone());
        }
        let (known, bytes) = self.old.patterns.remove(pattern)?;
        self.old.bytes -= bytes;
        self.put(pattern, known.clone(), bytes);
        Some(known)
    }

    fn keep(&mut self, pattern: &str, regex: Option<Arc<Regex>>, bytes: usize) {
        // Another request may have compiled it meanwhile.
        if self.young.patterns.contains_key(pattern) {
            return;
        }
        // What is not valid takes its text only.
        let bytes = if regex.is_some() { bytes } else { 0 };
        self.put(pattern, regex, ENTRY + pattern.len() + bytes);
    }

    fn put(&mut self, pattern: &str, regex: Option<Arc<Regex>>, bytes: usize) {
        let most = self.most_bytes / 2;
        if bytes > most {
            return;
        }
        if self.young.bytes + bytes > most {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.bytes += bytes;
        self.young.patterns.insert(pattern.into(), (regex, bytes));
    }

    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.young.bytes + self.old.bytes
    }
}

/// Why a pattern is not valid, in Go's words as far as they are known.
pub(crate) fn objection(pattern: &str) -> Option<String> {
    if build(pattern).0.is_some() {
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
    fn the_cache_is_bounded_whatever_is_kept() {
        let most = 1 << 20;
        let mut cache = Cache::of(most);
        for at in 0..1000 {
            let pattern = format!("^a{at}$");
            let (regex, bytes) = build(&pattern);
            assert!(regex.is_some() && bytes == SIZES[0]);
            cache.keep(&pattern, regex, bytes);
            assert!(cache.bytes() <= most);
            assert!(cache.get(&pattern).is_some(), "the newest is kept");
            assert!(cache.get("^a0$").is_some(), "so is the one that is used");
        }
        assert!(cache.get("^a1$").is_none());
        let huge = "x".repeat(most);
        cache.keep(&huge, None, 0);
        assert!(cache.get(&huge).is_none() && cache.bytes() <= most);
    }

    #[test]
    fn a_pattern_that_comes_to_very_much_is_refused() {
        for pattern in ["((a{100}){100}){100}", "(\\p{L}{1000}){20}"] {
            assert!(compiled(pattern).is_none(), "{pattern}");
        }
        for pattern in
            ["^.{1,1000}$", "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$"]
        {
            assert!(compiled(pattern).is_some(), "{pattern}");
        }
    }

    #[test]
    fn patterns_of_objects_are_not_kept() {
        assert!(compiled_once("^only-in-an-object$").0.is_some());
        assert!(objection("^only-in-an-objection$").is_none());
        let mut cache = CACHE.lock();
        assert!(cache.get("^only-in-an-object$").is_none() && cache.get("^only-in-an-objection$").is_none());
    }

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
