//! The network role beside one cluster: formation, leader election, and the features that leaders run.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use koinon_api::membership::NETWORK_NAMESPACE;
use koinon_control::Clock;
use koinon_fleet::election::{Elections, Timing};
use koinon_fleet::membership::controller::Kind;
use koinon_fleet::membership::{Controller, Formation};
use koinon_fleet::{ClusterId, Fleet};
use kube::Client;
use tokio::sync::watch;

use crate::feature::Feature;
use crate::lead::lead;

/// A cluster that left and could not be cleaned is tried again after this time.
const AGAIN: Duration = Duration::from_secs(10);

/// How the role works.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub fleet: koinon_fleet::Options,
    pub timing: Timing,
}

/// The role beside one cluster.
pub struct Network {
    client: Client,
    fleet: Arc<Fleet>,
    controller: Controller,
    elections: Arc<Elections>,
    features: Vec<Arc<dyn Feature>>,
    timing: Timing,
}

impl Network {
    /// The role beside the cluster of `client`, known among others of its kind as `instance`.
    pub fn new(
        client: Client,
        instance: &str,
        options: Options,
        metrics: koinon_fleet::Metrics,
        clock: Clock,
    ) -> Network {
        let claims = Some(NETWORK_NAMESPACE.to_owned());
        let fleet = Fleet::new(koinon_fleet::Options { claims, ..options.fleet }, metrics, clock);
        let controller = Controller::new(client.clone(), NETWORK_NAMESPACE, Kind::Cluster, fleet.clone());
        let elections = Elections::new(fleet.clone(), instance, options.timing);
        Network { client, fleet, controller, elections, features: Vec::new(), timing: options.timing }
    }

    /// Reaches these members without a socket, whatever the Federation says of their address.
    pub fn direct(mut self, members: BTreeMap<ClusterId, Client>) -> Network {
        self.controller = self.controller.direct(members);
        self
    }

    /// All members, for the features that are made for them.
    pub fn fleet(&self) -> &Arc<Fleet> {
        &self.fleet
    }

    /// One more thing to do for members that are led.
    pub fn feature(mut self, feature: Arc<dyn Feature>) -> Network {
        self.features.push(feature);
        self
    }

    /// Who belongs to the federation, whenever that changes; nothing before it was read.
    pub fn formed(&self) -> watch::Receiver<Option<Arc<Formation>>> {
        self.controller.formed()
    }

    /// Works until `shutdown` is ready, then gives back every lead.
    pub fn run<'a>(self, shutdown: impl Future<Output = ()> + Send + 'a) -> BoxFuture<'a, ()> {
        // Boxed here: then all of it is compiled once, with this crate, and not with every program that polls it.
        self.run_until(Box::pin(shutdown))
    }

    fn run_until<'a>(self, shutdown: BoxFuture<'a, ()>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            tokio::select! {
                biased;
                () = shutdown => {}
                () = self.controller.run() => {}
                never = self.elections.run(self.controller.formed()) => match never {},
                never = self.tell_leads() => match never {},
                never = self.leave() => match never {},
                never = lead(self.fleet.clone(), self.elections.clone(), self.features.clone()) => match never {},
            }
            self.elections.end().await;
        })
    }

    /// Has the Federation say who leads whom, and who names other members.
    async fn tell_leads(&self) -> Infallible {
        let mut changes = self.elections.changes();
        loop {
            changes.borrow_and_update();
            self.controller.set_leads(self.elections.leads());
            self.controller.set_rosters(self.elections.rosters());
            if changes.changed().await.is_err() {
                // The elections are ours, so their sender is there.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Without a Federation the cluster takes part no more, and nothing that was generated in it stays.
    async fn leave(&self) -> Infallible {
        let mut formed = self.controller.formed();
        let is_out = |formed: &Option<Arc<Formation>>| {
            formed.as_ref().is_some_and(|formation| formation.federation.is_none())
        };
        loop {
            if formed.wait_for(is_out).await.is_err() {
                std::future::pending::<()>().await;
            }
            // Who leads here may not have heard of it yet, and write once more; by the second time it has.
            for pause in [Duration::ZERO, self.timing.lease_duration] {
                tokio::time::sleep(pause).await;
                for feature in &self.features {
                    while is_out(&formed.borrow()) && !feature.clone().withdraw(self.client.clone()).await {
                        tokio::time::sleep(AGAIN).await;
                    }
                }
            }
            if formed.wait_for(|formed| !is_out(formed)).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
