//! A cluster without machines: every controller, a scheduler and simulated nodes over one API server.

use futures::future::BoxFuture;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, ReplicationController};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use koinon_control::events::{Recorder, recorder};
use koinon_control::{Clock, View};
use kube::Client;
use tokio::task::JoinSet;

use crate::housekeeping::Housekeeping;
use crate::kubelet::{Kubelet, Settings};
use crate::nodes::{self, NodeLifecycle};
use crate::presence::{Presence, kind};
use crate::scheduler::Scheduler;
use crate::shared::Shared;
use crate::{
    accounts, cronjobs, daemonsets, deployments, disruption, endpoints, jobs, quota, replicasets,
    statefulsets, ttl, volumes,
};

/// Everything that one simulated cluster runs beside its API server.
pub struct Cluster {
    shared: Shared,
    settings: Settings,
    authority: String,
    housekeeping: Housekeeping,
}

impl Cluster {
    /// A cluster behind this client. `authority` is the bundle of certificates, as PEM, by which pods would
    /// know the API server.
    pub fn new(client: Client, clock: Clock, authority: &str, settings: Settings) -> Cluster {
        let presence = Presence::told();
        let housekeeping = Housekeeping::new(client.clone()).clock(clock.clone()).presence(presence.clone());
        Cluster {
            shared: Shared::lazy(client, clock, presence),
            settings,
            authority: authority.into(),
            housekeeping,
        }
    }

    /// See [`Housekeeping::namespace_grace`].
    pub fn namespace_grace(mut self, grace: Duration) -> Cluster {
        self.housekeeping = self.housekeeping.namespace_grace(grace);
        self
    }

    /// The nodes of the cluster, as far as they are known here.
    pub fn nodes(&self) -> Arc<View<Node>> {
        self.shared.nodes.clone()
    }

    /// Runs the cluster until `shutdown` is ready; when this returns, nothing of it runs any more.
    pub fn run<'a>(self, shutdown: impl Future<Output = ()> + Send + 'a) -> BoxFuture<'a, ()> {
        // Boxed here: then all of it is compiled once, with this crate, and not with every program that polls it.
        self.run_until(Box::pin(shutdown))
    }

    fn run_until<'a>(self, shutdown: BoxFuture<'a, ()>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut tasks = JoinSet::new();
            let shared = self.shared;
            let events = |tasks: &mut JoinSet<()>, component: &str| -> Recorder {
                let (recorder, writer) = recorder(shared.client.clone(), component, shared.clock.clone());
                tasks.spawn(writer.run());
                recorder
            };
            let told = events(&mut tasks, "deployment-controller");
            let deployments = deployments::run(shared.clone(), told);
            tasks.spawn(async move { match deployments.await {} });
            let told = events(&mut tasks, "replicaset-controller");
            let replica_sets = replicasets::run(shared.clone(), told);
            tasks.spawn(async move { match replica_sets.await {} });
            let sets = vec![kind::<StatefulSet>()];
            tasks.spawn(once(shared.clone(), sets, statefulsets::COMPONENT, statefulsets::run));
            let daemons = vec![kind::<DaemonSet>()];
            tasks.spawn(once(shared.clone(), daemons, daemonsets::COMPONENT, daemonsets::run));
            let controllers = vec![kind::<ReplicationController>()];
            let component = replicasets::CONTROLLERS_COMPONENT;
            tasks.spawn(once(shared.clone(), controllers, component, replicasets::run_controllers));
            let same = shared.clone();
            tasks.spawn(async move {
                // Boxed, so that nothing of it is left once it is done.
                Box::pin(volumes::offer_class(&same)).await;
                let kinds = vec![
                    kind::<PersistentVolumeClaim>(),
                    kind::<PersistentVolume>(),
                    kind::<VolumeAttributesClass>(),
                ];
                once(same, kinds, volumes::COMPONENT, volumes::run).await;
            });
            let batch = || vec![kind::<Job>(), kind::<CronJob>()];
            tasks.spawn(once(shared.clone(), batch(), jobs::COMPONENT, jobs::run));
            tasks.spawn(once(shared.clone(), vec![kind::<CronJob>()], cronjobs::COMPONENT, cronjobs::run));
            let same = shared.clone();
            tasks.spawn(async move {
                same.presence.any_of(&batch()).await;
                match Box::pin(ttl::run(same)).await {}
            });
            let told = events(&mut tasks, "endpoint-slice-controller");
            let endpoints = endpoints::run(shared.clone(), told);
            tasks.spawn(async move { match endpoints.await {} });
            let told = events(&mut tasks, "endpoint-controller");
            let classic = endpoints::classic::run(shared.clone(), told);
            tasks.spawn(async move { match classic.await {} });
            let told = events(&mut tasks, "endpoint-slice-mirroring-controller");
            let mirror = endpoints::mirror::run(shared.clone(), told);
            tasks.spawn(async move { match mirror.await {} });
            let told = events(&mut tasks, "controllermanager");
            let disruption = disruption::run(shared.clone(), told);
            tasks.spawn(async move { match disruption.await {} });
            let accounts = accounts::run(shared.clone(), self.authority);
            tasks.spawn(async move { match accounts.await {} });
            let quota = quota::run(shared.clone());
            tasks.spawn(async move { match quota.await {} });
            let scheduler = Scheduler::new(&shared);
            tasks.spawn(async move { match Box::pin(scheduler.run()).await {} });
            let lifecycle = NodeLifecycle::new(&shared, nodes::Settings::default());
            tasks.spawn(async move { match Box::pin(lifecycle.run()).await {} });
            let kubelet = Kubelet::new(&shared, self.settings);
            tasks.spawn(async move { match Box::pin(kubelet.run()).await {} });
            tasks.spawn(self.housekeeping.run(std::future::pending()));
            tasks.spawn(async move { match shared.follow().await {} });
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

/// Runs a controller from when there is first an object of any of these kinds; before that it costs next to nothing.
async fn once<F>(
    shared: Shared,
    kinds: Vec<(String, String)>,
    component: &'static str,
    run: fn(Shared, Recorder) -> F,
) where
    F: Future<Output = Infallible> + Send,
{
    shared.presence.any_of(&kinds).await;
    let (recorder, writer) = recorder(shared.client.clone(), component, shared.clock.clone());
    // Boxed: while it waits, a controller is no larger than the wait.
    let (writing, running) = (Box::pin(writer.run()), Box::pin(run(shared, recorder)));
    tokio::select! {
        biased;
        () = writing => {}
        never = running => match never {},
    }
}
