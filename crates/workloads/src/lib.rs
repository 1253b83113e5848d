//! Federated ReplicaSets and Deployments.
//!
//! ```text
//! preferences, members' counts ─► planner ─► shares ─► rollout ─► what each member should have now
//! ```
//!
//! - [`planner`] decides how many replicas each cluster should run, and says why.
//! - [`rollout`] decides which pod template each cluster should have now, while an update passes over them.
//!
//! Both are pure functions of their input: no client, no runtime, no clock.

pub mod planner;
pub mod rollout;
