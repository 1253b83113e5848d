//! The controllers of a cluster.
//!
//! ```text
//!             ┌ garbage     dependents follow their owners
//!             │ namespaces  a deleted namespace is emptied, then let go
//!             │ roles       ClusterRoles gather the rules of others
//! API ─watch─►┤ endpoints   EndpointSlices and Endpoints say where the pods of a Service are ─►API
//!             │ replicasets, deployments, statefulsets, daemonsets   pods, as many and where they are asked for
//!             │ volumes     claims get volumes, and neither goes while it is used
//!             │ accounts    service accounts, the authority's certificates, token Secrets
//!             │ quota       ResourceQuotas say what is used
//!             │ disruption  PodDisruptionBudgets say how many pods may go
//!             │ jobs        pods that run to their end, and ttl: Jobs that are over go
//!             └ cronjobs    Jobs by the clock
//! ```
//!
//! Each controller is a folder: `plan` decides over plain values and knows neither client nor clock, the rest
//! watches and acts. They speak nothing but the Kubernetes API, so the same code keeps house on the embedded
//! server, in one process and without sockets, and on a stock kube-apiserver.
//!
//! What they all hold to:
//! - **Unknown is not absent.** A list that failed, a cut watch or a partial discovery never deletes anything:
//!   an owner is gone once the server itself, asked for that very object, said so.
//! - **Levels, not edges.** Work is keyed by object and may be repeated at any time; after the last change
//!   there are no more writes.
//! - **Only tokio's time**, so that everything runs under a paused clock; the wall clock comes from outside.

pub mod accounts;
mod amount;
pub mod cronjobs;
pub mod daemonsets;
pub mod deployments;
pub mod disruption;
pub mod endpoints;
pub mod garbage;
mod housekeeping;
pub mod jobs;
pub mod kubelet;
pub mod namespaces;
pub mod nodes;
mod podcontrol;
pub mod presence;
pub mod quota;
pub mod replicasets;
mod revisions;
pub mod roles;
pub mod scheduler;
pub mod shared;
pub mod statefulsets;
pub mod ttl;
pub mod volumes;
mod whole;

pub use housekeeping::{Housekeeping, housekeeping};
pub use koinon_control::Clock;
pub use whole::Cluster;

/// Who writes the fields that these controllers change, as clusters name it.
pub(crate) const MANAGER: &str = "kube-controller-manager";
