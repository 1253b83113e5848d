//! Services, virtual machines and network policies that span clusters, beside one of them.
//!
//! ```text
//! Federation, claims ─► formation ─► elections ─► a leader context for each led member
//!                                                  └─► every feature: watch all members, write to that one
//! ```
//!
//! - [`leader_context`] is what a leader works with: the member it leads, its fence, and all members to read from.
//! - [`feature`] is what a leader does for a member; [`lead`] starts it when a lead is won and ends it when it is lost.
//! - [`role`] puts it together: beside one cluster, by what that claims to be.
//! - [`services`] makes Services that span clusters, [`policies`] network policies that hold in all of them.
//!
//! A leader reads from all members and writes to the one it leads, never to another.

pub mod feature;
mod install;
pub mod lead;
pub mod leader_context;
mod measures;
pub mod policies;
pub mod role;
pub mod services;

pub use feature::Feature;
pub use install::{WEBHOOK, crds, rbac, webhook_rbac};
pub use leader_context::LeaderContext;
pub use role::{Network, Options};
