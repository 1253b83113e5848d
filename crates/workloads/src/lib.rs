//! Federated ReplicaSets and Deployments.
//!
//! ```text
//! preferences, members' counts ─► planner ─► shares ─► rollout ─► what each member should have now
//! ```
//!
//! - [`planner`] decides how many replicas each cluster should run, and says why.
//!
//! It is a pure function of its input: no client, no runtime, no clock.

pub mod planner;
