//! What counts about a Job's pod: whether it is tracked, its completion index, how it ended and when.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt as _;

use crate::replicasets::pods::phase;

/// Holds a pod until its end has been counted.
pub(super) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// Annotation and label with the index of a pod of an Indexed Job.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// How often pods of this index failed before this one.
pub(super) const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// How often they failed in a way that the pod failure policy ignores.
pub(super) const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
/// The value of `managedBy` that means this controller.
const CONTROLLER: &str = "kubernetes.io/job-controller";

/// The condition by which a Job is over, if it is.
pub(crate) fn finished(job: &Job) -> Option<&JobCondition> {
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .filter(|one| matches!(one.type_.as_str(), "Complete" | "Failed"))
        .find(|one| one.status == "True")
}

/// The other controller that a Job is left to, if it names one.
pub(super) fn manager(job: &Job) -> Option<&str> {
    let manager = job.spec.as_ref()?.managed_by.as_deref()?;
    (manager != CONTROLLER).then_some(manager)
}

pub(super) fn is_indexed(spec: &JobSpec) -> bool {
    spec.completion_mode.as_deref() == Some("Indexed")
}

pub(super) fn is_suspended(spec: &JobSpec) -> bool {
    spec.suspend == Some(true)
}

/// A pod that was told to end is replaced only once it has.
pub(super) fn replaces_only_failed(spec: &JobSpec) -> bool {
    spec.pod_replacement_policy.as_deref() == Some("Failed") || spec.pod_failure_policy.is_some()
}

/// The number of completions of an Indexed Job, which always has one.
pub(super) fn completions(spec: &JobSpec) -> usize {
    spec.completions.and_then(|completions| completions.try_into().ok()).unwrap_or(0)
}

pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.finalizers().iter().any(|finalizer| finalizer == FINALIZER)
}

pub(super) fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

pub(super) fn index(pod: &Pod) -> Option<usize> {
    pod.annotations().get(INDEX)?.parse().ok()
}

/// The index of a pod, if the Job has that index.
pub(super) fn valid_index(spec: &JobSpec, pod: &Pod) -> Option<usize> {
    index(pod).filter(|index| *index < completions(spec))
}

/// The indexes of some pods, in order.
pub(super) fn indexes<'a>(pods: impl IntoIterator<Item = &'a Arc<Pod>>) -> std::collections::BTreeSet<usize> {
    pods.into_iter().filter_map(|pod| index(pod)).collect()
}

pub(super) fn failures(pod: &Pod) -> i32 {
    count(pod, FAILURES)
}

pub(super) fn ignored_failures(pod: &Pod) -> i32 {
    count(pod, IGNORED_FAILURES)
}

/// A number that a user may have written over: what makes no sense is none.
fn count(pod: &Pod, annotation: &str) -> i32 {
    let count = pod.annotations().get(annotation).and_then(|count| count.parse().ok());
    count.filter(|count| *count >= 0).unwrap_or(0)
}

pub(super) fn has_succeeded(pod: &Pod) -> bool {
    phase(pod) == "Succeeded"
}

/// Failed, or was told to go before it ended: nobody may ever see how that ends. Where pods are replaced only
/// once they have ended, that is waited for.
pub(super) fn has_failed(spec: &JobSpec, pod: &Pod) -> bool {
    phase(pod) == "Failed"
        || !replaces_only_failed(spec) && pod.metadata.deletion_timestamp.is_some() && !has_succeeded(pod)
}

/// When a pod ended, as well as it can be told.
pub(super) fn finished_at(pod: &Pod) -> Timestamp {
    let created = || pod.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    containers_ended(pod).or_else(|| unready_since(pod)).or_else(|| told_to_go(pod)).unwrap_or_else(created)
}

/// When the last container ended, sidecars included; none if one has not.
fn containers_ended(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars: Vec<&str> = init
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| container.name.as_str())
        .collect();
    let beside = status.init_container_statuses.iter().flatten();
    let beside = beside.filter(|one| sidecars.contains(&one.name.as_str()));
    let ended = |one: &ContainerStatus| {
        one.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref().map(|time| time.0)
    };
    let times = status.container_statuses.iter().flatten().chain(beside).map(ended);
    times.collect::<Option<Vec<_>>>()?.into_iter().max()
}

fn unready_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|one| one.type_ == "Ready").filter(|one| one.status == "False")?;
    Some(ready.last_transition_time.as_ref()?.0)
}

fn told_to_go(pod: &Pod) -> Option<Timestamp> {
    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
    pod.metadata.deletion_timestamp.as_ref()?.0.checked_sub(SignedDuration::from_secs(grace)).ok()
}
