//! Federated ReplicaSets: one on the federation's API server, a whole one of its own in every member.
//!
//! ```text
//! ReplicaSet, members' records ─► plan ─► writes to members ─► status, placement, events
//! ```

mod controller;
mod manifest;
mod plan;
mod status;

pub(crate) use self::controller::Controller;

use k8s_openapi::api::apps::v1::ReplicaSet;
use koinon_api::names::workloads;
use kube::ResourceExt as _;

/// Whether this one is to be spread over members, and not a mirror of what a Deployment has there.
pub(crate) fn is_federated(set: &ReplicaSet) -> bool {
    let shadow = set.annotations().get(workloads::SHADOW).is_some_and(|value| value == "true");
    let owned = set.owner_references().iter().any(|owner| owner.controller == Some(true));
    !shadow && !owned
}
