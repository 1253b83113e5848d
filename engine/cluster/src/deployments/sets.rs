//! The ReplicaSets of a Deployment while a plan is made: as they are, and as they shall be.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::ResourceExt as _;

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
pub(super) const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAX: &str = "deployment.kubernetes.io/max-replicas";

/// One ReplicaSet.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) object: Arc<ReplicaSet>,
    /// It is yet to be made.
    pub(super) born: bool,
    /// What it shall have: replicas, seconds to be ready, annotations beside those it has.
    pub(super) replicas: i32,
    pub(super) min_ready_seconds: i32,
    pub(super) annotate: BTreeMap<String, String>,
    /// What the last change is for.
    pub(super) why: &'static str,
}

impl Set {
    pub(super) fn of(object: Arc<ReplicaSet>) -> Set {
        let spec = object.spec.as_ref();
        let replicas = spec.and_then(|spec| spec.replicas).unwrap_or(1);
        let min_ready_seconds = spec.and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
        Set { object, born: false, replicas, min_ready_seconds, annotate: BTreeMap::new(), why: "" }
    }

    pub(super) fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn uid(&self) -> Option<&str> {
        self.object.metadata.uid.as_deref()
    }

    pub(super) fn created(&self) -> Option<Timestamp> {
        self.object.metadata.creation_timestamp.as_ref().map(|time| time.0)
    }

    pub(super) fn template(&self) -> Option<&PodTemplateSpec> {
        self.object.spec.as_ref()?.template.as_ref()
    }

    /// An annotation as it shall be.
    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = self.object.annotations();
        self.annotate.get(key).or_else(|| annotations.get(key)).map(String::as_str)
    }

    pub(super) fn annotate(&mut self, key: &str, value: impl Into<String>) {
        self.annotate.insert(key.to_owned(), value.into());
    }

    /// A count in an annotation, if it is one.
    pub(super) fn count(&self, key: &str) -> Option<i32> {
        self.annotation(key)?.parse::<u32>().ok()?.try_into().ok()
    }

    /// The revision: zero where there is none, nothing where it is not a number.
    pub(super) fn revision(&self) -> Option<i64> {
        self.annotation(REVISION).map_or(Some(0), |revision| revision.parse().ok())
    }

    fn status(&self) -> Option<&ReplicaSetStatus> {
        self.object.status.as_ref()
    }

    /// The pods that it has.
    pub(super) fn actual(&self) -> i32 {
        self.status().map_or(0, |status| status.replicas)
    }

    pub(super) fn ready(&self) -> i32 {
        self.status().and_then(|status| status.ready_replicas).unwrap_or(0)
    }

    pub(super) fn available(&self) -> i32 {
        self.status().and_then(|status| status.available_replicas).unwrap_or(0)
    }

    /// The available pods that stay: its controller may not yet have deleted those beyond its size.
    pub(super) fn lasting(&self) -> i32 {
        self.available().min(self.replicas)
    }

    /// The pods that are ending: nothing where its controller has looked at it without counting them.
    pub(super) fn terminating(&self) -> Option<i32> {
        let status = self.status();
        let observed = status.and_then(|status| status.observed_generation).unwrap_or(0);
        let terminating = status.and_then(|status| status.terminating_replicas);
        terminating.or_else(|| (observed == 0).then_some(0))
    }

    /// Has no pods, shall have none, and its controller knows.
    pub(super) fn is_spent(&self) -> bool {
        let observed = self.status().and_then(|status| status.observed_generation).unwrap_or(0);
        self.actual() == 0 && self.replicas == 0 && self.object.metadata.generation.unwrap_or(0) <= observed
    }

    pub(super) fn is_deleted(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    /// Sorts the oldest first, by name where they are as old.
    pub(super) fn age(&self) -> (Option<Timestamp>, &str) {
        // One that is yet to be made is younger than all.
        (self.created().or_else(|| self.born.then_some(Timestamp::MAX)), self.name())
    }
}

/// The sum of a count.
pub(super) fn sum<'a>(sets: impl IntoIterator<Item = &'a Set>, count: impl Fn(&Set) -> i32) -> i32 {
    sets.into_iter().map(count).sum()
}
