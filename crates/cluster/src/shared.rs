//! What the controllers of one cluster share: one client, one clock, and one watch for each kind.

use std::convert::Infallible;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, select_all};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use koinon_control::{Clock, View};
use kube::{Api, Client};

/// The views that several controllers look at, so that each kind is watched once.
#[derive(Clone)]
pub struct Shared {
    pub client: Client,
    pub clock: Clock,
    pub pods: Arc<View<Pod>>,
    pub nodes: Arc<View<Node>>,
    pub deployments: Arc<View<Deployment>>,
    pub replica_sets: Arc<View<ReplicaSet>>,
    pub services: Arc<View<Service>>,
    pub slices: Arc<View<EndpointSlice>>,
    pub namespaces: Arc<View<Namespace>>,
}

impl Shared {
    pub fn new(client: Client, clock: Clock) -> Shared {
        Shared {
            client,
            clock,
            pods: View::new(),
            nodes: View::new(),
            deployments: View::new(),
            replica_sets: View::new(),
            services: View::new(),
            slices: View::new(),
            namespaces: View::new(),
        }
    }

    /// Keeps all views up to date for as long as it is polled.
    pub async fn follow(&self) -> Infallible {
        let watches: Vec<BoxFuture<'_, Infallible>> = vec![
            self.pods.follow(Api::all(self.client.clone())).boxed(),
            self.nodes.follow(Api::all(self.client.clone())).boxed(),
            self.deployments.follow(Api::all(self.client.clone())).boxed(),
            self.replica_sets.follow(Api::all(self.client.clone())).boxed(),
            self.services.follow(Api::all(self.client.clone())).boxed(),
            self.slices.follow(Api::all(self.client.clone())).boxed(),
            self.namespaces.follow(Api::all(self.client.clone())).boxed(),
        ];
        select_all(watches).await.0
    }
}
