//! Configuration that survives its leader: AMKO's federator.
//!
//! ```text
//! this cluster ──follow──► here ──┐                       ┌──► writes, one batch a member
//!                                 ├──► plan (no IO) ──────┼──► conditions, events
//! each member ──follow──► link ───┘                       └──► Lease
//! ```
//!
//! - [`plan`] decides in plain values: who leads, which members are valid, what each lacks, what the status says.
//! - `mirror`, `follow` and `site` know what a cluster looks like: lists are the truth, watches make them quick.
//! - [`overview`](overview()) tells how it is to whoever asks once.
//! - `evidence` knows what this leader had, `definition` what became of it: only what was deleted here is deleted
//!   elsewhere.
//! - `link`, `write`, `report`, `lease`, `memory` and [`controller`] do what was decided, each call with a deadline.
//!
//! Invariants: a plan that stopped writes nothing; nothing is deleted on a follower before the leader's own
//! objects were listed completely, nor because of objects that it never had or that went with their definition; every
//! write holds only for the object that was looked at; secrets reach neither logs nor status.

mod call;
pub mod connect;
pub mod controller;
pub mod crds;
mod definition;
mod evidence;
mod follow;
mod here;
mod kinds;
mod lease;
mod link;
mod memory;
mod metrics;
mod mirror;
pub mod model;
pub mod names;
mod overview;
pub mod plan;
mod rbac;
mod report;
mod rivals;
mod site;
mod write;

pub use connect::{Connect, by_kubeconfig};
pub use controller::{Config, Options};
pub use crds::crds;
pub use metrics::Metrics;
pub use overview::{Other, Overview, overview};
pub use plan::Lead;
pub use rbac::rbac;
