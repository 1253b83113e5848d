//! What a DaemonSet needs next: a pod on every node that it belongs on, and on no other.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;

use super::fit::{Fit, HASH, fit, node_of};
use super::{limits, rollout};
use crate::replicasets::pods::{is_available, is_ready, is_terminal, phase};

/// So many pods are made, and so many deleted, before the status is told again.
const BURST: usize = 250;

/// What is known of one set.
pub(super) struct Look<'a> {
    pub(super) now: Timestamp,
    pub(super) set: &'a DaemonSet,
    /// The hash of its template's revision.
    pub(super) hash: &'a str,
    pub(super) nodes: &'a [Arc<Node>],
    /// Its pods.
    pub(super) pods: &'a [Arc<Pod>],
    /// Nodes on which a failed pod was replaced too short a while ago to be replaced again.
    pub(super) resting: &'a BTreeSet<String>,
}

/// What to do about one set.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// Names of nodes that get a pod.
    pub(super) create: Vec<String>,
    pub(super) delete: Vec<Arc<Pod>>,
    /// Pods among them that ended by themselves, with their nodes, which users are told of.
    pub(super) ended: Vec<(Arc<Pod>, String)>,
}

/// The pods of a set by the node that they are on or meant for.
pub(super) type ByNode<'a> = BTreeMap<&'a str, Vec<&'a Arc<Pod>>>;

/// Puts every pod where it belongs; only when all are there are pods of another revision replaced.
pub(super) fn plan(look: &Look<'_>) -> Plan {
    let by_node = by_node(look.pods);
    let mut plan = manage(look, &by_node);
    if plan.create.is_empty() && plan.delete.is_empty() && limits::is_rolling(look.set) {
        plan = rollout::roll(look, by_node);
    }
    plan.create.truncate(BURST);
    plan.delete.truncate(BURST);
    plan
}

/// Pods that ended and are going count no longer.
pub(super) fn by_node(pods: &[Arc<Pod>]) -> ByNode<'_> {
    let mut by_node = ByNode::new();
    for pod in pods.iter().filter(|pod| !(is_terminal(pod) && is_going(pod))) {
        if let Some(node) = node_of(pod) {
            by_node.entry(node).or_default().push(pod);
        }
    }
    by_node
}

fn manage(look: &Look<'_>, by_node: &ByNode<'_>) -> Plan {
    let mut plan = Plan::default();
    let mut names = BTreeSet::new();
    for node in look.nodes {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        names.insert(name);
        let pods = by_node.get(name);
        match (fit(look.set, node), pods) {
            (Fit::Runs, None) => plan.create.push(name.to_owned()),
            (Fit::Stays | Fit::No, None) => {}
            (fit @ (Fit::Runs | Fit::Stays), Some(pods)) => keep(look, name, pods, fit, &mut plan),
            (Fit::No, Some(pods)) => {
                plan.delete.extend(pods.iter().filter(|pod| !is_going(pod)).copied().cloned());
            }
        }
    }
    // Nobody else clears away what waits for a node that there is not.
    let unplaced = |pod: &&Arc<Pod>| pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none());
    for (_, pods) in by_node.iter().filter(|(node, _)| !names.contains(*node)) {
        plan.delete.extend(pods.iter().copied().filter(unplaced).filter(|pod| !is_going(pod)).cloned());
    }
    plan
}

/// Looks after the pods of a node that they may stay on.
fn keep(look: &Look<'_>, node: &str, pods: &[&Arc<Pod>], fit: Fit, plan: &mut Plan) {
    let mut running = Vec::new();
    for pod in pods.iter().copied().filter(|pod| !is_going(pod)) {
        match phase(pod) {
            "Failed" if look.resting.contains(node) => {}
            "Failed" | "Succeeded" => {
                plan.ended.push((pod.clone(), node.to_owned()));
                plan.delete.push(pod.clone());
            }
            _ => running.push(pod),
        }
    }
    oldest_first(&mut running);
    if !limits::allows_surge(look.set) {
        plan.delete.extend(running.into_iter().skip(1).cloned());
        return;
    }
    if running.len() <= 1 {
        // What surges has to have a pod that stays; others wait for the one that goes.
        if running.is_empty() && fit == Fit::Runs {
            plan.create.push(node.to_owned());
        }
        return;
    }
    let (mut new, mut old) = (None, None);
    for pod in running {
        let is_new = pod.labels().get(HASH).is_some_and(|hash| hash == look.hash);
        let place = if is_new { &mut new } else { &mut old };
        match place {
            None => *place = Some(pod),
            Some(_) => plan.delete.push(pod.clone()),
        }
    }
    if let (Some(new), Some(old)) = (new, old)
        && (!is_ready(old) || is_available(new, min_ready_seconds(look.set), look.now))
    {
        plan.delete.push(old.clone());
    }
}

pub(super) fn is_going(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

pub(super) fn min_ready_seconds(set: &DaemonSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
}

/// Pods on a node before those that wait for one, then by age, then by name.
pub(super) fn oldest_first(pods: &mut [&Arc<Pod>]) {
    pods.sort_by_key(|pod| {
        let placed = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (Reverse(placed), created, pod.name_any())
    });
}
