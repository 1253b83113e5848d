//! Differences that stay, each with its reason in `docs/differences.md`.

use crate::sequence::{Observed, Step};

/// One difference, and how to tell it.
pub struct Known {
    /// Its id, the same as in the document.
    pub id: &'static str,
    /// Whether a pair of answers differs for this reason; stock first.
    pub matches: fn(&Step, &Observed, &Observed) -> bool,
}

/// All of them.
pub const KNOWN: &[Known] = &[];

/// The known reason for a difference, if there is one.
pub fn reason(step: &Step, stock: &Observed, subject: &Observed) -> Option<&'static str> {
    KNOWN.iter().find(|known| (known.matches)(step, stock, subject)).map(|known| known.id)
}
