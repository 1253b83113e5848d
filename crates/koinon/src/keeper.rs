//! The controllers of a cluster, beside its server and without a socket between them.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use koinon_apiserver::auth::User;
use koinon_apiserver::serve::Server;
use koinon_cluster::kubelet::{BROKEN, Settings, is_ready};
use koinon_cluster::{Clock, Cluster, Housekeeping};
use koinon_control::View;
use kube::ResourceExt as _;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::site::Ground;

/// What a cluster has beside its API server.
#[derive(Clone)]
pub(crate) enum Kept {
    /// Housekeeping alone: a federation's API server.
    Bare,
    /// Workload controllers, a scheduler and simulated nodes as well.
    Whole(Arc<Settings>),
}

/// Controllers that run until they are told to end.
pub(crate) struct Keeper {
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
    /// Where there are to be nodes: they, and how many.
    nodes: Option<(Arc<View<Node>>, usize)>,
}

impl Keeper {
    /// Starts the controllers of one cluster.
    pub(crate) fn start(server: &Server, kept: &Kept, ground: &Ground) -> Keeper {
        let user = User::new("system:kube-controller-manager", &["system:masters", "system:authenticated"]);
        let client = kube::Client::new(server.trusted_router(user), "default");
        let (end, ended) = oneshot::channel::<()>();
        // A dropped sender means the same as a sent word.
        let ended = async move { drop(ended.await) };
        let context = ground.context.clone();
        let clock = Clock::new(move || context.now());
        // There is one server: nothing is created in a namespace that it knows to be going.
        let grace = Duration::ZERO;
        match kept {
            Kept::Bare => {
                let housekeeping = Housekeeping::new(client).clock(clock).namespace_grace(grace);
                Keeper { end, task: tokio::spawn(housekeeping.run(ended)), nodes: None }
            }
            Kept::Whole(settings) => {
                let authority = ground.authority.certificate();
                let cluster =
                    Cluster::new(client, clock, authority, Settings::clone(settings)).namespace_grace(grace);
                let nodes = Some((cluster.nodes(), settings.nodes as usize));
                Keeper { end, task: tokio::spawn(cluster.run(ended)), nodes }
            }
        }
    }

    /// Done once the cluster has the nodes it is to have from its start.
    pub(crate) fn settled(&self) -> impl Future<Output = ()> + use<> {
        let nodes = self.nodes.clone();
        async move {
            if let Some((nodes, count)) = nodes {
                // A node that somebody broke on purpose is not waited for.
                let there = |node: &Arc<Node>| is_ready(node) || node.annotations().contains_key(BROKEN);
                nodes.until(|nodes| nodes.iter().filter(|node| there(node)).count() >= count).await;
            }
        }
    }

    /// Ends them; a call that is cut off is made again by the next start.
    pub(crate) async fn stop(self) {
        drop(self.end);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the controllers of a cluster ended badly");
        }
    }
}
