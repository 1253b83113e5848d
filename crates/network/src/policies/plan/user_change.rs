//! What users did to a policy here, told from the ledger and the object.

use super::{Case, Ground, Object, UserChange, Why};
use crate::policies::content::Sighting;
use crate::policies::ledger::{Entry, State};
use crate::policies::version::{Hash, Version};

/// How a policy stands in the member that is led.
pub(super) enum Standing<'a> {
    /// More has to be known first.
    Unclear(Why),
    /// It is gone, which says nothing about the policy: with the ground that it stood on, or because it was outdated.
    Lost(Why),
    /// A user did this; the entry would say so.
    Decided(UserChange, Entry),
    /// It is here, as a version says.
    Here(Here<'a>),
    /// Nothing of the federation is here; maybe a policy of somebody's own.
    Nothing { foreign: Option<&'a Sighting> },
}

/// A policy that is here.
pub(super) struct Here<'a> {
    pub(super) version: Version,
    pub(super) sighting: &'a Sighting,
    /// What to write down if nothing else is to be done.
    pub(super) unnoted: Option<Entry>,
}

pub(super) fn standing<'a>(case: &Case<'a>) -> Standing<'a> {
    let sighting = match case.object {
        Object::Unknown => return Standing::Unclear(Why::Unseen),
        Object::Absent => return absent(case),
        Object::Here(sighting) if sighting.going => return Standing::Unclear(Why::Going),
        Object::Here(sighting) => sighting,
    };
    if !sighting.is_federated() {
        return plain(case, sighting);
    }
    match case.mine.map(|entry| (entry, &entry.state)) {
        None | Some((_, State::Removed | State::Settled)) => newcomer(case, sighting),
        Some((entry, State::Applied { .. } | State::Kept { .. })) => {
            if entry.untouched() == Some(sighting.hash) {
                Standing::Here(Here { version: entry.version.clone(), sighting, unnoted: None })
            } else {
                touched(case, sighting)
            }
        }
        Some((entry, State::Removing { uid, local })) => {
            if *uid == sighting.uid && *local == sighting.hash {
                Standing::Here(Here { version: entry.version.clone(), sighting, unnoted: None })
            } else {
                decided(case, UserChange::Created, Some(sighting.hash))
            }
        }
    }
}

fn absent<'a>(case: &Case<'a>) -> Standing<'a> {
    let Some(entry) = case.mine else { return Standing::Nothing { foreign: None } };
    let State::Applied { place, .. } = &entry.state else { return Standing::Nothing { foreign: None } };
    match case.ground {
        Ground::Unknown => Standing::Unclear(Why::Unseen),
        Ground::Missing => Standing::Lost(Why::GroundGone),
        Ground::Here(now) if now != *place => Standing::Lost(Why::GroundGone),
        Ground::Here(_) => removed(case, entry, UserChange::Removed, None),
    }
}

/// A user removed what the entry says, or made it a plain policy. That is said of what was here and of nothing that
/// came after it: whether an edit elsewhere was known here must not depend on when a leader comes to look.
fn removed<'a>(
    case: &Case<'a>,
    entry: &Entry,
    change: UserChange,
    foreign: Option<&'a Sighting>,
) -> Standing<'a> {
    match case.winner().filter(|winner| winner.rev > entry.version.rev) {
        Some(winner) if winner.is_live() => Standing::Lost(Why::Outdated),
        Some(_) => Standing::Nothing { foreign },
        None => decided(case, change, None),
    }
}

fn plain<'a>(case: &Case<'a>, sighting: &'a Sighting) -> Standing<'a> {
    match case.mine {
        Some(entry) if matches!(entry.state, State::Applied { .. }) => {
            removed(case, entry, UserChange::Left, Some(sighting))
        }
        _ => Standing::Nothing { foreign: Some(sighting) },
    }
}

/// Federated, and not in the ledger.
fn newcomer<'a>(case: &Case<'a>, sighting: &'a Sighting) -> Standing<'a> {
    match case.claim(sighting) {
        Some(claimed) => copied(case, claimed, sighting, UserChange::Created),
        None => same_as_winner(case, sighting)
            .unwrap_or_else(|| decided(case, UserChange::Created, Some(sighting.hash))),
    }
}

/// Federated, and not as the ledger says.
fn touched<'a>(case: &Case<'a>, sighting: &'a Sighting) -> Standing<'a> {
    match case.claim(sighting) {
        Some(claimed) => copied(case, claimed, sighting, UserChange::Edited),
        None => same_as_winner(case, sighting)
            .unwrap_or_else(|| decided(case, UserChange::Edited, Some(sighting.hash))),
    }
}

/// It says that it is an untouched copy of this revision: made by a leader that did not come to write it down, or by a user,
/// who can write anything. A ledger tells which: the leader had the revision from one.
fn copied<'a>(
    case: &Case<'a>,
    claimed: &Version,
    sighting: &'a Sighting,
    change: UserChange,
) -> Standing<'a> {
    if case.has_proof(claimed) {
        return adopted(case, claimed.clone(), sighting);
    }
    // Whatever it is, something greater goes over it.
    if case.winner().is_some_and(|winner| winner > claimed) {
        return Standing::Here(Here { version: claimed.clone(), sighting, unnoted: None });
    }
    if let Some(same) = same_as_winner(case, sighting) {
        return same;
    }
    // Whoever is not known right now may have it: until then it stands, and goes nowhere.
    if !case.knows_all() {
        return Standing::Unclear(Why::Unproved);
    }
    // It was made here, by whoever made it. That is never more than it claims to be, so that where the claim was true and
    // all have lost it nothing greater is pushed aside.
    decided(case, change, Some(sighting.hash))
}

/// Somebody applied by hand what everybody has.
fn same_as_winner<'a>(case: &Case<'a>, sighting: &'a Sighting) -> Option<Standing<'a>> {
    let winner = case.winner().filter(|winner| winner.content == Some(sighting.hash))?;
    Some(adopted(case, winner.clone(), sighting))
}

fn adopted<'a>(case: &Case<'a>, version: Version, sighting: &'a Sighting) -> Standing<'a> {
    let Ground::Here(place) = case.ground else { return Standing::Unclear(Why::Unseen) };
    let unnoted = Entry { version: version.clone(), state: State::Applied { local: None, place } };
    Standing::Here(Here { version, sighting, unnoted: Some(unnoted) })
}

fn decided<'a>(case: &Case<'a>, change: UserChange, content: Option<Hash>) -> Standing<'a> {
    let Some(version) = case.next(content) else { return Standing::Unclear(Why::Exhausted) };
    let state = match (content, case.ground) {
        (None, _) => State::Removed,
        (Some(_), Ground::Here(place)) => State::Applied { local: None, place },
        // A policy in a namespace that is not there is only seen so for a moment.
        (Some(_), Ground::Missing | Ground::Unknown) => return Standing::Unclear(Why::Unseen),
    };
    Standing::Decided(change, Entry { version, state })
}
