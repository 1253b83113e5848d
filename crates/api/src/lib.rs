//! What users of Koinon see in objects: names, annotations and types.
//!
//! - [`alike`]: how much is said of very many clusters in little room.
//! - [`failover`]: when replicas leave a cluster that does not answer.
//! - [`names`]: every annotation, label, manager, group and namespace, each once.
//! - [`preferences`]: how a workload's replicas are to be spread, read strictly and with errors for people.
//! - [`mcs`]: the kinds of the Multi-Cluster Services API.
//! - [`membership`]: who belongs to a federation: the kinds Federation and ClusterClaim.
//! - [`network`]: what federated Services can stand for besides Services: the kinds NativeService and VirtualMachine.
//! - [`placement`]: where they are, as we write it back onto the workload.
//! - [`rights`]: accounts, roles and bindings, as `koinon install rbac` prints them.
//! - [`rollout`]: in which order, and how many at a time, clusters are updated.
//!
//! It knows no IO: no client, no runtime, no clock.

pub mod alike;
pub mod failover;
pub mod mcs;
pub mod membership;
pub mod names;
pub mod network;
pub mod placement;
pub mod preferences;
pub mod rights;
pub mod rollout;
