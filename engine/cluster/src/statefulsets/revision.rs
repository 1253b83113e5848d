//! Which revision a StatefulSet is at, which one it goes to, and which are forgotten.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::Pod;

use super::identity;
use crate::revisions;

/// The label that carries a revision's hash.
const HASH: &str = "controller.kubernetes.io/hash";

/// How the revision of a set's template comes to be the newest.
#[derive(Debug, PartialEq)]
pub(super) enum Target {
    /// It is.
    Known(Arc<ControllerRevision>),
    /// The template was there before: its revision becomes the newest again, with this number.
    Renumber(Arc<ControllerRevision>, i64),
    /// There was none like it; it gets this number.
    Create(i64),
}

/// Decides over the revisions of a set, the oldest first.
pub(super) fn target(set: &StatefulSet, revisions: &[Arc<ControllerRevision>]) -> Target {
    let Some(newest) = revisions.last() else { return Target::Create(1) };
    let Some(spec) = &set.spec else { return Target::Known(newest.clone()) };
    let next = newest.revision + 1;
    match revisions.iter().rev().find(|one| revisions::restores(one, &spec.template)) {
        Some(same) if Arc::ptr_eq(same, newest) => Target::Known(same.clone()),
        Some(same) => Target::Renumber(same.clone(), next),
        None => Target::Create(next),
    }
}

/// The revision that the pods of a set had before the update to `target` began.
pub(super) fn current(
    set: &StatefulSet,
    revisions: &[Arc<ControllerRevision>],
    target: &Arc<ControllerRevision>,
) -> Arc<ControllerRevision> {
    let name = set.status.as_ref().and_then(|status| status.current_revision.as_ref());
    let known = revisions.iter().find(|one| one.metadata.name.as_ref() == name);
    known.unwrap_or(target).clone()
}

/// A revision of a set's template, to be made.
pub(super) fn new(set: &StatefulSet, number: i64, collisions: i32) -> ControllerRevision {
    let template = set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let hash = revisions::hash(&revisions::data(&template), collisions);
    revisions::revision(set, &template, (HASH, &hash), number)
}

/// The revisions that go because history is longer than its limit. Those that pods have, or are going to, stay.
pub(super) fn expired(
    set: &StatefulSet,
    revisions: &[Arc<ControllerRevision>],
    in_use: [&ControllerRevision; 2],
    pods: &[Arc<Pod>],
) -> Vec<Arc<ControllerRevision>> {
    let limit = set.spec.as_ref().and_then(|spec| spec.revision_history_limit).unwrap_or(10);
    let Ok(limit) = usize::try_from(limit) else { return Vec::new() };
    let mut live: BTreeSet<&str> = pods.iter().map(|pod| identity::revision(pod)).collect();
    live.extend(in_use.iter().filter_map(|one| one.metadata.name.as_deref()));
    let is_live =
        |one: &&Arc<ControllerRevision>| live.contains(one.metadata.name.as_deref().unwrap_or_default());
    let history: Vec<_> = revisions.iter().filter(|one| !is_live(one)).cloned().collect();
    let excess = history.len().saturating_sub(limit);
    history.into_iter().take(excess).collect()
}
