//! What every cluster has, also a bare one: garbage collection, namespace deletion, gathered roles.

use futures::future::BoxFuture;
use std::time::Duration;

use kube::Client;
use tokio::task::JoinSet;

use crate::presence::Presence;
use crate::{garbage, namespaces, roles};
use koinon_control::clock::Clock;

/// The housekeeping of one cluster.
#[derive(Clone)]
pub struct Housekeeping {
    client: Client,
    clock: Clock,
    namespace_grace: Duration,
    presence: Presence,
}

impl Housekeeping {
    /// Housekeeping through this client, with the machine's clock and the pace of a stock cluster.
    pub fn new(client: Client) -> Self {
        let presence = Presence::assumed();
        Housekeeping { client, clock: Clock::default(), namespace_grace: namespaces::GRACE, presence }
    }

    /// Tells the time from another clock.
    pub fn clock(self, clock: Clock) -> Self {
        Housekeeping { clock, ..self }
    }

    /// How long a namespace is left alone after its deletion began. Several servers need the time to notice
    /// it, so that nothing is created there any more; one server in one process needs none.
    pub fn namespace_grace(self, grace: Duration) -> Self {
        Housekeeping { namespace_grace: grace, ..self }
    }

    /// Who is to be told which kinds have objects.
    pub fn presence(self, presence: Presence) -> Self {
        Housekeeping { presence, ..self }
    }

    /// Keeps house until `shutdown` is ready; when this returns, nothing of it runs any more.
    pub fn run<'a>(self, shutdown: impl Future<Output = ()> + Send + 'a) -> BoxFuture<'a, ()> {
        // Boxed here: then all of it is compiled once, with this crate, and not with every program that polls it.
        self.run_until(Box::pin(shutdown))
    }

    fn run_until<'a>(self, shutdown: BoxFuture<'a, ()>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut tasks = JoinSet::new();
            let (client, clock) = (self.client.clone(), self.clock.clone());
            tasks.spawn(async move { match garbage::run(client, clock, self.presence).await {} });
            let (client, clock) = (self.client.clone(), self.clock);
            tasks.spawn(async move { match namespaces::run(client, clock, self.namespace_grace).await {} });
            tasks.spawn(async move { match roles::run(self.client).await {} });
            tokio::select! {
                biased;
                () = shutdown => {}
                // None of them ends by itself, so one that did has panicked: that must not go unnoticed.
                Some(ended) = tasks.join_next() => {
                    if let Err(error) = ended && error.is_panic() {
                        std::panic::resume_unwind(error.into_panic());
                    }
                }
            }
            tasks.shutdown().await;
        })
    }
}

/// Keeps house in a cluster until `shutdown` is ready.
pub async fn housekeeping(client: Client, shutdown: impl Future<Output = ()> + Send) {
    Housekeeping::new(client).run(shutdown).await;
}
