//! What a ReplicaSet needs: pods made or deleted, and a status that says how it stands.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::core::{Selector, SelectorExt as _};
use kube::{Resource as _, ResourceExt as _};

use super::claim::{self, Claims};
use super::order::first_to_go;
use super::owned::controller_of;
use super::pods::{available_at, is_active, is_available, is_ready, is_terminating};

/// So many pods are made or deleted before the status is told again.
const BURST: usize = 500;
const FAILURE: &str = "ReplicaFailure";
/// Longer names than this are refused.
const LONGEST_NAME: usize = 253;

/// What to do about one ReplicaSet, in this order.
pub(super) struct Plan {
    pub(super) claims: Claims<Pod>,
    pub(super) change: Change,
}

/// How the number of pods has to change.
#[derive(Debug, PartialEq)]
pub(super) enum Change {
    Nothing,
    Create(usize),
    Delete(Vec<Arc<Pod>>),
}

/// A change that did not succeed, as the status tells it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Failure {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// Decides over the pods that a ReplicaSet has and those that nobody has. `related` finds the pods beside
/// which one more on the same node is dispensable: it is asked only where pods have to go.
pub(super) fn plan(
    now: Timestamp,
    set: &ReplicaSet,
    selector: &Selector,
    pods: Vec<Arc<Pod>>,
    related: impl FnOnce() -> Vec<Arc<Pod>>,
) -> Plan {
    let claims = claim::decide(set.meta(), selector, pods.into_iter().filter(|pod| is_active(pod)));
    let (has, wanted) = (claims.mine.len(), replicas(set));
    let change = if set.metadata.deletion_timestamp.is_some() || has == wanted {
        Change::Nothing
    } else if has < wanted {
        Change::Create((wanted - has).min(BURST))
    } else {
        Change::Delete(first_to_go(&claims.mine, &related(), (has - wanted).min(BURST), now))
    };
    Plan { claims, change }
}

/// The pod that a ReplicaSet makes for `owner`, which is the set itself or what it stands for.
pub(super) fn pod(set: &ReplicaSet, owner: OwnerReference) -> Pod {
    let template = set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
    pod_of(template, &set.metadata, owner)
}

/// A pod of a template, named after the object with this metadata.
pub(crate) fn pod_of(template: PodTemplateSpec, of: &ObjectMeta, owner: OwnerReference) -> Pod {
    let meta = template.metadata.unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(prefix_of(of.name.clone().unwrap_or_default())),
            namespace: of.namespace.clone(),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    }
}

/// Whether a kind's status counts the pods that are on their way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terminating {
    Counted,
    /// Its API has no field for them.
    Unknown,
}

/// What the names of an owner's pods begin with.
pub(crate) fn prefix(owner: &impl kube::Resource) -> String {
    prefix_of(owner.name_any())
}

fn prefix_of(name: String) -> String {
    if name.len() < LONGEST_NAME { format!("{name}-") } else { name }
}

/// The status that a ReplicaSet should have, unless it has it already.
pub(super) fn status(
    now: Timestamp,
    set: &ReplicaSet,
    selector: &Selector,
    pods: &[Arc<Pod>],
    counts: Terminating,
    failure: Option<&Failure>,
) -> Option<ReplicaSetStatus> {
    let before = set.status.clone().unwrap_or_default();
    let mine = |pod: &&Arc<Pod>| {
        controller_of(&***pod).map(|owner| &owner.uid) == set.metadata.uid.as_ref()
            && selector.matches(pod.labels())
    };
    let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
    let labels = template.and_then(|template| template.metadata.as_ref()?.labels.as_ref());
    let fully_labeled =
        |pod: &Pod| labels.into_iter().flatten().all(|(key, value)| pod.labels().get(key) == Some(value));
    let (mut replicas, mut labeled, mut ready, mut available, mut terminating) = (0, 0, 0, 0, 0);
    for pod in pods.iter().filter(mine) {
        if is_active(pod) {
            replicas += 1;
            labeled += i32::from(fully_labeled(pod));
            ready += i32::from(is_ready(pod));
            available += i32::from(is_available(pod, min_ready_seconds(set), now));
        } else {
            terminating += i32::from(is_terminating(pod));
        }
    }
    let after = ReplicaSetStatus {
        replicas,
        fully_labeled_replicas: unless_zero(labeled),
        ready_replicas: unless_zero(ready),
        available_replicas: unless_zero(available),
        terminating_replicas: (counts == Terminating::Counted).then_some(terminating),
        observed_generation: set.metadata.generation,
        conditions: conditions(now, &before, failure),
    };
    (after != before).then_some(after)
}

fn conditions(
    now: Timestamp,
    before: &ReplicaSetStatus,
    failure: Option<&Failure>,
) -> Option<Vec<ReplicaSetCondition>> {
    let mut conditions = before.conditions.clone().unwrap_or_default();
    let failed = conditions.iter().position(|condition| condition.type_ == FAILURE);
    match (failure, failed) {
        (Some(failure), None) => conditions.push(ReplicaSetCondition {
            type_: FAILURE.into(),
            status: "True".into(),
            last_transition_time: Some(Time(to_the_second(now))),
            reason: Some(failure.reason.into()),
            message: Some(failure.message.clone()),
        }),
        (None, Some(place)) => drop(conditions.remove(place)),
        // The first failure stays told: a message that changes with every attempt would be written each time.
        (Some(_), Some(_)) | (None, None) => {}
    }
    (!conditions.is_empty()).then_some(conditions)
}

/// How long until the next pod has been ready for long enough.
pub(super) fn next_availability(now: Timestamp, set: &ReplicaSet, pods: &[Arc<Pod>]) -> Option<Duration> {
    let seconds = min_ready_seconds(set);
    next_of(now, seconds, pods)
}

/// How long until the next of these pods has been ready for so many seconds.
pub(crate) fn next_of(now: Timestamp, seconds: i32, pods: &[Arc<Pod>]) -> Option<Duration> {
    if seconds == 0 {
        return None;
    }
    let times = pods.iter().filter(|pod| is_active(pod)).filter_map(|pod| available_at(pod, seconds));
    times.filter(|at| *at > now).map(|at| at.duration_since(now).unsigned_abs()).min()
}

pub(super) fn replicas(set: &ReplicaSet) -> usize {
    let replicas = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    replicas.try_into().unwrap_or(0)
}

fn min_ready_seconds(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
}

/// Counts of zero are not written, and so not read back either.
pub(crate) fn unless_zero(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}

/// Times are written in whole seconds: finer ones would differ from themselves when read back.
pub(crate) fn to_the_second(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}
