//! Which objects a request means: label selectors, field selectors, and the fields each kind offers.

mod field;
mod known;
mod label;
mod pick;
#[cfg(test)]
mod tests;

use crate::status;

pub use field::{FieldRequirement, FieldSelector};
pub use known::{CustomFields, field_label, field_paths, field_values};
pub use label::{LabelSelector, Operator, Requirement};
pub use pick::pick;

/// Why a selector was not understood, in the words of the real server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// A selector in a query is answered with its error alone.
impl From<Error> for status::Error {
    fn from(error: Error) -> Self {
        status::Error::bad_request(error.0)
    }
}
