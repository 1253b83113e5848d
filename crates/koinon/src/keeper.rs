//! The controllers of a cluster, beside its server and without a socket between them.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use koinon_apiserver::auth::User;
use koinon_apiserver::serve::Server;
use koinon_cluster::kubelet::Settings;
use koinon_cluster::{Clock, Housekeeping};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::site::Ground;

/// What a cluster has beside its API server.
#[derive(Clone)]
pub(crate) enum Kept {
    /// Housekeeping alone: a federation's API server.
    Bare,
    /// Workload controllers, a scheduler and simulated nodes as well.
    Whole(Settings),
}

/// Controllers that run until they are told to end.
pub(crate) struct Keeper {
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
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
        let housekeeping = Housekeeping::new(client).clock(clock).namespace_grace(Duration::ZERO);
        let task = match kept {
            Kept::Bare => tokio::spawn(housekeeping.run(ended)),
            Kept::Whole(_) => tokio::spawn(housekeeping.run(ended)),
        };
        Keeper { end, task }
    }

    /// Done once the cluster has what it is to have from its start.
    pub(crate) fn settled(&self) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }

    /// Ends them; a call that is cut off is made again by the next start.
    pub(crate) async fn stop(self) {
        drop(self.end);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the controllers of a cluster ended badly");
        }
    }
}
