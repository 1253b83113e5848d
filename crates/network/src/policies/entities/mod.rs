//! External entities for federated Services, one for each cluster that their endpoints are in, so that ingress rules
//! can select them. They are derived from the EndpointSlices of federated Services in the same cluster.

mod keep;
mod plan;

pub use keep::{run, withdraw};
pub use plan::{Entity, Portion, Step, entities, plan};
