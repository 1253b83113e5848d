//! The state of one member in a rollout, whatever the others do.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::input::{Counting, Desired, Local, Member, Reach, Started, Strategy};
use crate::planner::{Limit, Reason, Share};

/// Where a member stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MemberState {
    /// It has no Deployment and needs none.
    Nothing,
    /// It has no Deployment and should have replicas.
    Newcomer,
    /// It has no Deployment and takes none, for this reason. Others have its replicas, so nobody waits for it.
    Refusing(String),
    /// It has another template, and nothing runs there: a new one costs nothing.
    Costless,
    /// It has the wanted template, and all that it should run.
    Done,
    /// It has the wanted template, its pods are being replaced.
    Updating(Unfinished),
    /// It has the wanted template, and some replicas are not there yet.
    Settling(Unfinished),
    /// It makes no progress towards the wanted template.
    Stalled(String),
    /// It has another template.
    Behind(Behind),
    /// Nothing is known of it at the moment.
    Unsure,
    /// Nobody waits for it.
    Offline,
}

/// How a member that has another template came to that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behind {
    /// It runs that template and rests.
    Resting,
    /// Somebody else gave it that template.
    Drifted,
    /// It is in the middle of an update to that template. It is disturbed already.
    Halfway,
}

/// Whether there are as many available replicas in all clusters together as there should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Supply {
    Enough,
    Short,
}

/// Whether the shares of all clusters together are what there should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Homes {
    Enough,
    Short,
}

/// What all clusters have together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) supply: Supply,
    pub(super) homes: Homes,
}

/// What a member lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Unfinished {
    /// It does not have the new template yet.
    NotWritten,
    /// Its controller has not looked at the change yet.
    NotObserved,
    /// Pods of an older template are still there.
    OldRemain {
        /// How many.
        old: i64,
    },
    /// Pods are still to be created.
    NotCreated {
        /// How many there are.
        updated: i64,
        /// How many there should be.
        of: i64,
    },
    /// Pods are not available, and not for want of room.
    NotAvailable {
        /// How many are.
        available: i64,
        /// How many should be.
        of: i64,
    },
    /// Pods found no room since the update began, so many that fewer run than it may cost.
    NoRoom {
        /// How many are available.
        available: i64,
        /// How many at least should be.
        of: i64,
    },
}

impl MemberState {
    pub(super) fn of(
        now: Timestamp,
        desired: &Desired,
        member: &Member,
        started: Option<&Started>,
        Totals { supply, homes }: Totals,
    ) -> Self {
        match member.reach {
            Reach::Offline => return MemberState::Offline,
            Reach::Unsure => return MemberState::Unsure,
            Reach::Online => {}
        }
        let share = member.share.as_ref().map_or(0, Share::spec_replicas);
        let Some(local) = &member.local else {
            return match &member.refused {
                _ if share == 0 => MemberState::Nothing,
                None => MemberState::Newcomer,
                Some(message) if homes == Homes::Enough => MemberState::Refusing(message.clone()),
                Some(message) => MemberState::Stalled(message.clone()),
            };
        };
        if local.template.as_ref() != Some(&desired.template) {
            let asked = match desired.counting {
                Counting::Federation => share,
                Counting::Member => local.spec_replicas,
            };
            return if asked == 0 {
                MemberState::Costless
            } else {
                behind(now, desired, member, local, started)
            };
        }
        match unfinished(desired, local, member.share.as_ref(), started, supply) {
            None => MemberState::Done,
            Some(lacks) => match gave_up(now, desired, local, started, &lacks) {
                Some(message) => MemberState::Stalled(message),
                None if started.is_some() || matches!(lacks, Unfinished::OldRemain { .. }) => {
                    MemberState::Updating(lacks)
                }
                None => MemberState::Settling(lacks),
            },
        }
    }

    /// Whether it takes one of the places for clusters that may be disturbed at a time.
    pub(super) fn is_busy(&self) -> bool {
        matches!(
            self,
            MemberState::Updating(_)
                | MemberState::Settling(_)
                | MemberState::Stalled(_)
                | MemberState::Unsure
                | MemberState::Behind(Behind::Halfway)
        )
    }
}

/// Where a member with another template stands.
fn behind(
    now: Timestamp,
    desired: &Desired,
    member: &Member,
    local: &Local,
    started: Option<&Started>,
) -> MemberState {
    // Whoever was started for the wanted template and never got it cannot be written.
    if let Some(started) = started.filter(|started| started.to == desired.template && !desired.paused) {
        if let Some(message) = &member.refused {
            return MemberState::Stalled(message.clone());
        }
        if desired.progress_deadline.is_some_and(|most| elapsed(started.since, now) >= most) {
            return MemberState::Stalled("it has not taken the new template".to_owned());
        }
    }
    MemberState::Behind(if started.is_some() || (local.is_observed() && local.replicas > local.updated) {
        Behind::Halfway
    } else if local.template.is_none() {
        Behind::Drifted
    } else {
        Behind::Resting
    })
}

/// What a member with the wanted template lacks to be finished.
///
/// Replicas that are stuck for want of room do not count against it, or a full cluster would hold up every update for
/// ever. But an update that itself needs more room than there is must not pass as finished: as long as anything is
/// stuck, there must be about as much available as before, here or elsewhere.
fn unfinished(
    desired: &Desired,
    local: &Local,
    share: Option<&Share>,
    started: Option<&Started>,
    supply: Supply,
) -> Option<Unfinished> {
    if !local.is_observed() {
        return Some(Unfinished::NotObserved);
    }
    let asked = local.spec_replicas;
    let old = local.replicas - local.updated;
    if old > 0 {
        return Some(Unfinished::OldRemain { old });
    }
    if local.updated + local.missing.max(0) < asked {
        return Some(Unfinished::NotCreated { updated: local.updated, of: asked });
    }
    if local.available + local.stuck() < asked {
        return Some(Unfinished::NotAvailable { available: local.available, of: asked - local.stuck() });
    }
    let floor = floor(desired, share, started);
    (local.stuck() > 0 && local.available < floor && supply == Supply::Short)
        .then_some(Unfinished::NoRoom { available: local.available, of: floor })
}

/// How many replicas must be available at the end of an update even though others are stuck.
fn floor(desired: &Desired, share: Option<&Share>, started: Option<&Started>) -> i64 {
    let share_replicas = share.map_or(0, |share| share.replicas);
    let Some(before) = started.map(|started| started.available) else {
        return share_replicas.min(1);
    };
    let spare = match desired.strategy {
        Strategy::RollingUpdate { max_unavailable, .. } => max_unavailable.of(before),
        Strategy::Recreate => before,
    };
    let floor = (before - spare).max(before.min(1));
    // A share that shrank for want of room shrank because of what is judged here; any other shrank by intent.
    if share.and_then(room).is_some() { floor } else { floor.min(share_replicas) }
}

/// How much fits into a cluster whose share that bounds.
pub(super) fn room(share: &Share) -> Option<i64> {
    match &share.reason {
        Reason::Parts(parts) => match parts.limit {
            Some(Limit::Capacity(room)) => Some(room),
            _ => None,
        },
        Reason::NoPreference | Reason::Own | Reason::Waits => None,
    }
}

/// Why a member makes no progress, if it does not.
fn gave_up(
    now: Timestamp,
    desired: &Desired,
    local: &Local,
    started: Option<&Started>,
    lacks: &Unfinished,
) -> Option<String> {
    if *lacks != Unfinished::NotObserved {
        return local.progress_failed.clone();
    }
    // A controller that does not even look cannot say that it makes no progress. What counts is how long ago it was last sent
    // something, which may be long after the update began.
    let waited = elapsed(started?.since.max(local.unobserved_since?), now);
    (waited >= desired.progress_deadline?)
        .then(|| format!("its Deployment controller has not looked at the change for {} s", waited.as_secs()))
}

/// How long ago that was; clocks that disagree count as no time.
pub(super) fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfinished::NotWritten => f.write_str("it does not have the new template yet"),
            Unfinished::NotObserved => f.write_str("its controller has not looked at the change yet"),
            Unfinished::OldRemain { old } => write!(f, "{old} of its pods still have an older template"),
            Unfinished::NotCreated { updated, of } => write!(f, "{updated} of {of} pods are created"),
            Unfinished::NotAvailable { available, of } => write!(f, "{available} of {of} pods are available"),
            Unfinished::NoRoom { available, of } => {
                write!(
                    f,
                    "only {available} pods are available, at least {of} should be, and the others find no room"
                )
            }
        }
    }
}
