//! Services that span clusters.
//!
//! ```text
//! Services, EndpointSlices, Nodes, NativeServices of all members ─► records ─► view ─► plan ─► Service, EndpointSlices
//!                                                                                             of the member that is led
//! ```
//!
//! - [`joining`] reads who joins what, [`address`] what may be published, [`records`] keep it.
//! - [`ports`], [`endpoints`] and [`packing`] decide on the parts, [`plan`] on the whole of one federated Service in one
//!   cluster: plain functions, that look at a [`view`].

pub mod address;
pub mod endpoints;
pub mod external_dns;
pub mod joining;
pub mod model;
pub mod packing;
pub mod plan;
pub mod ports;
pub mod records;
pub mod render;
pub mod view;
