//! The namespaces of a member in which the federation may write. No IO.

use std::fmt;
use std::str::FromStr;

/// In which namespaces the federation may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    Everywhere,
    /// In those whose name matches one of these, where `*` stands for anything.
    Matching(Vec<String>),
}

impl Scope {
    pub(super) fn includes(&self, namespace: &str) -> bool {
        match self {
            Scope::Everywhere => true,
            Scope::Matching(patterns) => patterns.iter().any(|pattern| matches(pattern, namespace)),
        }
    }
}

/// Patterns, separated by commas.
impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Scope, String> {
        let mut patterns: Vec<String> = Vec::new();
        for pattern in text.split(',').map(str::trim) {
            let fits = |sign: char| matches!(sign, 'a'..='z' | '0'..='9' | '-' | '*');
            if pattern.is_empty() || pattern.len() > 63 || !pattern.chars().all(fits) {
                return Err(format!(
                    "{pattern:?} is no pattern for namespaces: give names, with * for anything, as in 'team-*,shop'"
                ));
            }
            patterns.push(pattern.to_owned());
        }
        if patterns.iter().any(|pattern| pattern.chars().all(|sign| sign == '*')) {
            return Ok(Scope::Everywhere);
        }
        patterns.sort();
        patterns.dedup();
        Ok(Scope::Matching(patterns))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::Everywhere => f.write_str("*"),
            Scope::Matching(patterns) => f.write_str(&patterns.join(",")),
        }
    }
}

/// Whether a name is as a pattern says: its pieces between the stars, in their order.
fn matches(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        let check = |scope: &str, inside: &[&str], outside: &[&str]| {
            let scope: Scope = scope.parse().unwrap();
            for name in inside {
                assert!(scope.includes(name), "{scope} {name}");
            }
            for name in outside {
                assert!(!scope.includes(name), "{scope} {name}");
            }
        };
        check("team-*", &["team-a", "team-"], &["team", "a-team-b", "kube-system"]);
        check("shop, team-*-live", &["shop", "team-a-live"], &["shops", "team-live", "team-a-live-2"]);
        check("*a*b*", &["ab", "xaxbx"], &["ba", "a"]);
        check("aba*aba", &["abaaba", "abaxaba"], &["aba", "ababa"]);
        check("*,shop", &["kube-system"], &[]);
    }

    #[test]
    fn a_scope_reads_as_it_is_written() {
        for text in ["*", "shop,team-*"] {
            assert_eq!(text.parse::<Scope>().unwrap().to_string(), text);
        }
        for wrong in ["", "a,,b", "Team-*", "a b"] {
            assert!(wrong.parse::<Scope>().unwrap_err().contains("is no pattern"), "{wrong}");
        }
    }
}
