//! The JSONPath that CRDs speak: printer columns, selectable fields and scale paths.
//!
//! It is the dialect of Kubernetes, quirks included: `['a.b']` means `.a.b` (escape the dot as `a\.b`),
//! an index out of bounds or a comparison of different types finds nothing at all, and a path that
//! names a missing key finds nothing rather than failing.

mod eval;
mod parse;
mod print;
#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;

pub(crate) use eval::whole;
pub use print::print;

/// A parsed path, such as `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Debug, Clone, PartialEq)]
pub struct Path {
    source: String,
    steps: Vec<Step>,
}

/// Why a text is no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// One step from a set of values to the next.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Wildcard,
    Recursive,
    Slice(Slice),
    Filter(Filter),
    /// Each alternative is walked from the same values.
    Union(Vec<Vec<Step>>),
    /// A quoted string, a number or a boolean, wherever the walk has come to.
    Literal(Value),
    /// A bare word. It parses, but no value ever passes it.
    Identifier,
}

/// `[start:end:step]`; a plain index is a slice of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    /// The end was not written: it is the item after `start`.
    single: bool,
    step: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
struct Filter {
    left: Vec<Step>,
    test: Test,
    right: Vec<Step>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Test {
    Exists,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    /// Something like `=!=`: it parses, and fails on the first item.
    Unknown,
}

impl Path {
    /// Parses a path without the braces that kubectl puts around it.
    pub fn parse(text: &str) -> Result<Path, Error> {
        let steps = parse::parse(text)?;
        Ok(Path { source: text.to_owned(), steps })
    }

    /// Everything the path leads to; nothing where a step cannot be taken.
    pub fn find<'a>(&'a self, value: &'a Value) -> Vec<&'a Value> {
        eval::walk(&self.steps, vec![value]).unwrap_or_default()
    }

    /// The first value found: what a printer column and a selectable field use.
    pub fn first<'a>(&'a self, value: &'a Value) -> Option<&'a Value> {
        self.find(value).into_iter().next()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

/// The value at a plain dotted path such as `.spec.replicas`, as the scale subresource reads it.
pub fn get<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    keys(path).try_fold(object, |at, key| at.as_object()?.get(key))
}

/// Sets the value at a plain dotted path, making the objects on the way.
pub fn set(object: &mut Value, path: &str, value: Value) -> Result<(), Error> {
    let mut at = object;
    let mut walked = String::new();
    for key in keys(path) {
        let Value::Object(map) = at else {
            let message = format!("value cannot be set because {walked} is not a map[string]interface {{}}");
            return Err(Error(message));
        };
        walked.push('.');
        walked.push_str(key);
        at = map.entry(key).or_insert_with(|| Value::Object(serde_json::Map::new()));
    }
    *at = value;
    Ok(())
}

fn keys(path: &str) -> impl Iterator<Item = &str> {
    path.strip_prefix('.').unwrap_or(path).split('.')
}
