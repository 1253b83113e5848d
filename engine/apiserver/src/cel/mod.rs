//! Rules written in CEL: of CRDs (`x-kubernetes-validations`), and of admission policies.
//!
//! ```text
//! source ─► lexer ─► parser (macros) ─► checker ─► program   once for each version of a CRD
//!                                          │          │
//! object + schema ─► value ────────────────│──► eval (library) ─► field errors   for each write
//!                                          ▼          │
//! request, objects ─► value ───────────► request ─────┴─► answers   for each write that a policy matches
//! ```
//!
//! The language is our own: what an expression may do, which types fit and how failures read must be as
//! on the real server, down to how lists that are sets or maps compare.

mod ast;
mod check;
mod checker;
mod cost;
mod declarations;
mod escape;
mod estimate;
mod eval;
mod field_path;
#[cfg(test)]
mod fuzz;
mod issue;
mod lexer;
mod library;
pub(crate) mod limits;
mod macros;
mod message;
mod meter;
mod parser;
mod program;
pub(crate) mod request;
mod room;
mod schema;
mod time;
mod types;
mod validate;
mod value;

pub use check::{Judged, check};
pub(crate) use escape::is_reserved;
pub use library::rights;
pub use validate::{Findings, Validator};

use serde_json::Value;

/// The name of the type of `self`; the real server appends a number that changes each time.
const SELF: &str = "selfType";

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn rules(schema: &Value) -> &[Value] {
    schema.get("x-kubernetes-validations").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests;
