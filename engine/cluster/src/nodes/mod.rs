//! The life of nodes: silent ones are marked and their pods leave in time, and pods of nodes that are gone go too.
//!
//! ```text
//! leases, nodes ─► health (who is silent) ─► taints (who may stay) ─► pods (who leaves, and when)
//!                                                     work (the only part that writes)
//! ```

mod health;
mod pods;
mod taints;
#[cfg(test)]
mod tests;
mod work;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use koinon_control::View;
use kube::Api;

use crate::kubelet::LEASES;
use crate::shared::Shared;

/// How patient a cluster is with its nodes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A node that was silent for so long is marked as unknown; one whose lease lasts longer has that long.
    pub grace: Duration,
    /// How long a new node may take for its first word.
    pub startup_grace: Duration,
    /// Nodes of a zone are emptied one after the other, with this pause.
    pub empty_every: Duration,
    /// How long a node must have been unknown before its pods are taken for lost.
    pub quarantine: Duration,
    /// So many pods that came to their end are kept; beyond that the oldest go.
    pub keep_finished: usize,
}

impl Default for Settings {
    /// The pace of a stock cluster.
    fn default() -> Self {
        Settings {
            grace: Duration::from_secs(50),
            startup_grace: Duration::from_secs(60),
            empty_every: Duration::from_secs(10),
            quarantine: Duration::from_secs(40),
            keep_finished: 12_500,
        }
    }
}

/// Looks after the nodes of one cluster.
pub struct NodeLifecycle {
    shared: Shared,
    leases: Arc<View<Lease>>,
    settings: Settings,
}

impl NodeLifecycle {
    pub fn new(shared: &Shared, settings: Settings) -> NodeLifecycle {
        // Of a lease, only when it was renewed and for how long is ever read.
        let leases = View::keeping(|lease: &mut Lease| {
            lease.metadata.owner_references = None;
            lease.metadata.labels = None;
        });
        NodeLifecycle { shared: shared.clone(), leases, settings }
    }

    /// Looks after nodes for as long as it is polled.
    pub async fn run(self) -> Infallible {
        let leases = self.leases.clone();
        let api = Api::namespaced(self.shared.client.clone(), LEASES);
        tokio::select! {
            biased;
            never = leases.follow(api).boxed() => never,
            never = work::run(self).boxed() => never,
        }
    }
}
