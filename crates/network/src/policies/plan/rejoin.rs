//! What a member brings along that was away, or whose ledger is new.
//!
//! While it was away, others may have forgotten what was removed. So a copy that nobody else has, and that no user
//! made here, is not spread again but dropped; and what its ledger says of removals does not count any more.

use super::{Act, Case, Knows, Object, Why};
use crate::policies::ledger::State;

/// Decides about one policy of a member that is about to count again.
pub fn rejoin(case: &Case<'_>) -> Act {
    let sighting = match case.object {
        Object::Unknown => return Act::Rest(Why::Unseen),
        Object::Here(sighting) if sighting.going => return Act::Rest(Why::Going),
        Object::Here(sighting) if sighting.is_federated() => sighting,
        Object::Here(_) | Object::Absent => {
            return if case.mine.is_some() { Act::Forget(Why::Done) } else { Act::Rest(Why::Nowhere) };
        }
    };
    let mine = match case.mine {
        Some(entry) if !matches!(entry.state, State::Applied { .. }) => return Act::Forget(Why::Done),
        other => other,
    };
    let noted = mine.filter(|entry| entry.untouched() == Some(sighting.hash)).map(|entry| &entry.version);
    let made_elsewhere = sighting.copy_of().or(noted).is_some_and(|version| version.origin != *case.me);
    if !made_elsewhere || case.others.iter().any(|other| other.ledger.entry().is_some()) {
        return Act::Rest(Why::InStep);
    }
    if case.others.iter().any(|other| other.ledger == Knows::Unknown) {
        return Act::Rest(Why::OthersUnknown);
    }
    let (uid, resource_version) = (sighting.uid.clone(), sighting.resource_version.clone());
    Act::Discard { uid, resource_version }
}
