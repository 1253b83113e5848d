//! From how a policy stands here towards the greatest revision of all.

use super::user_change::Here;
use super::{Act, Case, Ground, Over, Trust, Why, Write, gone};
use crate::policies::content::Sighting;
use crate::policies::ledger::{Entry, Refusal, State};
use crate::policies::names::BUILT_IN_TIERS;
use crate::policies::version::Version;

/// The policy is here.
pub(super) fn from_here(case: &Case<'_>, here: &Here<'_>) -> Act {
    let in_step = || match &here.unnoted {
        Some(entry) => Act::Note(entry.clone()),
        // A refusal of what nobody wants any more is struck out.
        None => match (case.mine, case.refused) {
            (Some(mine), Some(_)) => Act::Note(mine.clone()),
            _ => Act::Rest(Why::InStep),
        },
    };
    let Some(winner) = case.winner() else { return in_step() };
    if let Some(Entry { version, state: State::Removing { .. } }) = case.mine
        && version == winner
    {
        return erase(winner, here.sighting);
    }
    if *winner <= here.version {
        return in_step();
    }
    let trust = case.trusts(winner);
    if trust != Trust::Taken {
        return match (&here.unnoted, trust) {
            (Some(entry), _) => Act::Note(entry.clone()),
            // What stands stays, and nothing is said of what may yet be proved.
            (None, Trust::Unproved) => Act::Rest(Why::Unproved),
            (None, _) if winner.is_live() => Act::Rest(Why::Declined),
            (None, _) => {
                Act::Note(Entry { version: winner.clone(), state: State::Kept { local: here.sighting.hash } })
            }
        };
    }
    if winner.content == Some(here.sighting.hash)
        && let Ground::Here(place) = case.ground
    {
        // Two users said the same: nothing is written but who came first.
        return Act::Note(Entry { version: winner.clone(), state: State::Applied { local: None, place } });
    }
    if winner.is_live() {
        let over =
            Over { uid: here.sighting.uid.clone(), resource_version: here.sighting.resource_version.clone() };
        write(case, winner, Some(over))
    } else {
        erase(winner, here.sighting)
    }
}

/// Nothing of the federation is here.
pub(super) fn from_nothing(case: &Case<'_>, foreign: Option<&Sighting>) -> Act {
    let Some(winner) = case.winner() else { return Act::Rest(Why::Nowhere) };
    if !winner.is_live() {
        return gone::acknowledge(case, winner);
    }
    // A removal that lost to what lives, where nothing comes over it, would be remembered for ever.
    let rest = |why| match case.mine {
        Some(mine) if !mine.version.is_live() => Act::Forget(Why::Done),
        _ => Act::Rest(why),
    };
    match case.trusts(winner) {
        Trust::Taken => {}
        Trust::Declined => return rest(Why::Declined),
        Trust::Unproved => return Act::Rest(Why::Unproved),
    }
    match case.ground {
        Ground::Unknown => Act::Rest(Why::Unseen),
        Ground::Missing => rest(Why::NoNamespace),
        Ground::Here(_) if foreign.is_some() => rest(Why::Foreign),
        Ground::Here(_) => write(case, winner, None),
    }
}

fn write(case: &Case<'_>, version: &Version, over: Option<Over>) -> Act {
    let Ground::Here(place) = case.ground else { return Act::Rest(Why::Unseen) };
    let holders = case.others.iter().filter_map(|other| {
        let object = other.object.filter(|object| Some(object.hash) == version.content)?;
        (object.is_federated() && !object.going).then_some((other.member, object))
    });
    let (from, seen): (Vec<_>, Vec<_>) = holders.unzip();
    let Some(content) = seen.first() else { return Act::Rest(Why::NoSource) };
    if let Some(tier) = missing_tier(case, content) {
        let why = format!("Tier {tier} does not exist in cluster {}: create it there", case.me);
        let refusal = Refusal::of(version, &why);
        let is_known = case.refused == Some(&refusal);
        return if is_known { Act::Rest(Why::Refused) } else { Act::Refuse(refusal) };
    }
    let from = from.into_iter().cloned().collect();
    Act::Write(Write { version: version.clone(), from, over, place })
}

fn missing_tier<'a>(case: &Case<'_>, content: &'a Sighting) -> Option<&'a str> {
    let tier = content.tier.as_deref()?;
    let tiers = case.tiers?;
    (!BUILT_IN_TIERS.contains(&tier) && !tiers.contains(tier)).then_some(tier)
}

fn erase(removed: &Version, sighting: &Sighting) -> Act {
    let state = State::Removing { uid: sighting.uid.clone(), local: sighting.hash };
    let entry = Entry { version: removed.clone(), state };
    let (uid, resource_version) = (sighting.uid.clone(), sighting.resource_version.clone());
    Act::Erase { entry, uid, resource_version }
}
