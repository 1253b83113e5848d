//! Which pods go first when there are too many.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::pods::{is_active, is_ready, phase, ready_since};

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Picks `count` pods to delete; `related` are the pods whose company on a node makes one more dispensable.
pub(super) fn first_to_go(
    pods: &[Arc<Pod>],
    related: &[Arc<Pod>],
    count: usize,
    now: Timestamp,
) -> Vec<Arc<Pod>> {
    if count >= pods.len() {
        return pods.to_vec();
    }
    let mut crowd: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in related.iter().filter(|pod| is_active(pod)) {
        *crowd.entry(node(pod)).or_default() += 1;
    }
    let ranked = pods.iter().map(|pod| Ranked {
        pod,
        company: crowd.get(node(pod)).copied().unwrap_or(0),
        cost: deletion_cost(pod),
        ready: is_ready(pod),
        restarts: restarts(pod),
    });
    // The rules are not transitive where ages fall into one bucket, and a library sort may refuse such an order.
    let mut sorted: Vec<Ranked<'_>> = Vec::with_capacity(pods.len());
    for pod in ranked {
        let place = sorted.partition_point(|other| !pod.goes_before(other, now));
        sorted.insert(place, pod);
    }
    sorted.truncate(count);
    sorted.into_iter().map(|ranked| ranked.pod.clone()).collect()
}

struct Ranked<'a> {
    pod: &'a Arc<Pod>,
    company: usize,
    cost: i32,
    ready: bool,
    restarts: (i32, i32),
}

impl Ranked<'_> {
    fn goes_before(&self, other: &Self, now: Timestamp) -> bool {
        let (assigned, other_assigned) = (is_assigned(self.pod), is_assigned(other.pod));
        if assigned != other_assigned {
            return !assigned;
        }
        let (progress, other_progress) = (progress(self.pod), progress(other.pod));
        if progress != other_progress {
            return progress < other_progress;
        }
        if self.ready != other.ready {
            return !self.ready;
        }
        if self.cost != other.cost {
            return self.cost < other.cost;
        }
        if self.company != other.company {
            return self.company > other.company;
        }
        if self.ready
            && let Some(before) = self.is_younger(other, ready_since(self.pod), ready_since(other.pod), now)
        {
            return before;
        }
        if self.restarts != other.restarts {
            return self.restarts > other.restarts;
        }
        self.is_younger(other, created(self.pod), created(other.pod), now).unwrap_or(false)
    }

    /// Compares two times by the order of magnitude of their age, and equal ones by uid, so that the choice
    /// among pods of about one age is as good as random. Says nothing where the times are the same.
    fn is_younger(
        &self,
        other: &Self,
        mine: Option<Timestamp>,
        theirs: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<bool> {
        if mine == theirs {
            return None;
        }
        let (Some(mine), Some(theirs)) = (mine, theirs) else { return Some(mine.is_none()) };
        let (mine, theirs) = (magnitude(mine, now), magnitude(theirs, now));
        Some(if mine == theirs { self.pod.metadata.uid < other.pod.metadata.uid } else { mine < theirs })
    }
}

fn magnitude(since: Timestamp, now: Timestamp) -> i64 {
    let age = now.duration_since(since).as_nanos();
    if age > 0 { (age as f64).log2() as i64 } else { -1 }
}

fn node(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

pub(crate) fn is_assigned(pod: &Pod) -> bool {
    !node(pod).is_empty()
}

pub(crate) fn created(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

pub(crate) fn progress(pod: &Pod) -> u8 {
    match phase(pod) {
        "Running" => 2,
        "Unknown" => 1,
        _ => 0,
    }
}

/// A number as the annotation may hold it: no plus sign, no leading zeros.
fn deletion_cost(pod: &Pod) -> i32 {
    let cost = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(DELETION_COST));
    let well_formed =
        |cost: &&String| *cost == "0" || matches!(cost.as_bytes().first(), Some(b'-' | b'1'..=b'9'));
    cost.filter(well_formed).and_then(|cost| cost.parse().ok()).unwrap_or(0)
}

/// The most restarts of any container, and of any sidecar.
pub(crate) fn restarts(pod: &Pod) -> (i32, i32) {
    let Some(status) = &pod.status else { return (0, 0) };
    let containers = status.container_statuses.iter().flatten();
    let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars: Vec<&str> = init
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| container.name.as_str())
        .collect();
    let sidecars = status
        .init_container_statuses
        .iter()
        .flatten()
        .filter(|container| sidecars.contains(&container.name.as_str()));
    let most = |counts: &mut dyn Iterator<Item = i32>| counts.max().unwrap_or(0).max(0);
    (
        most(&mut containers.map(|container| container.restart_count)),
        most(&mut sidecars.map(|container| container.restart_count)),
    )
}
