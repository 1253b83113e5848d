//! What the controllers of one cluster share: one client, one clock, and one watch for each kind.

use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, select_all};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    Endpoints, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController, Service,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttributesClass};
use koinon_control::{Clock, View};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::presence::{Presence, kind};
use crate::replicasets::owned::Owned;

/// The views that several controllers look at, so that each kind is watched once. Those from `jobs` on are
/// of kinds that many clusters have none of: they are watched from when there is something to see.
#[derive(Clone)]
pub struct Shared {
    pub client: Client,
    pub clock: Clock,
    pub presence: Presence,
    pub pods: Arc<View<Pod>>,
    /// Which pods belong to whom, kept once for all kinds of controllers.
    pub(crate) owned_pods: Arc<Owned<Pod>>,
    pub nodes: Arc<View<Node>>,
    pub deployments: Arc<View<Deployment>>,
    pub replica_sets: Arc<View<ReplicaSet>>,
    pub services: Arc<View<Service>>,
    pub endpoints: Arc<View<Endpoints>>,
    pub slices: Arc<View<EndpointSlice>>,
    pub namespaces: Arc<View<Namespace>>,
    pub jobs: Arc<View<Job>>,
    pub stateful_sets: Arc<View<StatefulSet>>,
    pub daemon_sets: Arc<View<DaemonSet>>,
    pub replication_controllers: Arc<View<ReplicationController>>,
    pub revisions: Arc<View<ControllerRevision>>,
    pub claims: Arc<View<PersistentVolumeClaim>>,
    pub volumes: Arc<View<PersistentVolume>>,
    pub storage_classes: Arc<View<StorageClass>>,
    pub attributes_classes: Arc<View<VolumeAttributesClass>>,
}

impl Shared {
    pub fn new(client: Client, clock: Clock) -> Shared {
        Shared::lazy(client, clock, Presence::assumed())
    }

    /// Views of which those of rare kinds wait for `presence`.
    pub fn lazy(client: Client, clock: Clock, presence: Presence) -> Shared {
        let pods = View::new();
        Shared {
            client,
            clock,
            presence,
            owned_pods: Owned::of(&pods),
            pods,
            nodes: View::new(),
            deployments: View::new(),
            replica_sets: View::new(),
            jobs: View::new(),
            services: View::new(),
            endpoints: View::new(),
            slices: View::new(),
            namespaces: View::new(),
            stateful_sets: View::new(),
            daemon_sets: View::new(),
            replication_controllers: View::new(),
            revisions: View::new(),
            claims: View::new(),
            volumes: View::new(),
            storage_classes: View::new(),
            attributes_classes: View::new(),
        }
    }

    /// Keeps all views up to date for as long as it is polled.
    pub async fn follow(&self) -> Infallible {
        let sets = kind::<StatefulSet>();
        let daemons = kind::<DaemonSet>();
        let controllers = kind::<ReplicationController>();
        let (claims, volumes) = (kind::<PersistentVolumeClaim>(), kind::<PersistentVolume>());
        let attributes = kind::<VolumeAttributesClass>();
        let watches: Vec<BoxFuture<'_, Infallible>> = vec![
            self.pods.follow(Api::all(self.client.clone())).boxed(),
            self.nodes.follow(Api::all(self.client.clone())).boxed(),
            self.deployments.follow(Api::all(self.client.clone())).boxed(),
            self.replica_sets.follow(Api::all(self.client.clone())).boxed(),
            self.services.follow(Api::all(self.client.clone())).boxed(),
            self.endpoints.follow(Api::all(self.client.clone())).boxed(),
            self.slices.follow(Api::all(self.client.clone())).boxed(),
            self.namespaces.follow(Api::all(self.client.clone())).boxed(),
            self.once(vec![kind::<Job>(), kind::<CronJob>()], &self.jobs),
            self.once(vec![sets.clone()], &self.stateful_sets),
            self.once(vec![daemons.clone()], &self.daemon_sets),
            self.once(vec![controllers], &self.replication_controllers),
            self.once(vec![sets.clone(), daemons], &self.revisions),
            self.once(vec![sets, claims.clone(), volumes.clone(), attributes.clone()], &self.claims),
            self.once(vec![claims.clone(), volumes.clone(), attributes.clone()], &self.volumes),
            self.once(vec![claims, volumes, attributes.clone()], &self.storage_classes),
            self.once(vec![attributes], &self.attributes_classes),
        ];
        select_all(watches).await.0
    }

    /// Follows a kind from when any of `kinds` is present.
    fn once<'a, K>(
        &'a self,
        kinds: Vec<(String, String)>,
        view: &'a Arc<View<K>>,
    ) -> BoxFuture<'a, Infallible>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        async move {
            self.presence.any_of(&kinds).await;
            view.follow(Api::all(self.client.clone())).await
        }
        .boxed()
    }
}
