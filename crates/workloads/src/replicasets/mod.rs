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
use kube::ResourceExt as _;

use crate::deployments::is_shadow;

/// Whether this one is to be spread over members, and not a mirror of what a Deployment has there.
pub(crate) fn is_federated(set: &ReplicaSet) -> bool {
    let owned = set.owner_references().iter().any(|owner| owner.controller == Some(true));
    !is_shadow(set) && !owned
}
