//! A whole cluster: every controller, a scheduler and simulated nodes.

use std::ops::Deref;
use std::time::Duration;

use koinon_cluster::kubelet::Settings;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::site::Site;

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
pub(crate) const CRONS: &str = "/apis/batch/v1/namespaces/default/cronjobs";

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
    pub(crate) async fn running() -> Cluster {
        let mut site = Site::open().await;
        site.beat = Duration::from_millis(100);
        let mut cluster = Cluster { site, running: JoinSet::new() };
        cluster.start();
        cluster
    }

    pub(crate) fn start(&mut self) {
        let settings = Settings { nodes: 2, ..Settings::default() };
        let whole = koinon_cluster::Cluster::new(self.through.clone(), self.clock.clone(), "", settings);
        self.running.spawn(whole.namespace_grace(Duration::ZERO).run(std::future::pending()));
    }

    /// Stops everything but the server, wherever it is.
    pub(crate) async fn stop(&mut self) {
        self.running.shutdown().await;
    }

    pub(crate) async fn until_is(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.until(path, |object| object.is_some_and(&wanted)).await.expect("it is there")
    }

    /// Waits until a Job is over; gives it.
    pub(crate) async fn until_over(&self, name: &str) -> Value {
        self.until_is(&format!("{JOBS}/{name}"), |job| is(job, "Complete") || is(job, "Failed")).await
    }

    /// The pods of a Job, by name.
    pub(crate) async fn pods_of(&self, job: &str) -> Vec<Value> {
        let mut pods = self.list(PODS).await;
        pods.retain(|pod| pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == job);
        pods
    }

    /// The reasons of the events about an object, in the order of their making.
    pub(crate) async fn told(&self, name: &str) -> Vec<String> {
        let mut events = self.list("/api/v1/namespaces/default/events").await;
        events.retain(|event| event["involvedObject"]["name"] == name);
        events.sort_by_key(|event| {
            event["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap()
        });
        events.iter().map(|event| event["reason"].as_str().unwrap().to_owned()).collect()
    }
}

/// Whether a condition is true.
pub(crate) fn is(object: &Value, kind: &str) -> bool {
    conditions(object).contains(&kind.to_owned())
}

/// The conditions that are true, in their order.
pub(crate) fn conditions(object: &Value) -> Vec<String> {
    let all = object["status"]["conditions"].as_array().into_iter().flatten();
    let held = all.filter(|condition| condition["status"] == "True");
    held.map(|condition| condition["type"].as_str().unwrap().to_owned()).collect()
}

/// The spec of a Job whose pods do as the annotation says; `extra` goes into it.
pub(crate) fn spec(behaviour: &str, after: &str, extra: Value) -> Value {
    let annotations = json!({format!("sim.koinon.dev/{behaviour}"): after});
    let mut spec = json!({"template": {"metadata": {"annotations": annotations}, "spec": {
        "restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}],
    }}});
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    spec
}

pub(crate) fn job(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": spec})
}
