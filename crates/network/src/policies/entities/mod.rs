//! External entities for federated Services, one for each cluster that they have members in, so that ingress rules can
//! select them.
//!
//! ```text
//! members of federated Services ─► roll: one sum for each Service and cluster ─► keeper of each member that is led
//!   (as Services know them)          (worked out once for all of them)             └─► plan ─► what differs is written
//! ```
//!
//! They follow from the members alone, and not from the EndpointSlices that a cluster uses: a cluster with a member of its
//! own uses no other, and traffic comes from the others all the same.

mod keep;
mod plan;
mod roll;

pub(super) use keep::Keeper;
pub use keep::withdraw;
pub use plan::{Entity, Side, entity};
pub(super) use roll::Roll;
