//! What a member brings along that was away, or whose ledger is new.
//!
//! What happened there while it was no member is nobody's removal and nobody's edit: what is not there comes again, what
//! was changed is overruled by what the others have. Only what its users made anew is its own to bring along. Others
//! may have forgotten meanwhile what was removed: a copy that they know to be removed is not spread again but dropped,
//! and what its ledger says of removals does not count any more.

use super::{Act, Case, Knows, Object, Why};
use crate::policies::content::Sighting;
use crate::policies::ledger::{Entry, Place, State};
use crate::policies::version::Version;

/// Decides about one policy of a member that is about to count again.
pub fn rejoin(case: &Case<'_>) -> Act {
    let case = &*case.plausible();
    let sighting = match case.object {
        Object::Unknown => return Act::Rest(Why::Unseen),
        Object::Here(sighting) if sighting.going => return Act::Rest(Why::Going),
        Object::Here(sighting) if sighting.is_federated() => sighting,
        Object::Here(_) | Object::Absent => {
            return if case.mine.is_some() { Act::Forget(Why::Done) } else { Act::Rest(Why::Nowhere) };
        }
    };
    let mine = match case.mine {
        // It was about to go, or was kept, and the others still say so: that goes on.
        Some(entry) if is_going_on(case, entry, sighting) => return Act::Rest(Why::InStep),
        Some(entry) if !matches!(entry.state, State::Applied { .. }) => return Act::Forget(Why::Done),
        other => other,
    };
    let noted = mine.filter(|entry| entry.untouched() == Some(sighting.hash)).map(|entry| &entry.version);
    match sighting.copy_of().or(noted) {
        Some(version) if version.origin != *case.me => copy(case, sighting, version),
        Some(_) => Act::Rest(Why::InStep),
        // A stamp that says something else: a copy that was changed.
        None if sighting.stamp.is_some() => changed(case, sighting),
        None => Act::Rest(Why::InStep),
    }
}

/// Whether the ledger's word on a removal is about this very object, and is not only this ledger's.
fn is_going_on(case: &Case<'_>, entry: &Entry, sighting: &Sighting) -> bool {
    let is_of_it = match &entry.state {
        State::Removing { uid, local } => *uid == sighting.uid && *local == sighting.hash,
        State::Kept { local } => *local == sighting.hash,
        State::Applied { .. } | State::Removed | State::Settled => false,
    };
    is_of_it && case.has_proof(&entry.version)
}

/// An untouched copy of what was made elsewhere.
fn copy(case: &Case<'_>, sighting: &Sighting, version: &Version) -> Act {
    if case.others.iter().any(|other| other.ledger.entry().is_some()) {
        return Act::Rest(Why::InStep);
    }
    if case.others.iter().any(|other| other.ledger == Knows::Unknown) {
        return Act::Rest(Why::OthersUnknown);
    }
    // Nobody has it. That it was removed is known only to those who forgot a removal.
    if case.others.iter().all(|other| other.floor < version.rev) {
        return Act::Rest(Why::InStep);
    }
    let (uid, resource_version) = (sighting.uid.clone(), sighting.resource_version.clone());
    Act::Discard { uid, resource_version }
}

/// A copy that was changed while its cluster was no member: what the others have goes over it.
fn changed(case: &Case<'_>, sighting: &Sighting) -> Act {
    let lives = |entry: &Entry| entry.version.is_live();
    if !case.others.iter().filter_map(|other| other.ledger.entry()).any(lives) {
        let unknown = case.others.iter().any(|other| other.ledger == Knows::Unknown);
        // Where nobody has it any more it is a policy of its users.
        return Act::Rest(if unknown { Why::OthersUnknown } else { Why::InStep });
    }
    let version = Version::overruled(case.me, sighting.hash);
    if case.mine.is_some_and(|mine| mine.version == version) {
        return Act::Rest(Why::InStep);
    }
    // On no ground: should it go before that happens, no user removed it from the federation.
    Act::Note(Entry { version, state: State::Applied { local: None, place: Place::default() } })
}
