//! Simulated nodes: they register, send heartbeats, and their pods come up, run and end as their annotations say.
//!
//! ```text
//! pod, node ─► stage (how far, and how on) ─► pod (what next) ─► status, conditions (as a kubelet writes it)
//!                 ▲ behaviour (annotations)        work (the only part that writes)
//! ```
//!
//! One task looks after all nodes of a cluster. How far a pod has come stands in its status, so a restart
//! goes on where it stopped; only exact times and the last given address are kept in memory.

mod behaviour;
mod conditions;
mod memory;
mod node;
mod pod;
mod range;
mod settings;
mod stage;
mod status;
#[cfg(test)]
mod tests;
mod work;

use std::convert::Infallible;
use std::sync::Arc;

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::{Node, Pod};
use koinon_control::{Clock, View};
use kube::{Api, Client};

pub use self::behaviour::{Behaviour, Ending, HowOften, PREFIX};
pub(crate) use self::node::LEASES;
pub use self::node::{BROKEN, PRESSURE, SIMULATED, is_ready, is_simulated};
pub use self::range::{NotARange, Range};
pub use self::settings::Settings;
pub(crate) use self::stage::is_finished;
use crate::shared::Shared;

/// The kubelets of all simulated nodes of one cluster.
pub struct Kubelet {
    client: Client,
    clock: Clock,
    nodes: Arc<View<Node>>,
    pods: Arc<View<Pod>>,
    views: Views,
    settings: Settings,
}

/// Who keeps the views up to date.
enum Views {
    Shared,
    Own,
}

impl Kubelet {
    /// Kubelets beside other controllers, whose views they share.
    pub fn new(shared: &Shared, settings: Settings) -> Kubelet {
        Kubelet {
            client: shared.client.clone(),
            clock: shared.clock.clone(),
            nodes: shared.nodes.clone(),
            pods: shared.pods.clone(),
            views: Views::Shared,
            settings,
        }
    }

    /// Kubelets by themselves, which watch nodes and pods on their own: for a control plane that runs elsewhere.
    pub fn alone(client: Client, clock: Clock, settings: Settings) -> Kubelet {
        Kubelet { client, clock, nodes: View::new(), pods: View::new(), views: Views::Own, settings }
    }

    /// The nodes of the cluster, as far as they are known here.
    pub fn nodes(&self) -> Arc<View<Node>> {
        self.nodes.clone()
    }

    /// Runs all nodes for as long as it is polled.
    pub async fn run(self) -> Infallible {
        let (client, nodes, pods) = (self.client.clone(), self.nodes.clone(), self.pods.clone());
        let follow = match self.views {
            Views::Shared => std::future::pending().boxed(),
            Views::Own => async move {
                tokio::select! {
                    biased;
                    never = nodes.follow(Api::all(client.clone())) => never,
                    never = pods.follow(Api::all(client)) => never,
                }
            }
            .boxed(),
        };
        tokio::select! {
            biased;
            never = follow => never,
            never = work::run(self).boxed() => never,
        }
    }
}
