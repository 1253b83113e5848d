//! Whose turn it is.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use koinon_api::rollout::MaxConcurrent;

use super::input::{Amount, Counting, Desired, Member, Record, Shadow, Started, Strategy, View};
use super::member_state::{self, Behind, MemberState, Unfinished};
use super::output::{Phase, Step, Template, WaitingOn};
use crate::planner::Share;

/// Who starts, and why nobody else does.
#[derive(Debug)]
pub(super) struct Turns<'a> {
    pub(super) started: BTreeSet<&'a str>,
    pub(super) waiting: Vec<WaitingOn>,
    /// What a new cluster starts with, as long as others still run it.
    newcomers: Option<Template>,
}

type Standings<'a> = BTreeMap<&'a str, MemberState>;

pub(super) fn decide<'a>(desired: &Desired, view: &View, states: &Standings<'a>) -> Turns<'a> {
    let started = starting(desired, view, states);
    let newcomers = for_newcomers(desired, view, states, &started);
    Turns { waiting: waiting(desired, states), started, newcomers }
}

fn starting<'a>(desired: &Desired, view: &View, states: &Standings<'a>) -> BTreeSet<&'a str> {
    if desired.paused {
        return BTreeSet::new();
    }
    let mut behind: Vec<(&'a str, Behind)> = states
        .iter()
        .filter_map(|(name, state)| match state {
            MemberState::Behind(how) if *how != Behind::Halfway => Some((*name, *how)),
            _ => None,
        })
        .collect();
    let concurrent = match desired.strategy {
        Strategy::Recreate => MaxConcurrent::All,
        Strategy::RollingUpdate { .. } => desired.concurrent,
    };
    if concurrent == MaxConcurrent::All {
        return behind.into_iter().map(|(name, _)| name).collect();
    }
    if states.values().any(|state| matches!(state, MemberState::Stalled(_))) {
        return BTreeSet::new();
    }
    desired.order.sort_by_name(&mut behind, |(name, _)| name);
    if is_used_up(desired, view) {
        behind.sort_by_key(|(name, _)| short(&view.members[*name]) == 0);
    }
    // What nobody here wrote is the least known: it is replaced first. The sort keeps the order otherwise.
    behind.sort_by_key(|(_, how)| *how != Behind::Drifted);
    let busy = states.values().filter(|state| state.is_busy()).count();
    let mut started = BTreeSet::new();
    for (name, _) in behind {
        if !concurrent.allows(busy + started.len()) {
            break;
        }
        started.insert(name);
    }
    started
}

/// Whether so much is missing already that no pod that runs may go, and none may come first. Then only clusters that are short
/// themselves can be updated, as in one cluster pods that do not run are replaced first; the others would wait for them for ever.
fn is_used_up(desired: &Desired, view: &View) -> bool {
    let Strategy::RollingUpdate { max_unavailable, max_surge } = desired.strategy else { return false };
    let missing: i64 = view.members.values().map(short).sum();
    let surges = !matches!(max_surge, Amount::Count(..=0) | Amount::Percent(..=0));
    !surges && missing >= max_unavailable.of(desired.replicas).max(1)
}

/// What of its share is not available in a cluster.
fn short(member: &Member) -> i64 {
    let available = member.local.as_ref().map_or(0, |local| local.available);
    member.share.as_ref().map_or(0, |share| (share.replicas - available).max(0))
}

/// What a cluster without a Deployment starts with; none if it has to wait.
///
/// In the middle of an update that is what the clusters still run whose turn has not come, or a broken update would
/// spread to every cluster that joins or gains replicas. A template that nobody ever ran does not start while it is
/// paused, as in one cluster: the newest one that did takes its place, if there is any.
fn for_newcomers(
    desired: &Desired,
    view: &View,
    states: &Standings<'_>,
    started: &BTreeSet<&str>,
) -> Option<Template> {
    if desired.strategy == Strategy::Recreate && !desired.paused {
        return Some(Template::Wanted);
    }
    let waits = |name: &str| {
        matches!(states[name], MemberState::Behind(_))
            && (desired.paused
                || (!started.contains(name) && states[name] != MemberState::Behind(Behind::Halfway)))
    };
    let in_use: BTreeSet<&str> = view
        .members
        .iter()
        .filter(|(name, _)| waits(name))
        .filter_map(|(_, member)| member.local.as_ref()?.template.as_deref())
        .collect();
    let newest = |which: &dyn Fn(&&Shadow) -> bool| {
        view.shadows.iter().filter(which).max_by_key(|shadow| shadow.revision)
    };
    let revision = |shadow: &Shadow| Template::Revision(shadow.template.clone());
    let ran = view.shadows.iter().any(|shadow| shadow.template == desired.template);
    match newest(&|shadow| in_use.contains(shadow.template.as_str())) {
        Some(shadow) => Some(revision(shadow)),
        None if desired.paused && !ran => newest(&|_| true).map(revision),
        None => Some(Template::Wanted),
    }
}

fn waiting(desired: &Desired, states: &Standings<'_>) -> Vec<WaitingOn> {
    let mut waiting: Vec<WaitingOn> = states
        .iter()
        .filter_map(|(name, state)| {
            let cluster = (*name).to_owned();
            match state {
                MemberState::Updating(lacks) | MemberState::Settling(lacks) => {
                    Some(WaitingOn::Cluster { cluster, lacks: lacks.clone() })
                }
                MemberState::Behind(Behind::Halfway) if !desired.paused => {
                    Some(WaitingOn::Cluster { cluster, lacks: Unfinished::NotWritten })
                }
                MemberState::Stalled(message) => {
                    Some(WaitingOn::Stalled { cluster, message: message.clone() })
                }
                MemberState::Unsure => Some(WaitingOn::Unsure { cluster }),
                MemberState::Offline => Some(WaitingOn::Offline { cluster }),
                _ => None,
            }
        })
        .collect();
    if desired.paused && states.values().any(|state| matches!(state, MemberState::Behind(_))) {
        waiting.push(WaitingOn::Resume);
    }
    waiting
}

/// Who was started and is not finished. What was available before the first disturbance stays the measure, also when
/// one update follows into another.
pub(super) fn record(
    now: Timestamp,
    desired: &Desired,
    view: &View,
    states: &Standings<'_>,
    turns: &Turns<'_>,
) -> Record {
    let entry = |name: &str, member: &Member| {
        let before = view.record.clusters.get(name).cloned();
        let stuck = || {
            let local = member.local.as_ref().filter(|local| local.stuck() > 0)?;
            Some((local.replicas.max(local.spec_replicas) - local.stuck()).max(0))
        };
        let room = member.share.as_ref().and_then(member_state::room).or_else(stuck);
        let begun = |from: Option<String>| {
            let available = member.local.as_ref()?.available;
            Some(Started { since: now, available, from, to: desired.template.clone(), room })
        };
        // What the pods before those were is anybody's guess.
        let found = || begun(None);
        let redirected = |started: Started| {
            let room = started.room.into_iter().chain(room).min();
            let since = if started.to == desired.template { started.since } else { now };
            Started { since, to: desired.template.clone(), room, ..started }
        };
        match &states[name] {
            MemberState::Behind(Behind::Halfway) if desired.paused => before.or_else(found),
            MemberState::Behind(Behind::Halfway) => before.map(redirected).or_else(found),
            MemberState::Behind(_) if turns.started.contains(name) => {
                begun(member.local.as_ref().and_then(|local| local.template.clone()))
            }
            MemberState::Updating(_) | MemberState::Stalled(_) => before.map(redirected),
            MemberState::Unsure | MemberState::Offline => before,
            _ => None,
        }
    };
    let clusters =
        view.members.iter().filter_map(|(name, member)| Some((name.clone(), entry(name, member)?))).collect();
    Record { clusters }
}

pub(super) fn steps(
    desired: &Desired,
    view: &View,
    states: &Standings<'_>,
    turns: &Turns<'_>,
) -> BTreeMap<String, Step> {
    view.members
        .iter()
        .filter_map(|(name, member)| {
            let starts = turns.started.contains(name.as_str());
            let mut step = step(desired, member, &states[name.as_str()], turns, starts)?;
            let remembered = view.record.clusters.get(name).and_then(|started| started.room);
            // What rests has nothing to replace, and has the user's own words.
            let replaced = matches!(step.phase, Phase::Updating(_) | Phase::Stalled(_));
            if replaced && is_full(member, remembered) {
                step.max_unavailable =
                    member.share.as_ref().and_then(|share| max_unavailable(desired, share));
            }
            Some((name.clone(), step))
        })
        .collect()
}

fn step(
    desired: &Desired,
    member: &Member,
    state: &MemberState,
    turns: &Turns<'_>,
    starts: bool,
) -> Option<Step> {
    let behind = |template: Template| match template {
        Template::Wanted => (Template::Wanted, Phase::Updating(Unfinished::NotWritten)),
        other => (other, if desired.paused { Phase::Held } else { Phase::Waiting }),
    };
    let (template, phase) = match state {
        MemberState::Nothing | MemberState::Unsure | MemberState::Offline => return None,
        MemberState::Newcomer => (turns.newcomers.clone()?, Phase::Creating),
        // Whoever takes nothing is still asked again.
        MemberState::Refusing(message) => (turns.newcomers.clone()?, Phase::Refusing(message.clone())),
        MemberState::Stalled(message) if member.local.is_none() => {
            (turns.newcomers.clone()?, Phase::Stalled(message.clone()))
        }
        MemberState::Done => (Template::Wanted, Phase::Done),
        MemberState::Updating(lacks) => (Template::Wanted, Phase::Updating(lacks.clone())),
        MemberState::Settling(lacks) => (Template::Wanted, Phase::Settling(lacks.clone())),
        MemberState::Stalled(message) => (Template::Wanted, Phase::Stalled(message.clone())),
        MemberState::Costless if desired.paused => (Template::AsItIs, Phase::Held),
        MemberState::Costless => (Template::Wanted, Phase::Done),
        MemberState::Behind(Behind::Halfway) if !desired.paused => behind(Template::Wanted),
        MemberState::Behind(_) if starts => behind(Template::Wanted),
        MemberState::Behind(_) => behind(Template::AsItIs),
    };
    let share = member.share.as_ref().map_or(0, Share::spec_replicas);
    let counts = desired.counting == Counting::Federation || member.local.is_none();
    let replacing = match state {
        MemberState::Updating(_) | MemberState::Behind(Behind::Halfway) => true,
        MemberState::Stalled(_) => member.local.is_some(),
        _ => false,
    };
    Some(Step {
        template,
        replicas: counts.then_some(share),
        max_unavailable: None,
        waiting: member.share.as_ref().map_or(0, |share| share.spec_replicas() - share.replicas),
        // A member that rests has nothing to stop, and a new one that is paused would never start.
        paused: desired.paused && replacing,
        phase,
    })
}

/// Whether there is no room for one more: its share is bound by that, pods find no node there, or did since it was started.
fn is_full(member: &Member, remembered: Option<i64>) -> bool {
    let bound = member.share.as_ref().and_then(member_state::room);
    bound.or(remembered).is_some() || member.local.as_ref().is_some_and(|local| local.stuck() > 0)
}

/// What a full cluster may miss: the user's part of what runs there, and the replicas that only wait. One at least may
/// go, if the user lets any go at all, as there is no room for one more to come first.
fn max_unavailable(desired: &Desired, share: &Share) -> Option<i64> {
    let Strategy::RollingUpdate { max_unavailable, .. } = desired.strategy else { return None };
    let least = max_unavailable.of(desired.replicas).min(1);
    Some(max_unavailable.of(share.replicas).max(least) + (share.spec_replicas() - share.replicas))
}
