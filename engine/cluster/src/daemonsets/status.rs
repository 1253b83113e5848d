//! How a DaemonSet stands.

use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSetStatus;

use super::fit::{Fit, fit, is_updated};
use super::plan::{Look, by_node, min_ready_seconds, oldest_first};
use crate::replicasets::next_of;
use crate::replicasets::pods::{is_available, is_ready};
use crate::replicasets::unless_zero;

/// The status that a set should have, unless it has it already.
pub(super) fn status(look: &Look<'_>) -> Option<DaemonSetStatus> {
    let before = look.set.status.clone().unwrap_or_default();
    let by_node = by_node(look.pods);
    let (mut desired, mut current, mut misplaced, mut ready, mut available, mut updated) = (0, 0, 0, 0, 0, 0);
    for node in look.nodes {
        let pods = by_node.get(node.metadata.name.as_deref().unwrap_or_default());
        if fit(look.set, node) != Fit::Runs {
            misplaced += i32::from(pods.is_some());
            continue;
        }
        desired += 1;
        let Some(mut pods) = pods.cloned() else { continue };
        current += 1;
        oldest_first(&mut pods);
        let Some(pod) = pods.first() else { continue };
        if is_ready(pod) {
            ready += 1;
            available += i32::from(is_available(pod, min_ready_seconds(look.set), look.now));
        }
        updated += i32::from(is_updated(look.set, pod, look.hash));
    }
    let after = DaemonSetStatus {
        desired_number_scheduled: desired,
        current_number_scheduled: current,
        number_misscheduled: misplaced,
        number_ready: ready,
        number_available: unless_zero(available),
        number_unavailable: unless_zero(desired - available),
        updated_number_scheduled: unless_zero(updated),
        observed_generation: look.set.metadata.generation,
        collision_count: before.collision_count,
        conditions: before.conditions.clone(),
    };
    (after != before).then_some(after)
}

/// How long until the next pod has been ready for long enough.
pub(super) fn look_again(look: &Look<'_>) -> Option<Duration> {
    next_of(look.now, min_ready_seconds(look.set), look.pods)
}
