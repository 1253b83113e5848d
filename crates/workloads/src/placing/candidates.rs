//! From what is seen of members to what the planner may count on.

use std::collections::BTreeMap;

use koinon_api::placement::{ClusterPlacement, ClusterState, Placement};

use super::{Member, REFUSALS, Stuck};
use crate::planner::{Candidate, Observed};
use crate::rollout::Reach;

/// Every cluster that may take replicas: all but those that are offline, unless they are waited for. `settled` says that the workload is the one that
/// `before` was decided for.
pub(super) fn candidates(
    members: &BTreeMap<String, Member>,
    stuck: &BTreeMap<&str, Stuck>,
    before: Option<&Placement>,
    settled: bool,
) -> BTreeMap<String, Candidate> {
    members
        .iter()
        .filter(|(_, member)| !member.is_left_out())
        .map(|(name, member)| {
            let stuck = stuck.get(name.as_str()).copied().unwrap_or_default();
            let last = before.and_then(|before| before.clusters.get(name));
            (name.clone(), candidate(member, stuck, last, settled))
        })
        .collect()
}

fn candidate(member: &Member, stuck: Stuck, last: Option<&ClusterPlacement>, settled: bool) -> Candidate {
    if member.is_waited_for() {
        return Candidate { existing: last.map_or(0, |last| last.desired), capacity: None };
    }
    let mut candidate = match &member.local {
        Some(local) => {
            // Pods that are only on their way count as there: they were asked for.
            let pods = (local.spec_replicas - stuck.missing).max(0);
            let unschedulable = stuck.unschedulable;
            let observed =
                Observed { spec_replicas: local.spec_replicas, pods, unschedulable, missing: stuck.missing };
            Candidate { capacity: room(member, stuck, last), ..observed.candidate() }
        }
        None if member.reach == Reach::Online => Candidate::default(),
        // Nothing is known of it: it has what it was last meant to have.
        None => Candidate { existing: last.map_or(0, |last| last.desired), capacity: None },
    };
    // A cluster that was offline comes back with what it has, not with what was meant for it.
    if let Some(last) = last.filter(|last| settled && last.state != ClusterState::Offline) {
        candidate.existing = last.desired;
    }
    candidate.capacity = candidate.capacity.into_iter().chain(member.room).min();
    if member.refusals >= REFUSALS {
        let has = member.local.map_or(0, |local| local.spec_replicas - stuck.all()).max(0);
        candidate.capacity = Some(candidate.capacity.map_or(has, |room| room.min(has)));
    }
    candidate
}

/// How much fits there, if anything shows it.
fn room(member: &Member, stuck: Stuck, last: Option<&ClusterPlacement>) -> Option<i64> {
    let local = member.local?;
    let waiting = !member.waiting.is_empty() || stuck.missing > 0;
    let remembered = last.filter(|last| waiting && last.overflow > 0).map(|last| last.desired);
    // In the middle of a change of its count, pods and status tell of different moments. And pods that waited may have
    // been replaced by ones that only began to: there is still no room as long as any of them waits.
    let steady = local.observed && local.replicas == local.spec_replicas - stuck.missing;
    if let Some(room) = remembered.filter(|_| !steady || stuck.all() == 0) {
        return Some(room);
    }
    let pods = local.replicas.max(local.spec_replicas);
    (stuck.all() > 0).then(|| (pods - stuck.all()).max(0))
}
