//! A cluster whose workloads are kept, with nodes that do as they are told and a wire that can be cut.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use koinon_cluster::shared::Shared;
use koinon_cluster::{Clock, daemonsets, deployments, replicasets, statefulsets};
use koinon_control::View;
use koinon_control::events::{Recorder, recorder};
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;

pub(crate) use crate::site::answer_of;
use crate::site::{Site, call};

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
pub(crate) const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
pub(crate) const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
pub(crate) const CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";
pub(crate) const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";
pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const EVENTS: &str = "/api/v1/namespaces/default/events";

const LONGER_THAN_ANY_PAUSE: Duration = Duration::from_secs(1100);
/// How long nodes take to notice.
const BEAT: Duration = Duration::from_millis(100);

type Mind = Box<dyn Fn(&Value) -> Mood + Send + Sync>;

/// What a node makes of a pod.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mood {
    Ready,
    Unready,
    /// The pod ends by itself.
    Failed,
    /// The node does nothing, not even for a pod that is told to end.
    Ignore,
}

pub(crate) struct Cluster {
    site: Site,
    mind: Arc<Mutex<Mind>>,
    bell: Arc<Notify>,
    seen: Arc<Mutex<Seen>>,
    controllers: JoinSet<()>,
    _nodes: JoinSet<()>,
}

impl Deref for Cluster {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

impl Cluster {
    /// A cluster whose pods become ready on their nodes.
    pub(crate) async fn new() -> Cluster {
        let mut cluster = Cluster::unkept().await;
        cluster.keep();
        cluster
    }

    /// A cluster with nodes and no controllers.
    pub(crate) async fn unkept() -> Cluster {
        let site = Site::open().await;
        let account = json!({"metadata": {"name": "default"}});
        site.create("/api/v1/namespaces/default/serviceaccounts", account).await;
        let mut cluster = Cluster {
            site,
            mind: Arc::new(Mutex::new(Box::new(|_| Mood::Ready))),
            bell: Arc::default(),
            seen: Arc::default(),
            controllers: JoinSet::new(),
            _nodes: JoinSet::new(),
        };
        let nodes = Nodes {
            client: cluster.client.clone(),
            mind: cluster.mind.clone(),
            clock: cluster.clock.clone(),
            pods: View::new(),
            bell: cluster.bell.clone(),
            seen: cluster.seen.clone(),
        };
        cluster._nodes.spawn(nodes.run());
        cluster
    }

    /// Starts the controllers.
    pub(crate) fn keep(&mut self) {
        let shared = Shared::new(self.through.clone(), self.clock.clone());
        let follow = shared.clone();
        self.controllers.spawn(async move { match follow.follow().await {} });
        self.start(&shared, replicasets::COMPONENT, replicasets::run);
        self.start(&shared, deployments::COMPONENT, deployments::run);
        self.start(&shared, statefulsets::COMPONENT, statefulsets::run);
        self.start(&shared, daemonsets::COMPONENT, daemonsets::run);
        self.start(&shared, replicasets::CONTROLLERS_COMPONENT, replicasets::run_controllers);
    }

    fn start<F>(&mut self, shared: &Shared, component: &str, run: fn(Shared, Recorder) -> F)
    where
        F: Future<Output = Infallible> + Send + 'static,
    {
        let (told, write) = recorder(self.through.clone(), component, self.clock.clone());
        self.controllers.spawn(write.run());
        let running = run(shared.clone(), told);
        self.controllers.spawn(async move { match running.await {} });
    }

    /// Stops the controllers, wherever they are.
    pub(crate) async fn leave(&mut self) {
        self.controllers.shutdown().await;
    }

    /// From now on, nodes treat their pods like this.
    pub(crate) fn mind(&self, mind: impl Fn(&Value) -> Mood + Send + Sync + 'static) {
        *self.mind.lock() = Box::new(mind);
        self.bell.notify_one();
    }

    /// What pods there were so far.
    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().clone()
    }

    /// Lets time pass until nothing has been written for longer than the longest pause between two attempts.
    pub(crate) async fn rest(&self) {
        self.rest_for(LONGER_THAN_ANY_PAUSE).await;
    }

    pub(crate) async fn delete(&self, path: &str) {
        self.remove(path, None).await;
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.site.get(path).await.unwrap_or_else(|| panic!("{path} is not there"))
    }

    /// Pods that have neither ended nor been told to.
    pub(crate) async fn active_pods(&self) -> Vec<Value> {
        let mut pods = self.list(PODS).await;
        pods.retain(is_active);
        pods
    }

    /// Waits until an object is as it should be.
    pub(crate) async fn until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let object = self.site.until(path, |object| object.is_some_and(&wanted)).await;
        object.expect("it is there")
    }

    /// Waits until a Deployment has rolled out what it asks for.
    pub(crate) async fn until_rolled_out(&self, name: &str) -> Value {
        self.until(&format!("{DEPLOYMENTS}/{name}"), is_rolled_out).await
    }

    /// The ReplicaSet that a Deployment made for an image.
    pub(crate) async fn set_of(&self, image: &str) -> Value {
        let sets = self.list(SETS).await;
        let found = sets.iter().find(|set| image_of(&set["spec"]["template"]) == image);
        found.unwrap_or_else(|| panic!("no ReplicaSet for {image}: {sets:#?}")).clone()
    }

    /// Images and sizes of all ReplicaSets, in the order of their images.
    pub(crate) async fn sizes(&self) -> Vec<(String, i64)> {
        let mut sizes: Vec<_> = self
            .list(SETS)
            .await
            .iter()
            .map(|set| {
                (image_of(&set["spec"]["template"]).to_owned(), set["spec"]["replicas"].as_i64().unwrap())
            })
            .collect();
        sizes.sort();
        sizes
    }

    /// Reasons and messages of the events about one object, in the order of their making.
    pub(crate) async fn events_about(&self, name: &str) -> Vec<(String, String)> {
        let mut events = self.list(EVENTS).await;
        events.retain(|event| event["involvedObject"]["name"] == name);
        events.sort_by_key(|event| {
            event["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap()
        });
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        events.iter().map(|event| (text(&event["reason"]), text(&event["message"]))).collect()
    }
}

/// Nodes that treat pods as they are told.
struct Nodes {
    client: Client,
    mind: Arc<Mutex<Mind>>,
    clock: Clock,
    pods: Arc<View<Pod>>,
    /// Rings when a pod or the mind changed.
    bell: Arc<Notify>,
    seen: Arc<Mutex<Seen>>,
}

/// The names of all pods that there ever were.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    pub(crate) ever: BTreeSet<String>,
    pub(crate) told_to_end: BTreeSet<String>,
}

impl Nodes {
    async fn run(self) {
        let (ring, seen) = (self.bell.clone(), self.seen.clone());
        self.pods.on_change(move |before, after| {
            let name = before.or(after).map(|pod| pod.name_any()).unwrap_or_default();
            if after.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some()) {
                seen.lock().told_to_end.insert(name.clone());
            }
            seen.lock().ever.insert(name);
            ring.notify_one();
        });
        let work = async {
            loop {
                self.bell.notified().await;
                tokio::time::sleep(BEAT).await;
                for pod in self.pods.all() {
                    let pod = serde_json::to_value(&*pod).unwrap();
                    let mood = (self.mind.lock())(&pod);
                    // A pod that went meanwhile needs nothing more.
                    let _ = self.treat(&pod, mood).await;
                }
            }
        };
        tokio::select! {
            biased;
            never = self.pods.follow(Api::namespaced(self.client.clone(), "default")) => match never {},
            () = work => {}
        }
    }

    async fn treat(&self, pod: &Value, mood: Mood) -> Result<(), kube::Error> {
        let path = format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap());
        if mood == Mood::Ignore {
            return Ok(());
        }
        if pod["metadata"]["deletionTimestamp"].is_string() {
            let now = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
            return call(&self.client, Method::DELETE, &path, Some(&now)).await.map(drop);
        }
        if pod["spec"]["nodeName"].is_null() {
            let binding = json!({"apiVersion": "v1", "kind": "Binding",
                "metadata": {"name": pod["metadata"]["name"]}, "target": {"kind": "Node", "name": node_of(pod)}});
            call(&self.client, Method::POST, &format!("{path}/binding"), Some(&binding)).await?;
        }
        let (phase, ready) = match mood {
            Mood::Ready => ("Running", "True"),
            Mood::Unready => ("Running", "False"),
            Mood::Failed => ("Failed", "False"),
            Mood::Ignore => return Ok(()),
        };
        if pod["status"]["phase"] == phase && readiness(pod)["status"] == ready {
            return Ok(());
        }
        let now = Timestamp::from_second(self.clock.now().as_second()).unwrap().to_string();
        let condition = json!({"type": "Ready", "status": ready, "lastTransitionTime": now});
        let status = json!({"status": {"phase": phase, "conditions": [condition]}});
        call(&self.client, Method::PATCH, &format!("{path}/status"), Some(&status)).await.map(drop)
    }
}

/// The node that a pod is aimed at, or the one that takes all others.
fn node_of(pod: &Value) -> &str {
    let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0].as_str().unwrap_or("n1")
}

pub(crate) fn readiness(pod: &Value) -> &Value {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready").unwrap_or(&Value::Null)
}

pub(crate) fn is_active(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null()
        && !["Failed", "Succeeded"].iter().any(|phase| pod["status"]["phase"] == *phase)
}

pub(crate) fn is_rolled_out(deployment: &Value) -> bool {
    let (status, wanted) = (&deployment["status"], &deployment["spec"]["replicas"]);
    let count = |name: &str| status[name].as_i64().unwrap_or(0) == wanted.as_i64().unwrap();
    status["observedGeneration"] == deployment["metadata"]["generation"]
        && count("replicas")
        && count("updatedReplicas")
        && count("availableReplicas")
        && (condition(deployment, "Progressing")["reason"] == "NewReplicaSetAvailable"
            || deployment["spec"]["progressDeadlineSeconds"] == i32::MAX)
}

pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

pub(crate) fn image_of(template: &Value) -> &str {
    template["spec"]["containers"][0]["image"].as_str().unwrap()
}

/// A Deployment; `extra` goes into its spec.
pub(crate) fn deployment(name: &str, replicas: i64, image: &str, extra: Value) -> Value {
    let mut spec = set(name, replicas, image)["spec"].clone();
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "spec": spec})
}

/// A ReplicaSet.
pub(crate) fn set(name: &str, replicas: i64, image: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": pod(name, image),
    }})
}

/// A pod, or a template for some.
pub(crate) fn pod(app: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

pub(crate) fn with_image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}
