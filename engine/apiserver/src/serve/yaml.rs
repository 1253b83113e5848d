//! YAML bodies, as Go's decoder reads them. Of a key that is there twice the last one counts, and strict validation tells
//! of it by its line.

use std::collections::HashSet;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Spanned};

use crate::schema::raw::Json;
use crate::status::{Error, Result};

/// How Go's decoder begins what it says of keys that are there twice.
const REPEATED: &str = "yaml: unmarshal errors:";
/// How many of them are told of.
const MOST_REPEATED: usize = 100;

/// A YAML text.
pub(crate) struct Yaml {
    pub(crate) json: Json,
    /// What a strict reader says of keys that are there twice.
    pub(crate) repeated: Option<String>,
}

pub(crate) fn parse(body: &[u8]) -> Result<Yaml> {
    let text = std::str::from_utf8(body).map_err(|_| {
        Error::bad_request("error converting YAML to JSON: yaml: invalid leading UTF-8 octet")
    })?;
    let refuse = |error: serde_saphyr::Error| Error::bad_request(words(&error));
    match serde_saphyr::from_str_with_options::<Value>(text, options(text.len(), DuplicateKeyPolicy::Error)) {
        Ok(value) => return Ok(Yaml { json: Json::from(value), repeated: None }),
        Err(error) if is_repeated_key(&error) => {}
        Err(error) => return Err(refuse(error)),
    }
    // Few bodies get here: only these are read again, to know the lines.
    let last_wins = || options(text.len(), DuplicateKeyPolicy::LastWins);
    let value: Value = serde_saphyr::from_str_with_options(text, last_wins()).map_err(refuse)?;
    let keys: Keys = serde_saphyr::from_str_with_options(text, last_wins()).map_err(refuse)?;
    Ok(Yaml { json: Json::from(value), repeated: keys.told() })
}

/// What a finding is told as: those of a YAML reader are several in one.
pub(crate) fn warnings(finding: &str) -> Vec<String> {
    match finding.strip_prefix(REPEATED) {
        Some(lines) => lines.trim_start().lines().map(|line| line.trim().to_owned()).collect(),
        None => vec![finding.to_owned()],
    }
}

fn is_repeated_key(error: &serde_saphyr::Error) -> bool {
    match error.without_snippet() {
        serde_saphyr::Error::AliasError { error, .. } => is_repeated_key(error),
        other => matches!(other, serde_saphyr::Error::DuplicateMappingKey { .. }),
    }
}

/// The keys of a document that are there twice, each with its line: those inside a value before the key of that value, as
/// Go finds them.
#[derive(Default)]
struct Keys(Vec<(u64, String)>);

impl Keys {
    fn told(&self) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let line = |(line, key): &(u64, String)| format!("\n  line {line}: key {key:?} already set in map");
        Some(format!("{REPEATED}{}", self.0.iter().take(MOST_REPEATED).map(line).collect::<String>()))
    }
}

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(KeysVisitor)
    }
}

struct KeysVisitor;

/// Scalars have no keys.
macro_rules! no_keys {
    ($($name:ident($type:ty)),*) => {
        $(fn $name<E>(self, _: $type) -> std::result::Result<Keys, E> {
            Ok(Keys::default())
        })*
    };
}

impl<'de> Visitor<'de> for KeysVisitor {
    type Value = Keys;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a YAML value")
    }

    no_keys!(visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_i128(i128), visit_u128(u128));
    no_keys!(visit_f64(f64), visit_str(&str), visit_bytes(&[u8]));

    fn visit_unit<E>(self) -> std::result::Result<Keys, E> {
        Ok(Keys::default())
    }

    fn visit_none<E>(self) -> std::result::Result<Keys, E> {
        Ok(Keys::default())
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> std::result::Result<Keys, D::Error> {
        Keys::deserialize(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<Keys, A::Error> {
        let mut all = Keys::default();
        while let Some(below) = items.next_element::<Keys>()? {
            all.0.extend(below.0);
        }
        Ok(all)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> std::result::Result<Keys, A::Error> {
        let (mut all, mut seen) = (Keys::default(), HashSet::new());
        while let Some(key) = entries.next_key::<Spanned<String>>()? {
            all.0.extend(entries.next_value::<Keys>()?.0);
            if !seen.insert(key.value.clone()) {
                all.0.push((key.referenced.line(), key.value));
            }
        }
        Ok(all)
    }
}

/// How much aliases and merge keys may add to a document of `length` bytes. Those of a few kilobytes can stand for
/// millions of nodes, so they may add no more than about what the document could say itself, as in Go's parser, which
/// refuses documents that are mostly aliases.
fn options(length: usize, duplicate_keys: DuplicateKeyPolicy) -> serde_saphyr::Options {
    const ALWAYS: usize = 10_000;
    let aliased = ALWAYS + length / 8;
    serde_saphyr::options! {
        duplicate_keys: duplicate_keys,
        budget: serde_saphyr::budget! {
            max_recorded_anchor_events: ALWAYS + length,
            max_merge_keys: 1_000,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: aliased },
    }
}

/// The fault of a YAML text, in as many words as Go's parser uses.
fn words(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error as Fault;
    use serde_saphyr::budget::BudgetBreach as Breach;
    match error.without_snippet() {
        Fault::AliasError { error, .. } => return words(error),
        Fault::AliasReplayLimitExceeded { .. }
        | Fault::AliasReplayCounterOverflow { .. }
        | Fault::AliasExpansionLimitExceeded { .. }
        | Fault::Budget {
            breach:
                Breach::MergeKeys { .. }
                | Breach::Aliases { .. }
                | Breach::AliasAnchorRatio { .. }
                | Breach::RecordedAnchorEvents { .. }
                | Breach::RecordedAnchorBytes { .. },
            ..
        } => return "yaml: document contains excessive aliasing".to_owned(),
        _ => {}
    }
    let text = error.to_string();
    let line = text.split("line ").nth(1).and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    let why = if text.contains("tab") {
        "found character that cannot start any token"
    } else {
        text.lines().next().unwrap_or_default().rsplit(": ").next().unwrap_or_default()
    };
    match line {
        Some(line) => format!("yaml: line {line}: {why}"),
        None => format!("yaml: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, value: &Value, repeated: Option<&str>) {
        let read = parse(text.as_bytes()).expect("a YAML text");
        assert_eq!(&read.json.into_value(), value);
        assert_eq!(read.repeated.as_deref(), repeated);
    }

    /// As a stock server answers to the same texts.
    #[test]
    fn of_a_repeated_key_the_last_counts_and_its_line_is_told() {
        check("a: 1\nb: 2\n", &serde_json::json!({"a": 1, "b": 2}), None);
        check(
            "\nspec:\n  foo: foo1\n  foo: foo2\n",
            &serde_json::json!({"spec": {"foo": "foo2"}}),
            Some("yaml: unmarshal errors:\n  line 4: key \"foo\" already set in map"),
        );
        check(
            "a:\n- b: {c: 1, c: 2}\n  b: 3\na: [x]\n",
            &serde_json::json!({"a": ["x"]}),
            Some(
                "yaml: unmarshal errors:\n  line 2: key \"c\" already set in map\n  line 3: key \"b\" already set in \
                 map\n  line 4: key \"a\" already set in map",
            ),
        );
    }

    #[test]
    fn warnings_have_one_line_each() {
        let read = parse(b"a: 1\na: 2\nb: 1\nb: 2\n").expect("a YAML text");
        let told = warnings(&read.repeated.expect("keys are there twice"));
        assert_eq!(told, ["line 2: key \"a\" already set in map", "line 4: key \"b\" already set in map"]);
        assert_eq!(warnings("unknown field \"x\""), ["unknown field \"x\""]);
    }
}
