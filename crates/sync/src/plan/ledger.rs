//! What a copy says of itself: whose copy it is, and which of its labels and annotations came with that.
//!
//! Server-side apply would remember the keys in `managedFields`. The ledger does it in one small annotation,
//! because a copy has to be created only where nobody has its name, its spec has to be replaced whole (also what
//! others put into it), and the original's UID has to be remembered beside it in any case.

use serde::{Deserialize, Serialize};

use super::object::Object;
use crate::names;

/// The content of the annotation [`names::LEDGER`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Of the original.
    pub uid: String,
    /// Keys, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub annotations: Vec<String>,
}

impl Ledger {
    /// What a copy says. One that cannot be read counts as none: then nothing is known to be ours.
    pub fn of(copy: &Object) -> Option<Ledger> {
        serde_json::from_str(copy.annotations.get(names::LEDGER)?).ok()
    }

    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("strings are JSON")
    }
}
