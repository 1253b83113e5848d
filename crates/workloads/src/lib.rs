//! Federated ReplicaSets and Deployments.
//!
//! ```text
//!               ┌ planner   how many replicas each cluster should run, and why
//! what is seen ─┤ placing   what each member's object asks for now, on the way there
//!               └ rollout   which template each member has now, while an update passes over them
//!                   │
//! federation ─► controllers ─► members       status, placement, events ─► federation
//! ```
//!
//! - [`planner`], [`placing`] and [`rollout`] are pure functions of their input: no client, no runtime, no clock.
//! - [`preview`] tells what they would decide about a live workload.
//! - [`admission`] is what a webhook refuses.
//! - [`crds`] and [`rbac`] are what the federation's API server needs before.
//! - [`warnings`] tells users of kinds that nothing carries.
//! - [`Workloads`] is the role: it follows the federation's objects and the members', and works on one workload at a time.

pub mod admission;
mod barred;
mod content;
mod deletion;
mod deployments;
mod digest;
mod events;
mod failures;
mod hub;
mod install;
mod intent;
mod members;
mod messages;
mod metrics;
pub mod placing;
pub mod planner;
pub mod preview;
mod replicasets;
pub mod rollout;
mod service;
mod startup;
mod takeover;
mod warnings;
mod writing;

pub use hub::Options;
pub use install::{NAME, crds, rbac};
pub use metrics::Metrics;
pub use service::Workloads;
pub use warnings::warnings;
