//! Configuration that survives its leader: AMKO's federator.

pub mod crds;
pub mod model;
pub mod names;
pub mod plan;

pub use crds::crds;
