//! The conditions of a Deployment.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DeploymentCondition, DeploymentStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::replicasets::to_the_second;

pub(super) const AVAILABLE: &str = "Available";
pub(super) const PROGRESSING: &str = "Progressing";
pub(super) const REPLICA_FAILURE: &str = "ReplicaFailure";

pub(super) const CREATED: &str = "NewReplicaSetCreated";
pub(super) const FOUND: &str = "FoundNewReplicaSet";
pub(super) const UPDATED: &str = "ReplicaSetUpdated";
pub(super) const COMPLETE: &str = "NewReplicaSetAvailable";
pub(super) const TIMED_OUT: &str = "ProgressDeadlineExceeded";
pub(super) const PAUSED: &str = "DeploymentPaused";
pub(super) const RESUMED: &str = "DeploymentResumed";
pub(super) const CREATE_FAILED: &str = "ReplicaSetCreateError";

pub(super) fn new(
    type_: &str,
    status: &str,
    reason: &str,
    message: impl Into<String>,
    now: Timestamp,
) -> DeploymentCondition {
    let now = Time(to_the_second(now));
    DeploymentCondition {
        type_: type_.into(),
        status: status.into(),
        reason: Some(reason.into()),
        message: Some(message.into()),
        last_update_time: Some(now.clone()),
        last_transition_time: Some(now),
    }
}

pub(super) fn get<'a>(status: &'a DeploymentStatus, type_: &str) -> Option<&'a DeploymentCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == type_)
}

pub(super) fn reason<'a>(status: &'a DeploymentStatus, type_: &str) -> Option<&'a str> {
    get(status, type_)?.reason.as_deref()
}

/// Sets a condition, unless it holds already for the same reason: then it keeps its message and times.
pub(super) fn set(status: &mut DeploymentStatus, mut condition: DeploymentCondition) {
    if let Some(before) = get(status, &condition.type_)
        && before.status == condition.status
    {
        if before.reason == condition.reason {
            return;
        }
        condition.last_transition_time = before.last_transition_time.clone();
    }
    replace(status, condition);
}

/// Sets a condition, also where it holds already; it comes last.
pub(super) fn replace(status: &mut DeploymentStatus, condition: DeploymentCondition) {
    remove(status, &condition.type_);
    status.conditions.get_or_insert_default().push(condition);
}

pub(super) fn remove(status: &mut DeploymentStatus, type_: &str) {
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|condition| condition.type_ != type_);
        if conditions.is_empty() {
            status.conditions = None;
        }
    }
}
