//! What is stuck in a cluster: pods without a node, and pods that could not be created, for too long.

use std::time::Duration;

use jiff::Timestamp;

use super::{Local, Member};

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
        let unschedulable =
            member.waiting.iter().filter(|since| left(**since, now, patience).is_none()).count();
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
    let failing =
        member.local.filter(|local| missing(*local) > 0).and_then(|local| local.failing_since).into_iter();
    member.waiting.iter().copied().chain(failing).filter_map(|since| left(since, now, patience)).min()
}

/// How much of the patience is left; none once it is over.
fn left(since: Timestamp, now: Timestamp, patience: Duration) -> Option<Duration> {
    // A member's clock may be ahead of ours: that counts as no time at all.
    let waited = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    let left = patience.saturating_sub(waited);
    (!left.is_zero()).then_some(left)
}
