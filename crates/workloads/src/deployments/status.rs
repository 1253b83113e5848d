//! The status of a federated Deployment as its API has it.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::barred::{Barred, CONDITION};
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
    let moved = has_progressed(deployment, status);
    let conditions = status.conditions.iter().cloned().chain(more).map(|one| match one.kind {
        "Progressing" => progressing(now, known, one, moved),
        _ => condition(now, known, one),
    });
    DeploymentStatus {
        observed_generation: Some(status.observed_generation),
        replicas: count(status.replicas),
        updated_replicas: count(status.updated),
        ready_replicas: count(status.ready),
        available_replicas: count(status.available),
        unavailable_replicas: count(status.unavailable),
        conditions: Some(conditions.collect()),
        collision_count: before.and_then(|status| status.collision_count),
        terminating_replicas: before.and_then(|status| status.terminating_replicas),
    }
}

/// The status of a Deployment that is not placed: what it says of replicas stays, and nothing progresses.
pub(super) fn barred(now: Timestamp, deployment: &Deployment, barred: &Barred) -> DeploymentStatus {
    let before = deployment.status.clone().unwrap_or_default();
    let known = before.conditions.clone().unwrap_or_default();
    let said = [
        Condition {
            kind: "Progressing",
            status: "False",
            reason: "ProgressDeadlineExceeded",
            message: barred.message.clone(),
        },
        Condition {
            kind: CONDITION,
            status: "False",
            reason: barred.reason,
            message: barred.message.clone(),
        },
    ];
    let mut conditions: Vec<DeploymentCondition> =
        known.iter().filter(|one| said.iter().all(|said| said.kind != one.type_)).cloned().collect();
    conditions.extend(said.into_iter().map(|one| condition(now, &known, one)));
    DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        conditions: Some(conditions),
        ..before
    }
}

/// Whether any count is nearer to its end than it was, as a Deployment controller judges that, or the user wants something else.
fn has_progressed(deployment: &Deployment, status: &Status) -> bool {
    let Some(before) = &deployment.status else { return true };
    let count = |count: Option<i32>| i64::from(count.unwrap_or(0));
    let old = count(before.replicas) - count(before.updated_replicas);
    before.observed_generation != Some(status.observed_generation)
        || status.updated > count(before.updated_replicas)
        || status.replicas - status.updated < old
        || status.ready > count(before.ready_replicas)
        || status.available > count(before.available_replicas)
}

/// The condition `Progressing`: its time of the last update is that of the last progress, which is what the deadline counts from.
/// What it waits for may change its words meanwhile.
fn progressing(
    now: Timestamp,
    known: &[DeploymentCondition],
    one: Condition,
    moved: bool,
) -> DeploymentCondition {
    let last = known.iter().find(|last| last.type_ == one.kind);
    let same = last.filter(|last| last.status == one.status && last.reason.as_deref() == Some(one.reason));
    let since = same.filter(|_| !moved).and_then(|last| last.last_update_time.clone());
    DeploymentCondition { last_update_time: since.or(Some(Time(now))), ..condition(now, known, one) }
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
