//! A cluster with simulated nodes, whose server can be told to answer wrongly.

use std::ops::Deref;
use std::time::Duration;

use koinon_cluster::kubelet::{self, Kubelet};
use koinon_cluster::nodes::{self, NodeLifecycle};
use koinon_cluster::scheduler::Scheduler;
use koinon_cluster::shared::Shared;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::site::Site;
pub(crate) use crate::site::answer_of;

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const NODES: &str = "/api/v1/nodes";

/// Which parts run.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) kubelet: kubelet::Settings,
    pub(crate) nodes: nodes::Settings,
}

impl Default for Parts {
    /// At a pace of which tests know the sums.
    fn default() -> Parts {
        let half = Duration::from_millis(500);
        let kubelet = kubelet::Settings {
            start_after: half,
            ready_after: half,
            terminate_after: 2 * half,
            ..kubelet::Settings::default()
        };
        Parts { kubelet, nodes: nodes::Settings::default() }
    }
}

pub(crate) struct Cluster {
    site: Site,
    parts: Parts,
    running: JoinSet<()>,
}

impl Deref for Cluster {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

impl Cluster {
    /// A cluster in which nothing runs yet.
    pub(crate) async fn bare(parts: Parts) -> Cluster {
        let mut site = Site::open().await;
        site.beat = Duration::from_millis(100);
        let account = json!({"metadata": {"name": "default"}});
        site.create("/api/v1/namespaces/default/serviceaccounts", account).await;
        Cluster { site, parts, running: JoinSet::new() }
    }

    /// A cluster with nodes that were given time to register.
    pub(crate) async fn running(parts: Parts) -> Cluster {
        let mut cluster = Cluster::bare(parts).await;
        cluster.start();
        for number in 1..=cluster.parts.kubelet.nodes {
            cluster.until(&format!("{NODES}/node-{number}"), is_schedulable).await;
        }
        cluster
    }

    pub(crate) fn start(&mut self) {
        let shared = Shared::new(self.through.clone(), self.clock.clone());
        let kubelet = Kubelet::new(&shared, self.parts.kubelet.clone());
        let lifecycle = NodeLifecycle::new(&shared, self.parts.nodes.clone());
        let scheduler = Scheduler::new(&shared);
        self.running.spawn(async move { match shared.follow().await {} });
        self.running.spawn(async move { match kubelet.run().await {} });
        self.running.spawn(async move { match lifecycle.run().await {} });
        self.running.spawn(async move { match scheduler.run().await {} });
    }

    pub(crate) async fn stop(&mut self) {
        self.running.shutdown().await;
    }

    /// What the controllers wrote so far, but for leases.
    pub(crate) fn writes(&self) -> Vec<String> {
        let mut writes = self.site.writes();
        writes.retain(|write| !write.contains("/leases"));
        writes
    }

    pub(crate) fn heartbeats(&self) -> usize {
        self.site.writes().iter().filter(|write| write.contains("/leases")).count()
    }

    pub(crate) async fn delete(&self, path: &str) {
        self.remove(path, None).await;
    }

    /// Makes a pod in `default`; `spec` is laid over the simplest one.
    pub(crate) async fn pod(&self, name: &str, annotations: Value, spec: Value) -> Value {
        let mut all = json!({
            "containers": [{"name": "main", "image": "nginx"}],
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 30,
        });
        for (key, value) in spec.as_object().unwrap() {
            all[key] = value.clone();
        }
        let labels = json!({"app": name.split('-').next().unwrap()});
        let metadata = json!({"name": name, "annotations": annotations, "labels": labels});
        self.create(PODS, json!({"metadata": metadata, "spec": all})).await
    }

    pub(crate) async fn until_ready(&self, name: &str) -> Value {
        self.until(&pod(name), |pod| pod.is_some_and(|pod| condition(pod, "Ready") == "True")).await.unwrap()
    }

    /// Waits until a pod fits nowhere; gives the reason.
    pub(crate) async fn until_unschedulable(&self, name: &str) -> String {
        let why = |pod: &Value| {
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let condition = conditions.into_iter().find(|one| one["reason"] == "Unschedulable")?;
            Some(condition["message"].as_str().unwrap().to_owned())
        };
        let pod = self.until(&pod(name), |pod| pod.and_then(why).is_some()).await.unwrap();
        why(&pod).unwrap()
    }

    /// The reasons of the events about an object, by name.
    pub(crate) async fn events(&self, name: &str) -> Vec<String> {
        let mut reasons = Vec::new();
        for event in self.list("/api/v1/events").await {
            if event["involvedObject"]["name"] == name {
                reasons.push(event["reason"].as_str().unwrap().to_owned());
            }
        }
        reasons.sort();
        reasons
    }
}

pub(crate) fn pod(name: &str) -> String {
    format!("{PODS}/{name}")
}

pub(crate) fn node(name: &str) -> String {
    format!("{NODES}/{name}")
}

/// The status of a condition of an object, empty if it has none.
pub(crate) fn condition<'a>(object: &'a Value, type_: &str) -> &'a str {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let condition = conditions.iter().find(|condition| condition["type"] == type_);
    condition.and_then(|condition| condition["status"].as_str()).unwrap_or_default()
}

/// `key:effect` of each taint of a node.
pub(crate) fn taints(node: &Value) -> Vec<String> {
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let text = |taint: &Value| {
        let key = taint["key"].as_str().unwrap().trim_start_matches("node.kubernetes.io/");
        format!("{key}:{}", taint["effect"].as_str().unwrap())
    };
    let mut taints: Vec<_> = taints.iter().map(text).collect();
    taints.sort();
    taints
}

pub(crate) fn is_schedulable(node: Option<&Value>) -> bool {
    node.is_some_and(|node| condition(node, "Ready") == "True" && taints(node).is_empty())
}
