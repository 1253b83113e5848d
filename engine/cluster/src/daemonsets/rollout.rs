//! The rolling update of a DaemonSet: which pods of another revision go, or get one beside them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::fit::{Fit, fit, is_updated};
use super::limits::{self, Limits};
use super::plan::{ByNode, Look, Plan, is_going, min_ready_seconds};
use crate::replicasets::pods::is_available;

/// The pods of one node by revision.
enum OnNode<'a> {
    /// More than one of a kind: the rest of the controller clears that up first.
    Crowded,
    Pods {
        new: Option<&'a Arc<Pod>>,
        old: Option<&'a Arc<Pod>>,
    },
}

/// Decides over pods that are all where they belong.
pub(super) fn roll<'a>(look: &Look<'a>, mut by_node: ByNode<'a>) -> Plan {
    let mut wanted = 0;
    for node in look.nodes.iter().filter(|node| fit(look.set, node) == Fit::Runs) {
        wanted += 1;
        by_node.entry(node.metadata.name.as_deref().unwrap_or_default()).or_default();
    }
    let mut limits = limits::of(look.set, wanted);
    // Shares may come to nothing; then one pod goes first.
    if wanted > 0 && limits == (Limits { surge: 0, unavailable: 0 }) {
        limits.unavailable = 1;
    }
    match limits.surge {
        0 => replace(look, &by_node, limits.unavailable),
        surge => surge_onto(look, &by_node, surge, wanted),
    }
}

fn on_node<'a>(look: &Look<'_>, pods: &[&'a Arc<Pod>]) -> OnNode<'a> {
    let (mut new, mut old) = (None, None);
    for pod in pods.iter().copied().filter(|pod| !is_going(pod)) {
        let place = if is_updated(look.set, pod, look.hash) { &mut new } else { &mut old };
        if place.replace(pod).is_some() {
            return OnNode::Crowded;
        }
    }
    OnNode::Pods { new, old }
}

/// Lets old pods go, so that no more than so many nodes are without an available one.
fn replace(look: &Look<'_>, by_node: &ByNode<'_>, most: usize) -> Plan {
    let available = |pod: &Pod| is_available(pod, min_ready_seconds(look.set), look.now);
    let mut unavailable = 0;
    let (mut broken, mut well) = (Vec::new(), Vec::new());
    for pods in by_node.values() {
        match on_node(look, pods) {
            OnNode::Pods { new: Some(new), old: None } => unavailable += usize::from(!available(new)),
            OnNode::Pods { new: None, old: Some(old) } if !available(old) => {
                broken.push(old.clone());
                unavailable += 1;
            }
            OnNode::Pods { new: None, old: Some(old) } => well.push(old.clone()),
            OnNode::Crowded | OnNode::Pods { .. } => unavailable += 1,
        }
    }
    well.truncate(most.saturating_sub(unavailable));
    Plan { delete: broken.into_iter().chain(well).collect(), ..Plan::default() }
}

/// Puts new pods beside old ones, no more than so many at a time, and lets the old ones go once theirs is available.
fn surge_onto(look: &Look<'_>, by_node: &ByNode<'_>, most: usize, wanted: usize) -> Plan {
    let available = |pod: &Pod| is_available(pod, min_ready_seconds(look.set), look.now);
    let runs = |name: &str| {
        let node = look.nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name));
        node.is_some_and(|node| fit(look.set, node) == Fit::Runs)
    };
    let mut plan = Plan::default();
    let (mut surging, mut up) = (0usize, 0usize);
    let (mut candidates, mut misplaced) = (Vec::new(), Vec::new());
    for (node, pods) in by_node {
        let OnNode::Pods { new, old } = on_node(look, pods) else {
            surging += 1;
            continue;
        };
        up += usize::from(old.or(new).is_some_and(|pod| available(pod)));
        match (new, old) {
            (_, None) => {}
            (None, Some(old)) if !available(old) && !runs(node) => plan.delete.push(old.clone()),
            (None, Some(old)) if !available(old) => plan.create.push((*node).to_owned()),
            (None, Some(old)) if !runs(node) => misplaced.push(old.clone()),
            (None, Some(_)) => candidates.push((*node).to_owned()),
            (Some(new), Some(_)) if !available(new) => surging += 1,
            (Some(_), Some(old)) => plan.delete.push(old.clone()),
        }
    }
    // A set that moves to other nodes keeps as many available pods as it shall have.
    misplaced.truncate(up.saturating_sub(wanted));
    plan.delete.extend(misplaced);
    candidates.truncate(most.saturating_sub(surging));
    plan.create.extend(candidates);
    plan
}
