//! The federated Deployment's status, from its members'.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::homeless::{self, Verdict};
use super::input::{Desired, Member, Reach, Said, Strategy, View};
use super::member_state::MemberState;
use super::output::{Condition, Status, WaitingOn};
use super::shadows::Split;
use crate::messages::several;

/// The status, and how long until time alone changes it.
pub(super) fn aggregate(
    now: Timestamp,
    desired: &Desired,
    view: &View,
    states: &BTreeMap<&str, MemberState>,
    waiting: &[WaitingOn],
) -> (Status, Option<Duration>) {
    let mut status = Status { observed_generation: desired.generation, ..Status::default() };
    for (name, member) in view.members.iter().filter(|(_, member)| member.reach != Reach::Offline) {
        let Some(local) = &member.local else { continue };
        let probes = probes(member);
        status.replicas += local.replicas - probes;
        status.ready += local.ready;
        status.available += local.available;
        if local.template.as_ref() == Some(&desired.template) {
            let split = Split::of(local, view.record.clusters.contains_key(name));
            status.updated += (split.new - probes).max(0);
        }
    }
    status.unavailable = (desired.replicas.max(status.replicas) - status.available).max(0);
    let (progressing, deadline) = progressing(now, desired, view, &status, states, waiting);
    status.conditions = vec![available(desired, &status), progressing, all_clusters(states)];
    (status, deadline)
}

/// Pods beyond the member's share that wait for room: they are no replicas that anybody counts on. What is ready does not wait, however old
/// the word on pods without a node is: no server takes a status with more ready replicas than there are.
pub(super) fn probes(member: &Member) -> i64 {
    let (Some(local), Some(share)) = (&member.local, &member.share) else { return 0 };
    let beyond = (local.spec_replicas - share.replicas).max(0);
    beyond.min(local.unschedulable).min(local.replicas - local.ready).max(0)
}

fn available(desired: &Desired, status: &Status) -> Condition {
    let spare = match desired.strategy {
        Strategy::RollingUpdate { max_unavailable, .. } => max_unavailable.of(desired.replicas),
        Strategy::Recreate => 0,
    };
    let message = format!("{} of {} replicas are available", status.available, desired.replicas);
    if status.available >= desired.replicas - spare {
        Condition { kind: "Available", status: "True", reason: "MinimumReplicasAvailable", message }
    } else {
        Condition { kind: "Available", status: "False", reason: "MinimumReplicasUnavailable", message }
    }
}

/// `kubectl rollout status` fails on the reason `ProgressDeadlineExceeded`.
///
/// An update that has ended stays so, as in one cluster, until there is another one: a pod that crashes, or a member that
/// does not answer for a moment, is none.
fn progressing(
    now: Timestamp,
    desired: &Desired,
    view: &View,
    status: &Status,
    states: &BTreeMap<&str, MemberState>,
    waiting: &[WaitingOn],
) -> (Condition, Option<Duration>) {
    let words = |items: Vec<String>| several(items, "; ");
    let stalled: Vec<String> = waiting
        .iter()
        .filter(|waiting| matches!(waiting, WaitingOn::Stalled { .. }))
        .map(ToString::to_string)
        .collect();
    let condition =
        |status, reason, message| (Condition { kind: "Progressing", status, reason, message }, None);
    if !stalled.is_empty() {
        return condition("False", "ProgressDeadlineExceeded", words(stalled));
    }
    if desired.paused {
        return condition("Unknown", "DeploymentPaused", "the Deployment is paused".to_owned());
    }
    let ended = view.said == Said::Ended && status.updated == status.replicas;
    let unfinished = states.values().any(|state| match state {
        MemberState::Done | MemberState::Nothing | MemberState::Refusing(_) | MemberState::Offline => false,
        MemberState::Settling(_) | MemberState::Unsure | MemberState::Costless => !ended,
        MemberState::Newcomer
        | MemberState::Updating(_)
        | MemberState::Stalled(_)
        | MemberState::Behind(_) => true,
    });
    if unfinished {
        let mut message = words(waiting.iter().map(ToString::to_string).collect());
        for (what, which) in [
            ("to be created", names(states, |state| *state == MemberState::Newcomer)),
            ("to be updated", names(states, |state| matches!(state, MemberState::Behind(_)))),
        ] {
            if !which.is_empty() {
                let separator = if message.is_empty() { "" } else { "; " };
                message.push_str(&format!("{separator}{what}: {}", several(which, ", ")));
            }
        }
        return condition("True", "ReplicaSetUpdated", message);
    }
    let missing = desired.replicas - status.updated;
    let short = || {
        let waiting = homeless::waiting(view).min(missing);
        let homeless = missing - waiting;
        let waiting =
            (waiting > 0).then(|| format!("; {waiting} replicas wait for clusters that are offline"));
        let homeless = (homeless > 0).then(|| format!("; {homeless} replicas found no cluster"));
        let both: String = waiting.into_iter().chain(homeless).collect();
        format!("every cluster is up to date{both}")
    };
    if missing <= 0 {
        return condition("True", "NewReplicaSetAvailable", "every cluster is up to date".to_owned());
    }
    match homeless::judge(now, desired, view, missing, ended) {
        Verdict::Ended => condition("True", "NewReplicaSetAvailable", short()),
        Verdict::Waiting(left) => (condition("True", "ReplicaSetUpdated", short()).0, left),
        Verdict::Failed(message) => condition("False", "ProgressDeadlineExceeded", message),
    }
}

/// Whether anybody is left out.
fn all_clusters(states: &BTreeMap<&str, MemberState>) -> Condition {
    let offline = names(states, |state| *state == MemberState::Offline);
    let condition = |status, reason, message| Condition { kind: "AllClusters", status, reason, message };
    if offline.is_empty() {
        condition("True", "ClustersOnline", "every cluster takes part".to_owned())
    } else {
        let message = format!("offline and left out until they return: {}", several(offline, ", "));
        condition("False", "ClustersOffline", message)
    }
}

fn names<'a>(states: &BTreeMap<&'a str, MemberState>, which: impl Fn(&MemberState) -> bool) -> Vec<&'a str> {
    states.iter().filter(|(_, state)| which(state)).map(|(name, _)| *name).collect()
}
