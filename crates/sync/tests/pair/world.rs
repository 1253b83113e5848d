//! A cloud and a robot, each with its own API server, and a syncer between them.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use jiff::{SignedDuration, Timestamp};
use koinon_apiserver::auth::User;
use koinon_apiserver::auth::pki::Authority;
use koinon_apiserver::context::Context;
use koinon_apiserver::serve::{Options as ServerOptions, Server};
use koinon_control::Clock;
use koinon_sync::{Access, Handle, Options, Sync};
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::weather::{Sky, Weather};

/// Long enough for everything that a syncer does by itself.
const LONG: Duration = Duration::from_secs(900);

pub(crate) const RESYNC: Duration = Duration::from_secs(300);

/// One API server.
#[derive(Clone)]
pub(crate) struct Cluster {
    /// Straight to the server: what the tests do and see.
    client: Client,
    router: axum::Router,
    pub(crate) weather: Arc<Weather>,
}

impl Cluster {
    pub(crate) async fn new(seed: u64) -> Cluster {
        let start = Instant::now();
        let now = move || Timestamp::from_second(1_800_000_000).unwrap() + start.elapsed();
        let context = Context::seeded(seed, now);
        let authority = Authority::in_memory(&context).unwrap();
        let server = Server::open(ServerOptions::default(), &authority, context).await.unwrap();
        let router = server.trusted_router(User::new("system:admin", &["system:masters"]));
        Cluster { client: Client::new(router.clone(), "default"), router, weather: Weather::clear() }
    }

    pub(crate) fn through(&self) -> Client {
        self.weather.client(self.router.clone())
    }

    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, kube::Error> {
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
        let list = self.get(path).await.expect("the list is served");
        list["items"].as_array().cloned().unwrap_or_default()
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
                self.weather.writes()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn until_there(&self, path: &str) -> Value {
        self.until(path, |object| object.is_some()).await.expect("it is there")
    }

    pub(crate) async fn until_gone(&self, path: &str) {
        self.until(path, |object| object.is_none()).await;
    }

    /// Waits until an event with this reason was told, and gives back what it says.
    pub(crate) async fn until_told(&self, reason: &str) -> String {
        let deadline = Instant::now() + LONG;
        loop {
            let events = self.list("/api/v1/events").await;
            if let Some(event) = events.iter().find(|event| event["reason"] == reason) {
                assert_eq!(event["type"], "Warning");
                return event["message"].as_str().unwrap().to_owned();
            }
            assert!(Instant::now() < deadline, "{reason} was not told, only {events:#?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Makes a CRD.
    pub(crate) async fn define(&self, toys: &Toys) {
        self.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", toys.crd()).await;
    }
}

/// A CRD to test with.
#[derive(Clone, Debug)]
pub(crate) struct Toys {
    pub(crate) annotations: Value,
    pub(crate) status: bool,
    pub(crate) namespaced: bool,
    pub(crate) versions: Vec<&'static str>,
}

pub(crate) const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/toys.play.io";
pub(crate) const SOURCE: &str = "cr-syncer.cloudrobotics.com/spec-source";
pub(crate) const FILTER: &str = "cr-syncer.cloudrobotics.com/filter-by-robot-name";
pub(crate) const SUBTREE: &str = "cr-syncer.cloudrobotics.com/status-subtree";
pub(crate) const ROBOT: &str = "cloudrobotics.com/robot-name";

impl Toys {
    pub(crate) fn new(annotations: Value) -> Toys {
        Toys { annotations, status: true, namespaced: true, versions: vec!["v1"] }
    }

    /// From the cloud, to every robot.
    pub(crate) fn plain() -> Toys {
        Toys::new(json!({SOURCE: "cloud"}))
    }

    /// From the cloud, to the robot that is named.
    pub(crate) fn filtered() -> Toys {
        Toys::new(json!({SOURCE: "cloud", FILTER: "true"}))
    }

    /// From the robot.
    pub(crate) fn robots() -> Toys {
        Toys::new(json!({SOURCE: "robot"}))
    }

    fn crd(&self) -> Value {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let versions: Vec<Value> = self
            .versions
            .iter()
            .enumerate()
            .map(|(number, name)| {
                let mut version = json!({
                    "name": name, "served": true, "storage": number == 0,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
                });
                if self.status {
                    version["subresources"] = json!({"status": {}});
                }
                version
            })
            .collect();
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "toys.play.io", "annotations": self.annotations},
            "spec": {
                "group": "play.io", "scope": if self.namespaced { "Namespaced" } else { "Cluster" },
                "names": {"plural": "toys", "singular": "toy", "kind": "Toy", "listKind": "ToyList"},
                "versions": versions,
            },
        })
    }
}

/// The path of a toy in `default`.
pub(crate) fn toy(name: &str) -> String {
    format!("{TOYS}/{name}")
}

pub(crate) const TOYS: &str = "/apis/play.io/v1/namespaces/default/toys";
pub(crate) const ALL_TOYS: &str = "/apis/play.io/v1/toys";

/// A toy from `{labels, annotations, finalizers}` and a spec.
pub(crate) fn made(name: &str, metadata: Value, spec: Value) -> Value {
    let mut metadata = metadata;
    metadata["name"] = name.into();
    json!({"apiVersion": "play.io/v1", "kind": "Toy", "metadata": metadata, "spec": spec})
}

/// A cloud, a robot and a syncer.
pub(crate) struct World {
    pub(crate) cloud: Cluster,
    pub(crate) robot: Cluster,
    pub(crate) options: Options,
    pub(crate) handle: Option<Handle>,
    /// By how much the syncer's clock is wrong.
    pub(crate) skew: SignedDuration,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl World {
    /// Both sides have the CRD; nothing runs yet.
    pub(crate) async fn with(toys: &Toys) -> World {
        let world = World::empty().await;
        world.cloud.define(toys).await;
        world.robot.define(toys).await;
        world
    }

    pub(crate) async fn empty() -> World {
        World {
            cloud: Cluster::new(1).await,
            robot: Cluster::new(2).await,
            options: Options { robot: "r1".into(), resync: RESYNC, ..Options::default() },
            handle: None,
            skew: SignedDuration::ZERO,
            running: None,
        }
    }

    pub(crate) async fn running(toys: &Toys) -> World {
        let mut world = World::with(toys).await;
        world.start();
        world
    }

    pub(crate) fn start(&mut self) {
        let (stop, stopped) = oneshot::channel();
        let (start, skew) = (Instant::now(), self.skew);
        let clock =
            Clock::new(move || Timestamp::from_second(1_800_000_000).unwrap() + start.elapsed() + skew);
        let (cloud, robot) = (Access::new(self.cloud.through()), Access::new(self.robot.through()));
        let sync = Sync::new(self.options.clone(), cloud, robot, clock).unwrap();
        self.handle = Some(sync.handle());
        let task = tokio::spawn(sync.run(async { drop(stopped.await) }));
        self.running = Some((stop, task));
    }

    /// Ends the syncer as it would end itself.
    pub(crate) async fn stop(&mut self) {
        let (stop, task) = self.running.take().expect("a syncer runs");
        stop.send(()).expect("a syncer waits for its end");
        task.await.expect("a syncer ends well");
    }

    /// Ends the syncer in the middle of whatever it does.
    pub(crate) async fn kill(&mut self) {
        let (_stop, task) = self.running.take().expect("a syncer runs");
        task.abort();
        assert!(task.await.is_err_and(|error| error.is_cancelled()), "it was running");
    }

    pub(crate) fn clear(&self) {
        self.cloud.weather.turn(Sky::Clear);
        self.robot.weather.turn(Sky::Clear);
    }

    fn writes(&self) -> usize {
        self.cloud.weather.writes().len() + self.robot.weather.writes().len()
    }

    /// Lets time pass until nothing has been written for three resync periods.
    pub(crate) async fn rest(&self) {
        for _ in 0..40 {
            let before = self.writes();
            tokio::time::sleep(3 * RESYNC + Duration::from_secs(5)).await;
            if self.writes() == before {
                return;
            }
        }
        panic!("no rest: {:#?} {:#?}", self.cloud.weather.writes(), self.robot.weather.writes());
    }
}
