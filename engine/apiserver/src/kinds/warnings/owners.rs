//! Owners that are named more than once.

use std::collections::HashSet;

use serde_json::Value;

use super::super::walk::{find_path_mut, text, without_nothing};

/// When the owners were looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// As the client sent them.
    InRequest,
    /// After others had a say.
    AfterMutation,
}

/// Drops owner references that are there already, and tells which.
pub fn deduplicate_owners(object: &mut Value, seen: Seen) -> Option<String> {
    let owners = find_path_mut(object, &["metadata", "ownerReferences"])?.as_array_mut()?;
    let mut kept: Vec<Value> = Vec::with_capacity(owners.len());
    // Looked up, not compared one by one: a request may name tens of thousands.
    let mut known = HashSet::with_capacity(owners.len());
    let mut dropped = Vec::new();
    for owner in owners.drain(..) {
        if known.insert(without_nothing(&owner)) {
            kept.push(owner);
        } else {
            dropped.push(text(&owner, "uid").to_owned());
        }
    }
    *owners = kept;
    let when = match seen {
        Seen::InRequest => "",
        Seen::AfterMutation => " after mutating admission happens",
    };
    (!dropped.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            dropped.join(", ")
        )
    })
}
