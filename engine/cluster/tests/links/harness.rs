//! A cluster in one process with some of its controllers, whose server can lose answers and fail.

use std::ops::Deref;
use std::time::Duration;

use http::Method;
use koinon_cluster::shared::Shared;
use koinon_cluster::{accounts, disruption, endpoints, garbage, quota, volumes};
use koinon_control::events;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::site::Site;

const LONGER_THAN_ANY_PAUSE: Duration = Duration::from_secs(310);

/// The bundle that the controllers are told to publish.
pub(crate) const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nours\n-----END CERTIFICATE-----\n";

pub(crate) struct Cluster {
    site: Site,
    running: JoinSet<()>,
}

impl Deref for Cluster {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

impl Cluster {
    /// A cluster that nobody keeps.
    pub(crate) async fn bare() -> Cluster {
        Cluster { site: Site::open().await, running: JoinSet::new() }
    }

    /// A cluster with all controllers of these tests.
    pub(crate) async fn kept() -> Cluster {
        let mut cluster = Cluster::bare().await;
        cluster.keep();
        cluster
    }

    pub(crate) fn keep(&mut self) {
        let shared = Shared::new(self.site.through.clone(), self.site.clock.clone());
        let (recorder, writer) =
            events::recorder(self.site.through.clone(), "endpoint-slice-controller", self.site.clock.clone());
        let tasks = &mut self.running;
        tasks.spawn(writer.run());
        let views = shared.clone();
        tasks.spawn(async move { match views.follow().await {} });
        let (one, told) = (shared.clone(), recorder.clone());
        tasks.spawn(async move { match endpoints::run(one, told).await {} });
        let (one, told) = (shared.clone(), recorder.clone());
        tasks.spawn(async move { match endpoints::classic::run(one, told).await {} });
        let one = shared.clone();
        tasks.spawn(async move { match endpoints::mirror::run(one, recorder).await {} });
        let one = shared.clone();
        tasks.spawn(async move { match accounts::run(one, AUTHORITY.to_owned()).await {} });
        let one = shared.clone();
        tasks.spawn(async move { match quota::run(one).await {} });
        let (recorder, writer) =
            events::recorder(self.site.through.clone(), "controllermanager", self.site.clock.clone());
        tasks.spawn(writer.run());
        let one = shared.clone();
        tasks.spawn(async move { match disruption::run(one, recorder).await {} });
        let (recorder, writer) =
            events::recorder(self.site.through.clone(), volumes::COMPONENT, self.site.clock.clone());
        tasks.spawn(writer.run());
        let one = shared.clone();
        tasks.spawn(async move { match volumes::run(one, recorder).await {} });
        let one = shared;
        tasks.spawn(async move { match garbage::run(one.client, one.clock, one.presence).await {} });
    }

    /// Ends the controllers; returns once none of them runs any more.
    pub(crate) async fn leave(&mut self) {
        self.running.shutdown().await;
    }

    /// Lets time pass until nothing has been written for longer than the longest pause between two attempts.
    pub(crate) async fn rest(&self) {
        self.rest_for(LONGER_THAN_ANY_PAUSE).await;
    }

    pub(crate) async fn try_create(&self, path: &str, object: Value) -> Result<Value, kube::Error> {
        self.call(Method::POST, path, Some(&object)).await
    }

    /// Deletes at once, without any grace.
    pub(crate) async fn delete(&self, path: &str) {
        self.remove(path, Some(&json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"}))).await;
    }

    /// Waits until a list is as it should be.
    pub(crate) async fn until_list(&self, path: &str, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let items = |list: &Value| list["items"].as_array().cloned().unwrap_or_default();
        let list = self.until(path, |list| list.is_some_and(|list| wanted(&items(list)))).await;
        items(&list.unwrap())
    }

    /// A node that pods can be on.
    pub(crate) async fn node(&self, name: &str, zone: &str) {
        let labels = json!({"topology.kubernetes.io/zone": zone});
        self.create("/api/v1/nodes", json!({"metadata": {"name": name, "labels": labels}})).await;
    }

    /// A pod of `app` on a node, running and ready under this address.
    pub(crate) async fn pod(&self, name: &str, app: &str, node: &str, address: &str) -> Value {
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": app}},
            "spec": {
                "nodeName": node, "automountServiceAccountToken": false,
                "containers": [{
                    "name": "c", "image": "i", "ports": [{"name": "http", "containerPort": 8080}],
                }],
            },
        });
        let made = self.create("/api/v1/namespaces/default/pods", pod).await;
        let status = json!({"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]});
        self.patch(&format!("{}/status", self::pod(name)), json!({"status": status})).await;
        self.ready(name, true).await;
        made
    }

    /// Says of a pod whether it is ready.
    pub(crate) async fn ready(&self, name: &str, ready: bool) {
        let condition = json!({
            "type": "Ready", "status": if ready { "True" } else { "False" },
            "lastTransitionTime": self.clock.now().to_string(),
        });
        self.patch(&format!("{}/status", self::pod(name)), json!({"status": {"conditions": [condition]}}))
            .await;
    }
}

pub(crate) fn pod(name: &str) -> String {
    format!("/api/v1/namespaces/default/pods/{name}")
}
