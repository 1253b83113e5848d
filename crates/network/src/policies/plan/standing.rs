//! What users did to a policy here, told from the ledger and the object.

use super::{Case, Deed, Ground, Object, Why};
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
    Judged(Deed, Entry),
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
                touched(case, entry, sighting)
            }
        }
        Some((entry, State::Removing { uid, local })) => {
            if *uid == sighting.uid && *local == sighting.hash {
                Standing::Here(Here { version: entry.version.clone(), sighting, unnoted: None })
            } else {
                judged(case, Deed::Created, Some(sighting.hash))
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
        Ground::Here(_) => removed(case, entry, Deed::Removed, None),
    }
}

/// A user removed what the entry says, or made it a plain policy. That is said of what was here and of nothing that
/// came after it: whether an edit elsewhere was known here must not depend on when a leader comes to look.
fn removed<'a>(case: &Case<'a>, entry: &Entry, deed: Deed, foreign: Option<&'a Sighting>) -> Standing<'a> {
    match case.winner().filter(|winner| winner.rev > entry.version.rev) {
        Some(winner) if winner.is_live() => Standing::Lost(Why::Outdated),
        Some(_) => Standing::Nothing { foreign },
        None => judged(case, deed, None),
    }
}

fn plain<'a>(case: &Case<'a>, sighting: &'a Sighting) -> Standing<'a> {
    match case.mine {
        Some(entry) if matches!(entry.state, State::Applied { .. }) => {
            removed(case, entry, Deed::Left, Some(sighting))
        }
        _ => Standing::Nothing { foreign: Some(sighting) },
    }
}

/// Federated, and not in the ledger.
fn newcomer<'a>(case: &Case<'a>, sighting: &'a Sighting) -> Standing<'a> {
    // Made by a leader that did not come to write it down. What was forgotten here cannot be meant.
    if case.mine.is_none()
        && let Some(copied) = sighting.copy_of().filter(|copied| copied.rev > case.floor)
    {
        return adopted(case, copied.clone(), sighting);
    }
    same_as_winner(case, sighting).unwrap_or_else(|| judged(case, Deed::Created, Some(sighting.hash)))
}

/// Federated, and not as the ledger says.
fn touched<'a>(case: &Case<'a>, entry: &Entry, sighting: &'a Sighting) -> Standing<'a> {
    if let Some(copied) = sighting.copy_of().filter(|copied| **copied > entry.version) {
        return adopted(case, copied.clone(), sighting);
    }
    same_as_winner(case, sighting).unwrap_or_else(|| judged(case, Deed::Edited, Some(sighting.hash)))
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

fn judged<'a>(case: &Case<'a>, deed: Deed, content: Option<Hash>) -> Standing<'a> {
    let Some(version) = case.next(content) else { return Standing::Unclear(Why::Exhausted) };
    let state = match (content, case.ground) {
        (None, _) => State::Removed,
        (Some(_), Ground::Here(place)) => State::Applied { local: None, place },
        // A policy in a namespace that is not there is only seen so for a moment.
        (Some(_), Ground::Missing | Ground::Unknown) => return Standing::Unclear(Why::Unseen),
    };
    Standing::Judged(deed, Entry { version, state })
}
