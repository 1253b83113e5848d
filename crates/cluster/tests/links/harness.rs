//! A cluster in one process with some of its controllers, whose server can lose answers and fail.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Method, Request, Response};
use jiff::Timestamp;
use koinon_apiserver::auth::User;
use koinon_apiserver::auth::pki::Authority;
use koinon_apiserver::context::Context;
use koinon_apiserver::serve::{Options, Server};
use koinon_cluster::shared::Shared;
use koinon_cluster::{Clock, accounts, disruption, endpoints, garbage, quota};
use koinon_control::events;
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::ServiceExt as _;

/// Long enough for everything that the controllers do by themselves, pauses included.
const LONG: Duration = Duration::from_secs(600);
const LONGER_THAN_ANY_PAUSE: Duration = Duration::from_secs(310);

/// The bundle that the controllers are told to publish.
pub(crate) const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nours\n-----END CERTIFICATE-----\n";

/// What the controllers' requests meet on their way.
#[derive(Default)]
struct Wire {
    /// Of so many writes, the answer to the last is lost; the write is not.
    loss: Mutex<Option<usize>>,
    writes: Mutex<Vec<String>>,
}

pub(crate) struct Cluster {
    /// Straight to the server: what the tests do and see.
    client: Client,
    wire: Arc<Wire>,
    through: Client,
    clock: Clock,
    running: JoinSet<()>,
}

impl Cluster {
    /// A cluster that nobody keeps.
    pub(crate) async fn bare() -> Cluster {
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
                // Events tell and change nothing: they may come late.
                let counts = request.method() != Method::GET && !path.ends_with("/events");
                let lost = counts && {
                    let mut writes = wire.writes.lock();
                    writes.push(format!("{} {path}", request.method()));
                    wire.loss.lock().is_some_and(|every| writes.len().is_multiple_of(every))
                };
                let answer = router.oneshot(request).await;
                if lost { Ok(failure(504)) } else { answer }
            }
        });
        Cluster {
            client: Client::new(router, "default"),
            through: Client::new(service, "default"),
            wire,
            clock: Clock::new(now),
            running: JoinSet::new(),
        }
    }

    /// A cluster with all controllers of these tests.
    pub(crate) async fn kept() -> Cluster {
        let mut cluster = Cluster::bare().await;
        cluster.keep();
        cluster
    }

    pub(crate) fn keep(&mut self) {
        let shared = Shared::new(self.through.clone(), self.clock.clone());
        let (recorder, writer) =
            events::recorder(self.through.clone(), "endpoint-slice-controller", self.clock.clone());
        let tasks = &mut self.running;
        tasks.spawn(writer.run());
        let views = shared.clone();
        tasks.spawn(async move { match views.follow().await {} });
        let one = shared.clone();
        tasks.spawn(async move { match endpoints::run(one, recorder).await {} });
        let one = shared.clone();
        tasks.spawn(async move { match accounts::run(one, AUTHORITY.to_owned()).await {} });
        let one = shared.clone();
        tasks.spawn(async move { match quota::run(one).await {} });
        let (recorder, writer) =
            events::recorder(self.through.clone(), "controllermanager", self.clock.clone());
        tasks.spawn(writer.run());
        let one = shared.clone();
        tasks.spawn(async move { match disruption::run(one, recorder).await {} });
        let one = shared;
        tasks.spawn(async move { match garbage::run(one.client, one.clock).await {} });
    }

    /// Ends the controllers; returns once none of them runs any more.
    pub(crate) async fn leave(&mut self) {
        self.running.shutdown().await;
    }

    /// From now on, the answer to every n-th write of the controllers is lost.
    pub(crate) fn lose_answers(&self, every: usize) {
        *self.wire.loss.lock() = Some(every);
    }

    pub(crate) fn heal(&self) {
        *self.wire.loss.lock() = None;
    }

    /// What the controllers wrote so far about one resource, as method and path.
    pub(crate) fn writes_to(&self, resource: &str) -> Vec<String> {
        let mut writes = self.wire.writes.lock().clone();
        writes.retain(|write| write.split('/').any(|part| part == resource));
        writes
    }

    /// Lets time pass until nothing has been written for longer than the longest pause between two attempts.
    pub(crate) async fn rest(&self) {
        for _ in 0..20 {
            let before = self.wire.writes.lock().len();
            tokio::time::sleep(LONGER_THAN_ANY_PAUSE).await;
            if self.wire.writes.lock().len() == before {
                return;
            }
        }
        panic!("no rest: {:#?}", self.wire.writes.lock());
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, kube::Error> {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let body = body.map(|body| serde_json::to_vec(body).unwrap()).unwrap_or_default();
        let request =
            Request::builder().method(method).uri(path).header("content-type", kind).body(body).unwrap();
        self.client.request(request).await
    }

    pub(crate) async fn create(&self, path: &str, object: Value) -> Value {
        self.try_create(path, object).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) async fn try_create(&self, path: &str, object: Value) -> Result<Value, kube::Error> {
        self.call(Method::POST, path, Some(&object)).await
    }

    pub(crate) async fn patch(&self, path: &str, patch: Value) -> Value {
        self.call(Method::PATCH, path, Some(&patch)).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Deletes at once, without any grace.
    pub(crate) async fn delete(&self, path: &str) {
        let options = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
        let answer = self.call(Method::DELETE, path, Some(&options)).await;
        answer.unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        match self.call(Method::GET, path, None).await {
            Ok(object) => Some(object),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("{path}: {error}"),
        }
    }

    /// Waits until an object is as it should be; `None` stands for its absence.
    pub(crate) async fn until(&self, path: &str, wanted: impl Fn(Option<&Value>) -> bool) -> Option<Value> {
        let deadline = Instant::now() + LONG;
        loop {
            let object = self.get(path).await;
            if wanted(object.as_ref()) {
                return object;
            }
            assert!(
                Instant::now() < deadline,
                "{path} stays {object:#?}\nwrites: {:#?}",
                self.wire.writes.lock()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
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

fn failure(code: u16) -> Response<Body> {
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "lost", "code": code});
    let response = Response::builder().status(code).header("content-type", "application/json");
    response.body(Body::from(status.to_string())).expect("an answer")
}
