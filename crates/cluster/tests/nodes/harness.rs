//! A cluster with simulated nodes, whose server can be told to answer wrongly.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Method, Request, Response};
use jiff::Timestamp;
use koinon_apiserver::auth::User;
use koinon_apiserver::auth::pki::Authority;
use koinon_apiserver::context::Context;
use koinon_apiserver::serve::{Options, Server};
use koinon_cluster::Clock;
use koinon_cluster::kubelet::{self, Kubelet};
use koinon_cluster::nodes::{self, NodeLifecycle};
use koinon_cluster::scheduler::Scheduler;
use koinon_cluster::shared::Shared;
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::ServiceExt as _;

/// Long enough for everything that happens by itself.
const LONG: Duration = Duration::from_secs(1200);

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const NODES: &str = "/api/v1/nodes";

type Fault = Box<dyn Fn(&Method, &str) -> Option<Response<Body>> + Send + Sync>;

/// What the controllers' requests meet on their way.
#[derive(Default)]
struct Wire {
    fault: Mutex<Option<Fault>>,
    /// Of so many writes, the answer to the last is lost; the write is not.
    loss: Mutex<Option<usize>>,
    writes: Mutex<Vec<String>>,
}

/// Which parts run.
#[derive(Clone, Default)]
pub(crate) struct Parts {
    pub(crate) kubelet: kubelet::Settings,
    pub(crate) nodes: nodes::Settings,
}

pub(crate) struct Cluster {
    client: Client,
    through: Client,
    wire: Arc<Wire>,
    clock: Clock,
    parts: Parts,
    running: JoinSet<()>,
}

impl Cluster {
    /// A cluster in which nothing runs yet.
    pub(crate) async fn bare(parts: Parts) -> Cluster {
        let start = Instant::now();
        let now = move || Timestamp::from_second(1_800_000_000).unwrap() + start.elapsed();
        let context = Context::seeded(1, now);
        let authority = Authority::in_memory(&context).unwrap();
        let server = Server::open(Options::default(), &authority, context).await.unwrap();
        let router = server.trusted_router(User::new("system:admin", &["system:masters"]));
        let wire = Arc::new(Wire::default());
        let watched = (router.clone(), wire.clone());
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let (router, wire) = watched.clone();
            async move {
                let path = request.uri().path().to_owned();
                let writes = request.method() != Method::GET;
                if writes {
                    wire.writes.lock().push(format!("{} {path}", request.method()));
                }
                let wrong = wire.fault.lock().as_ref().and_then(|fault| fault(request.method(), &path));
                if let Some(answer) = wrong {
                    return Ok(answer);
                }
                let count = wire.writes.lock().len();
                let lost = writes && wire.loss.lock().is_some_and(|every| count.is_multiple_of(every));
                let answer = router.oneshot(request).await;
                if lost { Ok(answer_of(504)) } else { answer }
            }
        });
        let cluster = Cluster {
            client: Client::new(router, "default"),
            through: Client::new(service, "default"),
            wire,
            clock: Clock::new(now),
            parts,
            running: JoinSet::new(),
        };
        cluster
            .create("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "default"}}))
            .await;
        cluster
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

    /// From now on, requests of the controllers are answered by `fault` where it has an answer.
    pub(crate) fn fault(
        &self,
        fault: impl Fn(&Method, &str) -> Option<Response<Body>> + Send + Sync + 'static,
    ) {
        *self.wire.fault.lock() = Some(Box::new(fault));
    }

    /// From now on, the answer to every n-th write of the controllers is lost.
    pub(crate) fn lose_answers(&self, every: usize) {
        *self.wire.loss.lock() = Some(every);
    }

    pub(crate) fn heal(&self) {
        *self.wire.fault.lock() = None;
        *self.wire.loss.lock() = None;
    }

    /// What the controllers wrote so far, but for leases.
    pub(crate) fn writes(&self) -> Vec<String> {
        let mut writes = self.wire.writes.lock().clone();
        writes.retain(|write| !write.contains("/leases"));
        writes
    }

    pub(crate) fn heartbeats(&self) -> usize {
        self.wire.writes.lock().iter().filter(|write| write.contains("/leases")).count()
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, kube::Error> {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let body = body.map(|body| serde_json::to_vec(body).unwrap()).unwrap_or_default();
        let request =
            Request::builder().method(method).uri(path).header("content-type", kind).body(body).unwrap();
        self.client.request(request).await
    }

    pub(crate) async fn create(&self, path: &str, object: Value) -> Value {
        self.call(Method::POST, path, Some(&object)).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) async fn patch(&self, path: &str, patch: Value) -> Value {
        self.call(Method::PATCH, path, Some(&patch)).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) async fn delete(&self, path: &str) {
        self.call(Method::DELETE, path, None).await.unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        match self.call(Method::GET, path, None).await {
            Ok(object) => Some(object),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("{path}: {error}"),
        }
    }

    pub(crate) async fn list(&self, path: &str) -> Vec<Value> {
        self.get(path).await.expect("the list is served")["items"].as_array().unwrap().clone()
    }

    /// Waits until an object is as it should be; `None` stands for its absence.
    pub(crate) async fn until(&self, path: &str, wanted: impl Fn(Option<&Value>) -> bool) -> Option<Value> {
        let deadline = Instant::now() + LONG;
        loop {
            let object = self.get(path).await;
            if wanted(object.as_ref()) {
                return object;
            }
            assert!(Instant::now() < deadline, "{path} stays {object:#?}\nwrites: {:#?}", self.writes());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
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

    pub(crate) async fn until_gone(&self, path: &str) {
        self.until(path, |object| object.is_none()).await;
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

/// A failure with nothing to say for itself.
pub(crate) fn answer_of(code: u16) -> Response<Body> {
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "fault", "code": code});
    let response = Response::builder().status(code).header("content-type", "application/json");
    response.body(Body::from(status.to_string())).unwrap()
}
