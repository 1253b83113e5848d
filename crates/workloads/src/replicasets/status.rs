//! The federated ReplicaSet's status and placement, from its members'.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use koinon_api::placement::{ClusterPlacement, ClusterState, Placement};

use super::plan::Seen;
use crate::barred::{Barred, CONDITION};
use crate::intent::Intent;
use crate::members::SetRecord;
use crate::messages::several;
use crate::placing::{Placed, Spot, Wanted};
use crate::rollout::Reach;
use crate::writing::Has;

/// Where the replicas are and what each cluster is doing, for the annotation.
pub(super) fn placement(
    wanted: &Wanted<'_>,
    placed: &Placed,
    members: &BTreeMap<String, Seen>,
    before: Option<&Placement>,
) -> Placement {
    let mut clusters: BTreeMap<String, ClusterPlacement> = members
        .iter()
        .map(|(name, seen)| {
            let last = before.and_then(|before| before.clusters.get(name));
            (name.clone(), cluster(seen, placed.clusters.get(name), last))
        })
        .collect();
    for name in wanted.preferences.clusters.keys().filter(|name| *name != "*") {
        clusters.entry(name.clone()).or_insert_with(|| ClusterPlacement {
            state: ClusterState::Unknown,
            why: "it is no member of the federation; its preference holds once it joins".to_owned(),
            ..ClusterPlacement::default()
        });
    }
    Placement { observed_generation: wanted.generation, clusters }
}

fn cluster(seen: &Seen, spot: Option<&Spot>, last: Option<&ClusterPlacement>) -> ClusterPlacement {
    let mut placement = ClusterPlacement::default();
    let mut why = Vec::new();
    if let Some(spot) = spot {
        placement.desired = spot.share.replicas;
        placement.overflow = spot.share.overflow;
        placement.unschedulable = spot.stuck.unschedulable;
        why.push(spot.share.reason.to_string());
        why.extend(spot.held.map(|held| held.to_string()));
    }
    match (&seen.record, last) {
        (Some(record), _) => {
            placement.replicas = record.replicas;
            placement.ready = record.ready;
            placement.available = record.available;
            placement.updated = if seen.has == Has::This { record.replicas } else { 0 };
        }
        // Nothing is known of it at the moment: what was known last stays.
        (None, Some(last)) if seen.reach != Reach::Online => {
            let ClusterPlacement { replicas, ready, available, updated, .. } = *last;
            placement = ClusterPlacement { replicas, ready, available, updated, ..placement };
        }
        _ => {}
    }
    if let Some(refused) = &seen.refused {
        why.push(format!("it {}", refused.message));
    }
    if let Some(failing) = seen.record.as_ref().and_then(|record| record.failing.as_ref()) {
        why.push(format!("pods cannot be created: {}", failing.message));
    }
    why.extend(seen.startup.clone());
    placement.state = match seen.reach {
        Reach::Offline => ClusterState::Offline,
        Reach::Unsure => ClusterState::Unknown,
        Reach::Online => {
            let asked = seen.record.as_ref().map_or(0, |record| record.spec_replicas);
            let settled = spot.is_some_and(|spot| spot.share.spec_replicas() == asked);
            if settled && placement.available >= placement.desired {
                ClusterState::Ready
            } else {
                ClusterState::Progressing
            }
        }
    };
    match seen.reach {
        Reach::Online => {}
        Reach::Unsure => why.push("nothing is known of it at the moment".to_owned()),
        Reach::Offline => why.push("it is offline; the counts are the last ones known".to_owned()),
    }
    placement.why = why.join("; ");
    match last {
        // Not heard of since the role began: what was said of it stays until it counts as offline.
        Some(last) if seen.is_unheard() && placement.desired == last.desired => last.clone(),
        _ => placement,
    }
}

/// The summed status. Replicas that wait beyond a member's share are in no count, and offline members are not counted.
pub(super) fn status(
    now: Timestamp,
    set: &ReplicaSet,
    intent: &Intent,
    placed: &Placed,
    members: &BTreeMap<String, Seen>,
    before: Option<&Placement>,
) -> ReplicaSetStatus {
    let (mut replicas, mut labeled, mut ready, mut available) = (0, 0, 0, 0);
    for (name, seen) in members.iter().filter(|(_, seen)| seen.reach != Reach::Offline) {
        let Some(record) = &seen.record else {
            // Not listed yet, as after a restart: what was known last still holds.
            let last = before.and_then(|before| before.clusters.get(name));
            if let Some(last) = last.filter(|_| seen.reach == Reach::Unsure) {
                let counted = last.replicas.min(last.desired).max(last.ready);
                replicas += counted;
                labeled += counted;
                ready += last.ready;
                available += last.available;
            }
            continue;
        };
        let probes = placed.clusters.get(name).map_or(0, |spot| probes(spot, record));
        replicas += record.replicas - probes;
        labeled += (record.fully_labeled - probes).max(0);
        ready += record.ready;
        available += record.available;
    }
    let count = |count: i64| i32::try_from(count).unwrap_or(i32::MAX);
    let conditions = conditions(now, set, intent, members);
    ReplicaSetStatus {
        replicas: count(replicas),
        fully_labeled_replicas: Some(count(labeled)),
        ready_replicas: Some(count(ready)),
        available_replicas: Some(count(available)),
        observed_generation: set.metadata.generation,
        conditions: (!conditions.is_empty()).then_some(conditions),
        terminating_replicas: set.status.as_ref().and_then(|status| status.terminating_replicas),
    }
}

/// The status of a ReplicaSet that is not placed: what it says of replicas stays.
pub(super) fn barred(now: Timestamp, set: &ReplicaSet, barred: &Barred) -> ReplicaSetStatus {
    let before = set.status.clone().unwrap_or_default();
    let mut conditions = before.conditions.clone().unwrap_or_default();
    let same = conditions.iter().find(|one| one.type_ == CONDITION);
    let since = same.and_then(|one| one.last_transition_time.clone()).or(Some(Time(now)));
    conditions.retain(|one| one.type_ != CONDITION);
    conditions.push(ReplicaSetCondition {
        type_: CONDITION.to_owned(),
        status: "False".to_owned(),
        reason: Some(barred.reason.to_owned()),
        message: Some(barred.message.clone()),
        last_transition_time: since,
    });
    ReplicaSetStatus { observed_generation: set.metadata.generation, conditions: Some(conditions), ..before }
}

/// Pods beyond the member's share that wait for room. What is ready does not wait, however old the word on pods without a node is: no
/// server takes a status with more ready replicas than there are.
fn probes(spot: &Spot, record: &SetRecord) -> i64 {
    let beyond = (record.spec_replicas - spot.share.replicas).max(0);
    beyond.min(spot.stuck.unschedulable).min(record.replicas - record.ready).max(0)
}

fn conditions(
    now: Timestamp,
    set: &ReplicaSet,
    intent: &Intent,
    members: &BTreeMap<String, Seen>,
) -> Vec<ReplicaSetCondition> {
    let known = set.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let condition = |kind: &str, status: &str, reason: &str, message: String| {
        let same = known.iter().find(|one| one.type_ == kind && one.status == status);
        ReplicaSetCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_transition_time: same.and_then(|one| one.last_transition_time.clone()).or(Some(Time(now))),
        }
    };
    let mut conditions = Vec::new();
    if let Some(fault) = &intent.fault {
        conditions.push(condition("PreferencesValid", "False", "Malformed", fault.clone()));
    }
    let failures: Vec<String> = members
        .iter()
        .filter_map(|(name, seen)| {
            // Once it may be asked again it is, and says so again.
            let refused = seen.refused.as_ref().filter(|refused| refused.pause.is_some());
            let refused = refused.map(|refused| refused.message.clone());
            let failing = seen.record.as_ref().and_then(|record| record.failing.as_ref());
            let message = refused.or_else(|| failing.map(|failing| failing.message.to_string()))?;
            Some(format!("{name}: {message}"))
        })
        .collect();
    if !failures.is_empty() {
        conditions.push(condition("ReplicaFailure", "True", "FailedCreate", several(failures, "; ")));
    }
    conditions
}
