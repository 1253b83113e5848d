//! The status of a federated Deployment as its API has it.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::rollout::{Condition, Status};

/// The status to be written. A condition that says the same as before keeps its times.
pub(super) fn status(
    now: Timestamp,
    deployment: &Deployment,
    status: &Status,
    more: impl IntoIterator<Item = Condition>,
) -> DeploymentStatus {
    let before = deployment.status.as_ref();
    let known = before.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let count = |count: i64| Some(i32::try_from(count.max(0)).unwrap_or(i32::MAX));
    let conditions = status.conditions.iter().cloned().chain(more);
    DeploymentStatus {
        observed_generation: Some(status.observed_generation),
        replicas: count(status.replicas),
        updated_replicas: count(status.updated),
        ready_replicas: count(status.ready),
        available_replicas: count(status.available),
        unavailable_replicas: count(status.unavailable),
        conditions: Some(conditions.map(|one| condition(now, known, one)).collect()),
        collision_count: before.and_then(|status| status.collision_count),
        terminating_replicas: before.and_then(|status| status.terminating_replicas),
    }
}

fn condition(now: Timestamp, known: &[DeploymentCondition], one: Condition) -> DeploymentCondition {
    let last = known.iter().find(|last| last.type_ == one.kind);
    let same = last.filter(|last| last.status == one.status);
    let untouched = same.filter(|last| {
        last.reason.as_deref() == Some(one.reason) && last.message.as_deref() == Some(one.message.as_str())
    });
    DeploymentCondition {
        type_: one.kind.to_owned(),
        status: one.status.to_owned(),
        reason: Some(one.reason.to_owned()),
        message: Some(one.message),
        last_transition_time: same.and_then(|last| last.last_transition_time.clone()).or(Some(Time(now))),
        last_update_time: untouched.and_then(|last| last.last_update_time.clone()).or(Some(Time(now))),
    }
}
