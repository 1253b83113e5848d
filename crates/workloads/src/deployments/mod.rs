//! Federated Deployments: one on the federation's API server, a whole one of its own in every member, and an update that passes
//! over them cluster by cluster.
//!
//! ```text
//! Deployment ─┐                              ┌► shadows (before anybody gets a new template)
//! shadows ────┼► look ─► placing, rollout ──►┼► record (before anybody is started)
//! members ────┘                              ├► members
//!                                            └► status, placement, counts of shadows
//! ```

mod budget;
mod controller;
mod events;
mod following;
mod manifest;
mod memory;
mod mirror;
mod plan;
mod read;
mod revisions;
mod rollback;
mod shadow;
mod snapshot;
mod status;

pub(crate) use self::controller::Controller;
pub(crate) use self::plan::desired;
pub(crate) use self::read::{amount, hash, is_shadow};
