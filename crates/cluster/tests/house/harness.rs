//! A cluster with its housekeeping, whose server can be told to answer wrongly.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Method, Request, Response};
use jiff::Timestamp;
use koinon_apiserver::auth::User;
use koinon_apiserver::auth::pki::Authority;
use koinon_apiserver::context::Context;
use koinon_apiserver::serve::{Options, Server};
use koinon_cluster::{Clock, Housekeeping};
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower::ServiceExt as _;

/// Long enough for everything that housekeeping does by itself, pauses and polls included.
const LONG: Duration = Duration::from_secs(600);

const LONGER_THAN_ANY_PAUSE: Duration = Duration::from_secs(310);

type Fault = Box<dyn Fn(&Method, &str) -> Option<Response<Body>> + Send + Sync>;

/// What the controllers' requests meet on their way.
#[derive(Default)]
struct Wire {
    fault: Mutex<Option<Fault>>,
    /// Of so many writes, the answer to the last is lost; the write is not.
    loss: Mutex<Option<usize>>,
    writes: Mutex<Vec<String>>,
}

impl Wire {
    fn loses_answer(&self) -> bool {
        self.loss.lock().is_some_and(|every| self.writes.lock().len().is_multiple_of(every))
    }
}

pub(crate) struct Cluster {
    /// Straight to the server: what the tests do and see.
    pub(crate) client: Client,
    wire: Arc<Wire>,
    through: Client,
    clock: Clock,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
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
                if request.method() != Method::GET {
                    wire.writes.lock().push(format!("{} {path}", request.method()));
                }
                let wrong = wire.fault.lock().as_ref().and_then(|fault| fault(request.method(), &path));
                if let Some(answer) = wrong {
                    return Ok(answer);
                }
                let lost = request.method() != Method::GET && wire.loses_answer();
                let answer = router.oneshot(request).await;
                if lost { Ok(answer_of(504)) } else { answer }
            }
        });
        Cluster {
            client: Client::new(router, "default"),
            through: Client::new(service, "default"),
            wire,
            clock: Clock::new(now),
            running: None,
        }
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

    /// What the controllers wrote so far.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.wire.writes.lock().clone()
    }

    /// What they wrote so far about objects of one resource.
    pub(crate) fn writes_to(&self, resource: &str) -> Vec<String> {
        let mut writes = self.writes();
        writes.retain(|write| write.contains(&format!("/{resource}/")));
        writes
    }

    /// Lets time pass until nothing has been written for longer than the longest pause between two attempts.
    pub(crate) async fn rest(&self) {
        for _ in 0..20 {
            let before = self.writes().len();
            tokio::time::sleep(LONGER_THAN_ANY_PAUSE).await;
            if self.writes().len() == before {
                return;
            }
        }
        panic!("no rest: {:#?}", self.writes());
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

    pub(crate) async fn delete(&self, path: &str, policy: &str) {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy});
        self.call(Method::DELETE, path, Some(&options))
            .await
            .unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        match self.call(Method::GET, path, None).await {
            Ok(object) => Some(object),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("{path}: {error}"),
        }
    }

    /// The names of a list.
    pub(crate) async fn names(&self, path: &str) -> Vec<String> {
        let list = self.get(path).await.expect("the list is served");
        let items = list["items"].as_array().unwrap();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
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
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn until_gone(&self, path: &str) {
        self.until(path, |object| object.is_none()).await;
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

/// A failure with nothing to say for itself.
pub(crate) fn answer_of(code: u16) -> Response<Body> {
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "fault", "code": code});
    answer(code, status.to_string()).expect("an answer")
}

pub(crate) fn answer(code: u16, body: impl Into<Body>) -> Option<Response<Body>> {
    let response = Response::builder().status(code).header("content-type", "application/json");
    Some(response.body(body.into()).unwrap())
}
