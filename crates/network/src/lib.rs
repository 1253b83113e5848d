//! Services, virtual machines and network policies that span clusters, beside one of them.
//!
//! ```text
//! Federation, claims ─► formation ─► elections ─► posts, one for each member that is led
//!                                                  └─► every feature: watch all members, write to that one
//! ```
//!
//! - [`post`] is what a leader has: the member it leads, the right to write there, and all members to read from.
//! - [`feature`] is what there is to do at a post; [`lead`] starts it when a lead is won and ends it when it is lost.
//! - [`role`] puts it together: beside one cluster, by what that claims to be.
//! - [`services`] makes Services that span clusters, [`policies`] network policies that hold in all of them.
//!
//! A leader reads from all members and writes to the one it leads, never to another.

pub mod feature;
mod install;
pub mod lead;
mod measures;
pub mod policies;
pub mod post;
pub mod role;
pub mod services;

pub use feature::Feature;
pub use install::{WEBHOOK, crds, rbac, webhook_rbac};
pub use post::Post;
pub use role::{Network, Options};
