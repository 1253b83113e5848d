//! The revisions of a DaemonSet's template.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use super::fit::HASH;
use crate::deployments::template;
use crate::revisions;

/// The revisions of a set, sorted by what they are for.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Sorted {
    /// Those of the template that the set has; there should be one.
    pub(super) current: Vec<Arc<ControllerRevision>>,
    pub(super) old: Vec<Arc<ControllerRevision>>,
}

impl Sorted {
    pub(super) fn of(set: &DaemonSet, revisions: Vec<Arc<ControllerRevision>>) -> Sorted {
        let Some(spec) = &set.spec else { return Sorted { current: Vec::new(), old: revisions } };
        let (current, old) = revisions.into_iter().partition(|one| revisions::restores(one, &spec.template));
        Sorted { current, old }
    }

    /// The number that the current revision has to have, at least.
    pub(super) fn number(&self) -> i64 {
        self.old.iter().map(|one| one.revision).max().unwrap_or(0).max(0) + 1
    }

    /// The one to keep of those that are the same.
    pub(super) fn keeper(&self) -> Option<&Arc<ControllerRevision>> {
        self.current.iter().max_by_key(|one| one.revision)
    }
}

/// The hash by which pods of a revision are known.
pub(super) fn hash(revision: &ControllerRevision) -> &str {
    revision.labels().get(HASH).map(String::as_str).unwrap_or_default()
}

/// A revision of a set's template, to be made.
pub(super) fn new(set: &DaemonSet, number: i64) -> ControllerRevision {
    let template = set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let collisions = set.status.as_ref().and_then(|status| status.collision_count);
    let hash = template::hash(&template, collisions);
    revisions::revision(set, &template, (HASH, &hash), number)
}

/// The revisions that go because history is longer than its limit, the oldest first. Those that pods have stay.
pub(super) fn expired(
    set: &DaemonSet,
    mut old: Vec<Arc<ControllerRevision>>,
    pods: &[Arc<Pod>],
) -> Vec<Arc<ControllerRevision>> {
    let limit = set.spec.as_ref().and_then(|spec| spec.revision_history_limit).unwrap_or(10);
    let excess = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    let live: BTreeSet<&String> = pods.iter().filter_map(|pod| pod.labels().get(HASH)).collect();
    revisions::sort(&mut old);
    old.retain(|one| !one.labels().get(HASH).is_some_and(|hash| live.contains(hash)));
    old.truncate(excess);
    old
}
