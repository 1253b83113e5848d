//! What becomes of pods on nodes that are silent, tainted or gone.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, PodCondition, PodStatus, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::health::is_ready;
use super::taints::OUT_OF_SERVICE;
use crate::kubelet::is_finished;
use crate::scheduler::matches_taint;

/// When a pod has to leave a node that has these taints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    Never,
    At(Timestamp),
}

/// When a pod has to leave its node. `since` tells when a taint was seen first, for those that do not say.
pub(super) fn leave(pod: &Pod, taints: &[Taint], since: impl Fn(&Taint) -> Timestamp) -> Leave {
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    // A pod that came after the taint has its time from then on.
    let arrived = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    let arrived = arrived.or(pod.metadata.creation_timestamp.as_ref()).map(|time| time.0);
    let mut leave = Leave::Never;
    for taint in taints.iter().filter(|taint| taint.effect == "NoExecute") {
        let began = taint.time_added.as_ref().map_or_else(|| since(taint), |time| time.0);
        let began = arrived.map_or(began, |arrived| arrived.max(began));
        let matching: Vec<_> = tolerations.iter().filter(|one| matches_taint(one, taint)).collect();
        let time = if matching.is_empty() {
            began
        } else {
            let Some(seconds) = matching.iter().filter_map(|one| one.toleration_seconds).min() else {
                continue;
            };
            let seconds = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
            began.checked_add(seconds).unwrap_or(Timestamp::MAX)
        };
        leave = match leave {
            Leave::At(earlier) => Leave::At(earlier.min(time)),
            Leave::Never => Leave::At(time),
        };
    }
    leave
}

/// The status of a pod whose node does not say any more that it is ready, unless it says so.
pub(super) fn not_ready(pod: &Pod, now: Timestamp) -> Option<PodStatus> {
    let mut status = pod.status.clone()?;
    let ready =
        status.conditions.as_mut()?.iter_mut().find(|one| one.type_ == "Ready" && one.status == "True")?;
    ready.status = "False".into();
    ready.last_transition_time = Some(second(now));
    Some(status)
}

/// The status of a pod that is sent away by a taint, unless it says so.
pub(super) fn sent_away(pod: &Pod, now: Timestamp) -> Option<PodStatus> {
    let status = pod.status.clone().unwrap_or_default();
    let reason = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint");
    disrupted(pod, status, reason, now)
}

/// The status of a pod whose node is gone, unless it has come to an end before.
pub(super) fn lost_its_node(pod: &Pod, now: Timestamp) -> Option<PodStatus> {
    let status = failed(pod)?;
    let reason = ("DeletionByPodGC", "PodGC: node no longer exists");
    disrupted(pod, status.clone(), reason, now).or(Some(status))
}

/// The status of a pod that is cleared away, unless it has come to an end before.
pub(super) fn failed(pod: &Pod) -> Option<PodStatus> {
    if is_finished(pod) {
        return None;
    }
    let mut status = pod.status.clone().unwrap_or_default();
    status.phase = Some("Failed".into());
    status.observed_generation = pod.metadata.generation;
    Some(status)
}

/// Whether nobody will ever end a pod that is to go: it has no node, or one that a user has given up.
pub(super) fn is_stuck(pod: &Pod, node: Option<&Node>) -> bool {
    let is_leaving =
        pod.metadata.deletion_timestamp.is_some() && pod.metadata.deletion_grace_period_seconds != Some(0);
    let is_placed =
        pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_some_and(|name| !name.is_empty());
    let given_up = |node: &Node| {
        let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        !is_ready(node) && taints.any(|taint| taint.key == OUT_OF_SERVICE)
    };
    is_leaving && (!is_placed || node.is_some_and(given_up))
}

fn disrupted(
    pod: &Pod,
    mut status: PodStatus,
    (reason, message): (&str, &str),
    now: Timestamp,
) -> Option<PodStatus> {
    const DISRUPTED: &str = "DisruptionTarget";
    let conditions = status.conditions.get_or_insert_default();
    if conditions
        .iter()
        .any(|one| one.type_ == DISRUPTED && one.status == "True" && one.reason.as_deref() == Some(reason))
    {
        return None;
    }
    conditions.retain(|one| one.type_ != DISRUPTED);
    conditions.push(PodCondition {
        type_: DISRUPTED.into(),
        status: "True".into(),
        reason: Some(reason.into()),
        message: Some(message.into()),
        observed_generation: pod.metadata.generation,
        last_probe_time: None,
        last_transition_time: Some(second(now)),
    });
    Some(status)
}

fn second(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}
