//! How many pods of a budget may go right now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, OwnerReference, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;

const ALLOWED: &str = "DisruptionAllowed";
/// A pod that an eviction promised to delete counts as gone for so long; after that it evidently stayed.
const PROMISED: SignedDuration = SignedDuration::from_mins(2);

/// Everything that the status of a budget follows from.
pub(super) struct Look<'a> {
    pub(super) budget: &'a PodDisruptionBudget,
    /// The pods that the budget selects.
    pub(super) pods: &'a [Arc<Pod>],
    /// What the controllers of the pods want, or why nobody can say, by the uid of the reference; those that
    /// were not found lack.
    pub(super) scales: &'a BTreeMap<String, Result<Scale, String>>,
    pub(super) now: Timestamp,
}

/// How many pods a controller wants to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    /// Who says so: several ReplicaSets may stand for one Deployment.
    pub(super) uid: String,
    pub(super) replicas: i32,
}

/// What to write, and what to say about it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// Nothing if the status says all this already.
    pub(super) status: Option<PodDisruptionBudgetStatus>,
    /// Promises that were not kept: pods that an eviction let go and nobody deleted.
    pub(super) kept: Vec<String>,
    /// When a promise runs out.
    pub(super) recheck: Option<Timestamp>,
    /// Pods that nobody controls, where that makes the number uncertain.
    pub(super) unmanaged: bool,
    /// Why no number could be found; then nothing may go.
    pub(super) failure: Option<String>,
}

pub(super) fn plan(look: &Look<'_>) -> Plan {
    let before = look.budget.status.clone().unwrap_or_default();
    let (expected, desired, unmanaged) = match expected(look) {
        Ok(expected) => expected,
        Err(failure) => return fail_safe(look, before, failure),
    };
    let Promises { open, recheck, kept } = promises(look, &before);
    let healthy = look.pods.iter().filter(|pod| {
        pod.metadata.deletion_timestamp.is_none() && !open.contains_key(&pod.name_any()) && is_ready(pod)
    });
    let healthy = i32::try_from(healthy.count()).unwrap_or(i32::MAX);
    // Without pods nothing may go either: the first ones may be there before this looks again.
    let allowed = if expected > 0 { healthy.saturating_sub(desired).max(0) } else { 0 };
    let (status, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let generation = look.budget.metadata.generation.unwrap_or(0);
    let mut after = PodDisruptionBudgetStatus {
        current_healthy: Some(healthy),
        desired_healthy: Some(desired),
        expected_pods: Some(expected),
        disruptions_allowed: Some(allowed),
        disrupted_pods: Some(open).filter(|open| !open.is_empty()),
        observed_generation: Some(generation),
        conditions: before.conditions.clone(),
    };
    set_condition(&mut after, status, reason, String::new(), look.now);
    Plan { status: (!same(&before, &after)).then_some(after), kept, recheck, unmanaged, failure: None }
}

/// How many pods there should be, how many of them healthy, and whether some belong to nobody.
fn expected(look: &Look<'_>) -> Result<(i32, i32, bool), String> {
    let none = PodDisruptionBudgetSpec::default();
    let spec = look.budget.spec.as_ref().unwrap_or(&none);
    if let Some(most) = &spec.max_unavailable {
        let (expected, unmanaged) = wanted(look)?;
        let most = scaled(most, expected)?;
        return Ok((expected, expected.saturating_sub(most).max(0), unmanaged));
    }
    match &spec.min_available {
        Some(IntOrString::Int(least)) => {
            Ok((i32::try_from(look.pods.len()).unwrap_or(i32::MAX), *least, false))
        }
        Some(least) => {
            let (expected, unmanaged) = wanted(look)?;
            Ok((expected, scaled(least, expected)?, unmanaged))
        }
        None => Ok((0, 0, false)),
    }
}

/// What all controllers of the pods together want.
fn wanted(look: &Look<'_>) -> Result<(i32, bool), String> {
    let mut counted = BTreeSet::new();
    let (mut sum, mut unmanaged) = (0i32, false);
    for pod in look.pods {
        let Some(controller) = controller(pod.owner_references()) else {
            unmanaged = true;
            continue;
        };
        let scale = match look.scales.get(&controller.uid) {
            Some(Ok(scale)) => scale,
            Some(Err(why)) => return Err(why.clone()),
            None => return Err(format!("found no controllers for pod {:?}", pod.name_any())),
        };
        if counted.insert(&scale.uid) {
            sum = sum.saturating_add(scale.replicas);
        }
    }
    Ok((sum, unmanaged))
}

/// The owner that controls an object.
pub(super) fn controller(owners: &[OwnerReference]) -> Option<&OwnerReference> {
    owners.iter().find(|owner| owner.controller == Some(true))
}

/// Whether the number of pods that controllers want matters.
pub(super) fn needs_scales(budget: &PodDisruptionBudget) -> bool {
    let Some(spec) = &budget.spec else { return false };
    spec.max_unavailable.is_some() || matches!(spec.min_available, Some(IntOrString::String(_)))
}

/// A number, or so many of a hundred, rounded up.
fn scaled(amount: &IntOrString, of: i32) -> Result<i32, String> {
    let text = match amount {
        IntOrString::Int(number) => return Ok(*number),
        IntOrString::String(text) => text,
    };
    let percent = text.strip_suffix('%').and_then(|number| number.parse::<i64>().ok());
    let percent = percent.ok_or_else(|| {
        format!("invalid value for IntOrString: invalid type: string is not a percentage: {text:?}")
    })?;
    let exact = i64::from(of) * percent;
    let rounded = exact.div_euclid(100) + i64::from(exact.rem_euclid(100) > 0);
    Ok(i32::try_from(rounded).unwrap_or(i32::MAX))
}

struct Promises {
    open: BTreeMap<String, Time>,
    recheck: Option<Timestamp>,
    kept: Vec<String>,
}

/// Which of the pods that evictions let go have still not gone, though they soon should.
fn promises(look: &Look<'_>, before: &PodDisruptionBudgetStatus) -> Promises {
    let mut promises = Promises { open: BTreeMap::new(), recheck: None, kept: Vec::new() };
    let promised = before.disrupted_pods.clone().unwrap_or_default();
    for pod in look.pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
        let Some(since) = promised.get(&pod.name_any()) else { continue };
        let end = since.0 + PROMISED;
        if end < look.now {
            promises.kept.push(pod.name_any());
            continue;
        }
        promises.recheck = Some(promises.recheck.map_or(end, |earlier| earlier.min(end)));
        promises.open.insert(pod.name_any(), since.clone());
    }
    promises
}

/// Without a number nothing may go: that much at least is said.
fn fail_safe(look: &Look<'_>, before: PodDisruptionBudgetStatus, failure: String) -> Plan {
    let mut after = PodDisruptionBudgetStatus { disruptions_allowed: Some(0), ..before.clone() };
    set_condition(&mut after, "False", "SyncFailed", failure.clone(), look.now);
    Plan { status: (!same(&before, &after)).then_some(after), failure: Some(failure), ..Plan::default() }
}

fn set_condition(
    after: &mut PodDisruptionBudgetStatus,
    status: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) {
    let mut condition = Condition {
        type_: ALLOWED.into(),
        status: status.into(),
        reason: reason.into(),
        message,
        observed_generation: after.observed_generation,
        last_transition_time: Time(now),
    };
    let conditions = after.conditions.get_or_insert_default();
    match conditions.iter_mut().find(|old| old.type_ == ALLOWED) {
        Some(old) => {
            if old.status == condition.status {
                condition.last_transition_time = old.last_transition_time.clone();
            }
            *old = condition;
        }
        None => conditions.push(condition),
    }
}

/// Equal, where a number that is not there is zero.
fn same(one: &PodDisruptionBudgetStatus, other: &PodDisruptionBudgetStatus) -> bool {
    let plain = |status: &PodDisruptionBudgetStatus| PodDisruptionBudgetStatus {
        current_healthy: Some(status.current_healthy.unwrap_or(0)),
        desired_healthy: Some(status.desired_healthy.unwrap_or(0)),
        expected_pods: Some(status.expected_pods.unwrap_or(0)),
        disruptions_allowed: Some(status.disruptions_allowed.unwrap_or(0)),
        disrupted_pods: Some(status.disrupted_pods.clone().unwrap_or_default()),
        observed_generation: Some(status.observed_generation.unwrap_or(0)),
        conditions: Some(status.conditions.clone().unwrap_or_default()),
    };
    plain(one) == plain(other)
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
