//! What a cluster should have of a federated Service, requirement by requirement.

mod affinity;
mod endpoints;
mod hostile;
mod identity;
mod imports;
mod properties;
mod unknown;
mod world;
