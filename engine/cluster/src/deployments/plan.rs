//! What a Deployment needs next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};
use kube::ResourceExt as _;

use super::conditions::{self, CREATE_FAILED, PROGRESSING};
use super::draft::Draft;
use super::limits::Strategy;
use super::sets::Set;

/// What to do about one Deployment: the steps in their order, and then its status.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    /// The status that it should have, unless it has it already.
    pub(super) status: Option<DeploymentStatus>,
    /// The revision that it should be annotated with, unless it is.
    pub(super) revision: Option<String>,
    /// When to look again if nothing changes until then.
    pub(super) look_again: Option<Duration>,
}

/// One change of one ReplicaSet, and what it is for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Create { set: Box<ReplicaSet>, why: &'static str },
    Update(Box<Update>),
    Delete { set: Arc<ReplicaSet>, why: &'static str },
}

/// What changes in a ReplicaSet that is there already.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Update {
    pub(super) set: Arc<ReplicaSet>,
    /// Only if it changes.
    pub(super) replicas: Option<i32>,
    pub(super) min_ready_seconds: i32,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) why: &'static str,
}

/// Decides over a Deployment and its ReplicaSets. `running` are pods that have not ended, by the uid of
/// their set; only what recreates its pods looks at it.
pub(super) fn plan(
    now: Timestamp,
    deployment: &Deployment,
    sets: Vec<Arc<ReplicaSet>>,
    running: &BTreeMap<String, usize>,
) -> Plan {
    let Some(spec) = &deployment.spec else { return Plan::default() };
    let mut draft = Draft::of(now, deployment, spec, sets);
    draft.find_new();
    if deployment.metadata.deletion_timestamp.is_some() {
        let status = draft.counted();
        return finish(draft, status);
    }
    draft.note_pause();
    if draft.is_paused() || draft.was_scaled() {
        draft.resize();
        if draft.is_paused() {
            draft.retire();
        }
        let status = draft.counted();
        return finish(draft, status);
    }
    match draft.limits.strategy {
        Strategy::Recreate => draft.recreate(running),
        Strategy::Rolling => draft.roll(),
    }
    let status = draft.progressed();
    let look_again = draft.look_again(&status);
    Plan { look_again, ..finish(draft, status) }
}

fn finish(draft: Draft<'_>, status: DeploymentStatus) -> Plan {
    let touched = draft.touched.iter().map(|index| step(&draft.sets[*index]));
    let retired = draft.retired.iter().map(|index| Step::Delete {
        set: draft.sets[*index].object.clone(),
        why: "history is longer than its limit",
    });
    let steps = touched.chain(retired).collect();
    let before = draft.deployment.status.as_ref();
    let changed = before != Some(&status) && !(before.is_none() && status == DeploymentStatus::default());
    Plan { steps, status: changed.then_some(status), revision: draft.revision, look_again: None }
}

fn step(set: &Set) -> Step {
    if set.born {
        let mut object = ReplicaSet::clone(&set.object);
        object.annotations_mut().extend(set.annotate.clone());
        if let Some(spec) = &mut object.spec {
            spec.replicas = Some(set.replicas);
        }
        return Step::Create { set: Box::new(object), why: set.why };
    }
    let before = Set::of(set.object.clone()).replicas;
    Step::Update(Box::new(Update {
        set: set.object.clone(),
        replicas: (set.replicas != before).then_some(set.replicas),
        min_ready_seconds: set.min_ready_seconds,
        annotations: set.annotate.clone(),
        why: set.why,
    }))
}

impl Step {
    /// What it is for.
    pub(super) fn why(&self) -> &'static str {
        match self {
            Step::Create { why, .. } | Step::Delete { why, .. } => why,
            Step::Update(update) => update.why,
        }
    }

    /// What users are told about a step that changes a size.
    pub(super) fn message(&self) -> Option<String> {
        let (set, from, to) = match self {
            Step::Create { set, .. } => (&**set, 0, set.spec.as_ref()?.replicas?),
            Step::Update(update) => (&*update.set, update.set.spec.as_ref()?.replicas?, update.replicas?),
            Step::Delete { .. } => return None,
        };
        let way = if from < to { "up" } else { "down" };
        (from != to).then(|| format!("Scaled {way} replica set {} from {from} to {to}", set.name_any()))
    }
}

/// The status of a Deployment whose new ReplicaSet the server refused, if it measures progress.
pub(super) fn refused(now: Timestamp, deployment: &Deployment, message: &str) -> Option<DeploymentStatus> {
    let spec = deployment.spec.as_ref()?;
    spec.progress_deadline_seconds.filter(|seconds| *seconds != i32::MAX)?;
    let mut status = deployment.status.clone().unwrap_or_default();
    let condition = conditions::new(PROGRESSING, "False", CREATE_FAILED, message, now);
    conditions::set(&mut status, condition);
    (deployment.status.as_ref() != Some(&status)).then_some(status)
}

/// The status of a Deployment whose new ReplicaSet would have another's name: the next hash is different.
pub(super) fn collided(deployment: &Deployment) -> DeploymentStatus {
    let mut status = deployment.status.clone().unwrap_or_default();
    status.collision_count = Some(status.collision_count.unwrap_or(0).saturating_add(1));
    status
}
