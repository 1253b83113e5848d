//! How endpoints with the same ports are spread over slices: what is there stays where it is, and what is
//! new goes where something is written anyway.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use kube::ResourceExt as _;

use super::endpoint::{self, Family, Identity};
use super::plan::{Draft, labels, new_slice, plain};

/// So many endpoints fit into a slice: a change of one of them is sent to every node with all the others.
pub(super) const CAPACITY: usize = 100;

/// Endpoints with the same ports, and the slices with those ports.
pub(super) struct Group {
    pub(super) ports: Vec<EndpointPort>,
    pub(super) desired: BTreeMap<Identity, Endpoint>,
    pub(super) existing: Vec<Arc<EndpointSlice>>,
}

/// Adds to a draft what makes the slices of a group hold exactly the desired endpoints.
pub(super) fn pack(service: &Service, family: Family, group: Group, draft: &mut Draft) {
    let Group { ports, mut desired, existing } = group;
    let mut changed = Vec::new();
    let mut unchanged = Vec::new();
    for slice in existing {
        match settle(service, &slice, &mut desired) {
            Settled::Unchanged => unchanged.push(slice),
            Settled::Changed(slice) => changed.push(*slice),
            Settled::Empty => draft.delete.push(slice),
        }
    }
    let mut left: Vec<Endpoint> = desired.into_values().rev().collect();

    // The fullest first, so that as few as possible stay half empty.
    changed.sort_by_key(|slice| std::cmp::Reverse(size(slice)));
    for slice in &mut changed {
        fill(slice, &mut left);
    }
    while !left.is_empty() {
        let mut slice = match tightest(&unchanged, left.len()) {
            Some(index) => (*unchanged.swap_remove(index)).clone(),
            None => new_slice(service, family, &ports, Vec::new()),
        };
        fill(&mut slice, &mut left);
        match slice.metadata.name {
            Some(_) => changed.push(slice),
            None => draft.create.push(slice),
        }
    }
    draft.update.extend(changed.into_iter().map(|slice| (slice.name_any(), slice)));
}

enum Settled {
    Unchanged,
    Changed(Box<EndpointSlice>),
    Empty,
}

/// Takes from `desired` what a slice has already, and brings the slice up to date with it.
fn settle(service: &Service, slice: &EndpointSlice, desired: &mut BTreeMap<Identity, Endpoint>) -> Settled {
    let before = slice.endpoints.as_deref().unwrap_or_default();
    let mut same = true;
    let mut kept = Vec::with_capacity(before.len());
    for old in before {
        if let Some(new) = desired.remove(&Identity::of(old)) {
            same &= endpoint::says_the_same(&new, old);
            kept.push(new);
        }
    }
    let labels_changed = plain(slice.metadata.labels.as_ref()) != plain(service.metadata.labels.as_ref());
    if same && kept.len() == before.len() {
        if !labels_changed {
            return Settled::Unchanged;
        }
        let mut slice = slice.clone();
        slice.metadata.labels = Some(labels(service));
        return Settled::Changed(Box::new(slice));
    }
    if kept.is_empty() {
        return Settled::Empty;
    }
    let mut slice = slice.clone();
    slice.endpoints = Some(kept);
    slice.metadata.labels = Some(labels(service));
    Settled::Changed(Box::new(slice))
}

/// The slice that has room for all of them and then the least left.
fn tightest(slices: &[Arc<EndpointSlice>], more: usize) -> Option<usize> {
    if more >= CAPACITY {
        return None;
    }
    let fits = |(index, slice): (usize, &Arc<EndpointSlice>)| {
        Some((CAPACITY.checked_sub(size(slice) + more)?, index))
    };
    slices.iter().enumerate().filter_map(fits).min().map(|(_, index)| index)
}

fn fill(slice: &mut EndpointSlice, left: &mut Vec<Endpoint>) {
    let endpoints = slice.endpoints.get_or_insert_default();
    while endpoints.len() < CAPACITY
        && let Some(endpoint) = left.pop()
    {
        endpoints.push(endpoint);
    }
}

fn size(slice: &EndpointSlice) -> usize {
    slice.endpoints.as_ref().map_or(0, Vec::len)
}
