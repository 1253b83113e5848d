//! What counts about a pod: is it there to stay, is it ready, and since when.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition};

/// The phase that the node reports; empty before it reported any.
pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Its containers have ended for good.
pub(crate) fn is_terminal(pod: &Pod) -> bool {
    matches!(phase(pod), "Failed" | "Succeeded")
}

/// Counts as a replica: it has neither ended nor been told to.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_terminal(pod) && pod.metadata.deletion_timestamp.is_none()
}

/// Was told to end and has not yet.
pub(crate) fn is_terminating(pod: &Pod) -> bool {
    !is_terminal(pod) && pod.metadata.deletion_timestamp.is_some()
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    readiness(pod).is_some()
}

/// When it became ready, if it is and that was noted.
pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    Some(readiness(pod)?.last_transition_time.as_ref()?.0)
}

/// Has been ready for so many seconds.
pub(crate) fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    is_ready(pod)
        && (min_ready_seconds == 0 || available_at(pod, min_ready_seconds).is_some_and(|at| at <= now))
}

/// When a ready pod will have been ready for so many seconds, unless that was long ago or is unknown.
pub(crate) fn available_at(pod: &Pod, min_ready_seconds: i32) -> Option<Timestamp> {
    ready_since(pod)?.checked_add(SignedDuration::from_secs(min_ready_seconds.into())).ok()
}

fn readiness(pod: &Pod) -> Option<&PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "Ready").filter(|ready| ready.status == "True")
}
