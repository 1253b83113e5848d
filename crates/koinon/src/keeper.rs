//! The controllers that every cluster has, beside its server and without a socket between them.

use std::time::Duration;

use koinon_apiserver::auth::User;
use koinon_apiserver::serve::Server;
use koinon_cluster::Housekeeping;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Controllers that run until they are told to end.
pub(crate) struct Keeper {
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Keeper {
    /// Garbage collection, namespace deletion and role aggregation for one cluster.
    pub(crate) fn start(server: &Server) -> Keeper {
        let user = User::new("system:kube-controller-manager", &["system:masters", "system:authenticated"]);
        let client = kube::Client::new(server.trusted_router(user), "default");
        let (end, ended) = oneshot::channel();
        // There is one server: nothing is created in a namespace that it knows to be going.
        let housekeeping = Housekeeping::new(client).namespace_grace(Duration::ZERO);
        let task = tokio::spawn(housekeeping.run(async move {
            // A dropped sender means the same as a sent word.
            let _ = ended.await;
        }));
        Keeper { end, task }
    }

    /// Ends them; a call that is cut off is made again by the next start.
    pub(crate) async fn stop(self) {
        drop(self.end);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the housekeeping controllers ended badly");
        }
    }
}
