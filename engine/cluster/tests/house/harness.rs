//! A cluster with its housekeeping, whose server can be told to answer wrongly.

use std::ops::Deref;
use std::time::Duration;

use koinon_cluster::Housekeeping;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::site::Site;
pub(crate) use crate::site::{answer, answer_of};

const LONGER_THAN_ANY_PAUSE: Duration = Duration::from_secs(310);

pub(crate) struct Cluster {
    site: Site,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
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
        Cluster { site: Site::open().await, running: None }
    }

    pub(crate) async fn kept() -> Cluster {
        let mut cluster = Cluster::bare().await;
        cluster.keep();
        cluster
    }

    pub(crate) fn keep(&mut self) {
        let (stop, stopped) = oneshot::channel();
        let house = Housekeeping::new(self.through.clone()).clock(self.clock.clone());
        let house = house.namespace_grace(Duration::ZERO);
        let task = tokio::spawn(house.run(async { drop(stopped.await) }));
        self.running = Some((stop, task));
    }

    /// Ends housekeeping; returns once nothing of it runs any more.
    pub(crate) async fn leave(&mut self) {
        let (stop, task) = self.running.take().expect("housekeeping runs");
        stop.send(()).expect("housekeeping waits for its end");
        task.await.expect("housekeeping ends well");
    }

    /// Lets time pass until nothing has been written for longer than the longest pause between two attempts.
    pub(crate) async fn rest(&self) {
        self.rest_for(LONGER_THAN_ANY_PAUSE).await;
    }

    pub(crate) async fn delete(&self, path: &str, policy: &str) {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy});
        self.remove(path, Some(&options)).await;
    }

    /// The names of a list.
    pub(crate) async fn names(&self, path: &str) -> Vec<String> {
        let items = self.list(path).await;
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Makes a ConfigMap in `default`: the simplest thing that can own and be owned.
    pub(crate) async fn map(&self, name: &str, owners: &[Value], finalizers: &[&str]) -> Value {
        self.map_in("default", name, owners, finalizers).await
    }

    pub(crate) async fn map_in(
        &self,
        namespace: &str,
        name: &str,
        owners: &[Value],
        finalizers: &[&str],
    ) -> Value {
        let metadata = json!({"name": name, "ownerReferences": owners, "finalizers": finalizers});
        self.create(&format!("/api/v1/namespaces/{namespace}/configmaps"), json!({"metadata": metadata}))
            .await
    }
}

pub(crate) fn map(name: &str) -> String {
    format!("/api/v1/namespaces/default/configmaps/{name}")
}

/// A reference to a ConfigMap.
pub(crate) fn owned_by(owner: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]})
}

pub(crate) fn blocking(mut reference: Value) -> Value {
    reference["blockOwnerDeletion"] = true.into();
    reference
}
