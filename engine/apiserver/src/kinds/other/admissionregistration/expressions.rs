//! Expressions in CEL: those that do not compile are refused before they are stored.

use crate::cel::request::{Expression, Known, Wanted};
use crate::field::{Error, Path};
use crate::kinds::other::look::Faults;

/// Compiles an expression at a place; one that cannot be is a fault.
pub(super) fn compile(
    source: &str,
    known: &Known,
    wanted: Wanted,
    path: &Path,
    faults: &mut Faults,
) -> Option<Expression> {
    match known.compile(source, wanted) {
        Ok(expression) => Some(expression),
        Err(wrong) => {
            faults.push(match wrong.internal {
                true => Error::internal(path, wrong.why),
                false => Error::invalid(path, source, wrong.why),
            });
            None
        }
    }
}
