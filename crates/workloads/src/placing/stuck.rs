//! What is stuck in a cluster: pods without a node, and pods that could not be created, for too long.

use std::time::Duration;

use jiff::Timestamp;

use super::{Local, Member};

/// A scheduler that has not looked at a pod is slow, which a full cluster does not cause: it gets this many times the
/// patience. One that takes even longer is gone, and its pods run nowhere.
const UNSEEN: u32 = 5;

/// Why a pod has no node, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// A scheduler found none for it.
    Refused(Timestamp),
    /// No scheduler has looked at it since it was created.
    Unseen(Timestamp),
}

impl Wait {
    /// How much longer it may; none once that is over.
    fn left(self, now: Timestamp, patience: Duration) -> Option<Duration> {
        match self {
            Wait::Refused(since) => left(since, now, patience),
            Wait::Unseen(since) => left(since, now, patience.saturating_mul(UNSEEN)),
        }
    }
}

/// Replicas of one cluster that wait for room, for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stuck {
    /// Pods that found no node.
    pub unschedulable: i64,
    /// Pods that could not even be created.
    pub missing: i64,
}

impl Stuck {
    pub(super) fn of(now: Timestamp, patience: Duration, member: &Member) -> Stuck {
        let unschedulable = member.waiting.iter().filter(|wait| wait.left(now, patience).is_none()).count();
        let missing = member
            .local
            .filter(|local| local.failing_since.is_some_and(|since| left(since, now, patience).is_none()))
            .map_or(0, missing);
        Stuck { unschedulable: i64::try_from(unschedulable).unwrap_or(i64::MAX), missing }
    }

    /// All of them.
    pub fn all(self) -> i64 {
        self.unschedulable.saturating_add(self.missing)
    }
}

fn missing(local: Local) -> i64 {
    (local.spec_replicas - local.replicas).max(0)
}

/// How long until another replica of this cluster counts as stuck, if time alone can bring that about.
pub(super) fn next_change(now: Timestamp, patience: Duration, member: &Member) -> Option<Duration> {
    let failing = member.local.filter(|local| missing(*local) > 0).and_then(|local| local.failing_since);
    let waiting = member.waiting.iter().filter_map(|wait| wait.left(now, patience));
    waiting.chain(failing.and_then(|since| left(since, now, patience))).min()
}

/// How much of the patience is left; none once it is over.
fn left(since: Timestamp, now: Timestamp, patience: Duration) -> Option<Duration> {
    // A member's clock may be ahead of ours: that counts as no time at all.
    let waited = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    let left = patience.saturating_sub(waited);
    (!left.is_zero()).then_some(left)
}
