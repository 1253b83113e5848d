//! Services that span clusters.
//!
//! ```text
//! Services, EndpointSlices, Nodes, NativeServices of all members ─► records ─► view ─► plan ─► Service, EndpointSlices
//!                                                                                             of the member that is led
//! ```
//!
//! - [`joining`] reads who joins what, [`address`] what may be published, [`records`] keep it.
//! - [`ports`], [`endpoints`], [`packing`] and `slices` decide on the parts, [`plan`] on the whole of one federated Service in one
//!   cluster: plain functions, that look at a [`view`].
//! - [`messages`] words what users are told of it.
//! - [`machines`] makes virtual machines Services of their own cluster, which can be members like any other.
//! - [`mcs`] does the same for the Multi-Cluster Services API, in the way that that wants it.
//! - [`control`] watches, has plans made and does them.

pub mod address;
pub mod control;
pub mod endpoints;
pub mod external_dns;
mod interned;
pub mod joining;
pub mod machines;
pub mod mcs;
pub mod member_condition;
pub mod messages;
mod metrics;
pub mod model;
pub mod packing;
pub mod plan;
pub mod ports;
pub mod records;
pub mod render;
pub mod report;
mod slices;
pub mod view;

pub use control::{Options, Origins, Resolve, Services};
pub use machines::Prefer;
pub use metrics::Metrics;
pub use report::{Endpoints, Seen, joins, native_joins, report};
pub use view::{Locality, Stale, Stance};
