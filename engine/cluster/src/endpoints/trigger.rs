//! When the change happened that a slice follows: so that the time until it is routed can be measured.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Service};
use koinon_control::Key;
use kube::ResourceExt as _;

use super::endpoint::readiness;

/// The times that were taken into account already, by Service.
#[derive(Default)]
pub(super) struct Triggers {
    seen: BTreeMap<Key, Seen>,
}

/// What a Service and its pods said about their last change.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Seen {
    service: Option<Timestamp>,
    pods: BTreeMap<String, Timestamp>,
}

impl Triggers {
    /// The first change since the last time, none if nothing that has a time changed; and what to note once
    /// it is in the slices.
    pub(super) fn look(&self, service: &Service, pods: &[Arc<Pod>]) -> (Option<Timestamp>, Seen) {
        let made = service.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let changed =
            |pod: &Arc<Pod>| Some((pod.name_any(), readiness(pod)?.last_transition_time.as_ref()?.0));
        let now = Seen { service: made, pods: pods.iter().filter_map(changed).collect() };
        let Some(before) = self.seen.get(&Key::of(service)) else { return (made, now) };
        let newer = now.pods.iter().filter(|(name, at)| before.pods.get(*name).is_none_or(|old| old < *at));
        let service = now.service.filter(|at| before.service.is_none_or(|old| old < *at));
        (newer.map(|(_, at)| *at).chain(service).min(), now)
    }

    pub(super) fn note(&mut self, service: Key, seen: Seen) {
        self.seen.insert(service, seen);
    }

    pub(super) fn forget(&mut self, service: &Key) {
        self.seen.remove(service);
    }
}
