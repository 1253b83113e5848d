//! Which active pods go where there are too many, or several of one index.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::JobSpec;
use k8s_openapi::api::core::v1::Pod;

use super::facts::{is_indexed, valid_index};
use crate::replicasets::order::{created, is_assigned, progress, restarts};
use crate::replicasets::pods::{is_ready, ready_since};

/// Picks at least so many pods: first those whose index is not wanted or taken twice, then the least advanced.
pub(super) fn first_to_go(spec: &JobSpec, active: &[Arc<Pod>], at_least: usize) -> Vec<Arc<Pod>> {
    let (mut going, mut left) = (Vec::new(), Vec::new());
    if is_indexed(spec) {
        let mut by_index: BTreeMap<Option<usize>, Vec<Arc<Pod>>> = BTreeMap::new();
        for pod in active {
            by_index.entry(valid_index(spec, pod)).or_default().push(pod.clone());
        }
        for (index, mut pods) in by_index {
            pods.sort_by(least_advanced_first);
            left.extend(index.and_then(|_| pods.pop()));
            going.append(&mut pods);
        }
    } else {
        left = active.to_vec();
    }
    if going.len() < at_least {
        left.sort_by(least_advanced_first);
        left.truncate(at_least - going.len());
        going.append(&mut left);
    }
    going
}

fn least_advanced_first(one: &Arc<Pod>, other: &Arc<Pod>) -> Ordering {
    let rank = |pod: &Pod| {
        let ready = is_ready(pod);
        // A time that is not known comes before the latest.
        let since = ready_since(pod).filter(|_| ready);
        let latest = |time: Option<jiff::Timestamp>| (time.is_some(), Reverse(time));
        (is_assigned(pod), progress(pod), ready, latest(since), Reverse(restarts(pod)), latest(created(pod)))
    };
    rank(one).cmp(&rank(other))
}
