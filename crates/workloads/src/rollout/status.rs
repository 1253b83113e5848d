//! The federated Deployment's status, from its members'.

use std::collections::BTreeMap;

use super::input::{Desired, Member, Reach, Strategy, View};
use super::output::{Condition, Status, WaitingOn};
use super::shadows::Split;
use super::standing::Standing;
use crate::words::several;

pub(super) fn aggregate(
    desired: &Desired,
    view: &View,
    standings: &BTreeMap<&str, Standing>,
    waiting: &[WaitingOn],
) -> Status {
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
    status.conditions = vec![
        available(desired, &status),
        progressing(desired, &status, standings, waiting, view.ended),
        all_clusters(standings),
    ];
    status
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
/// An update that has `ended` stays so, as in one cluster, until there is another one: a pod that crashes, or a member that
/// does not answer for a moment, is none.
fn progressing(
    desired: &Desired,
    status: &Status,
    standings: &BTreeMap<&str, Standing>,
    waiting: &[WaitingOn],
    ended: bool,
) -> Condition {
    let words = |items: Vec<String>| several(items, "; ");
    let stalled: Vec<String> = waiting
        .iter()
        .filter(|waiting| matches!(waiting, WaitingOn::Stalled { .. }))
        .map(ToString::to_string)
        .collect();
    let condition = |status, reason, message| Condition { kind: "Progressing", status, reason, message };
    if !stalled.is_empty() {
        return condition("False", "ProgressDeadlineExceeded", words(stalled));
    }
    if desired.paused {
        return condition("Unknown", "DeploymentPaused", "the Deployment is paused".to_owned());
    }
    let ended = ended && status.updated == status.replicas;
    let unfinished = standings.values().any(|standing| match standing {
        Standing::Done | Standing::Nothing | Standing::Refusing(_) | Standing::Offline => false,
        Standing::Settling(_) | Standing::Unsure | Standing::Costless => !ended,
        Standing::Newcomer | Standing::Updating(_) | Standing::Stalled(_) | Standing::Behind(_) => true,
    });
    if unfinished {
        let mut message = words(waiting.iter().map(ToString::to_string).collect());
        for (what, which) in [
            ("to be created", names(standings, |standing| *standing == Standing::Newcomer)),
            ("to be updated", names(standings, |standing| matches!(standing, Standing::Behind(_)))),
        ] {
            if !which.is_empty() {
                let separator = if message.is_empty() { "" } else { "; " };
                message.push_str(&format!("{separator}{what}: {}", several(which, ", ")));
            }
        }
        return condition("True", "ReplicaSetUpdated", message);
    }
    let message = match desired.replicas - status.updated {
        missing if missing > 0 => format!("every cluster is up to date; {missing} replicas found no cluster"),
        _ => "every cluster is up to date".to_owned(),
    };
    condition("True", "NewReplicaSetAvailable", message)
}

/// Whether anybody is left out.
fn all_clusters(standings: &BTreeMap<&str, Standing>) -> Condition {
    let offline = names(standings, |standing| *standing == Standing::Offline);
    let condition = |status, reason, message| Condition { kind: "AllClusters", status, reason, message };
    if offline.is_empty() {
        condition("True", "ClustersOnline", "every cluster takes part".to_owned())
    } else {
        let message = format!("offline and left out until they return: {}", several(offline, ", "));
        condition("False", "ClustersOffline", message)
    }
}

fn names<'a>(standings: &BTreeMap<&'a str, Standing>, which: impl Fn(&Standing) -> bool) -> Vec<&'a str> {
    standings.iter().filter(|(_, standing)| which(standing)).map(|(name, _)| *name).collect()
}
