//! Clusters in this process, reached over wires that can be cut, silenced or turned to somebody else.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use futures::StreamExt as _;
use http::{Request, Response};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use koinon_apiserver::auth::User;
use koinon_apiserver::auth::pki::Authority;
use koinon_apiserver::context::Context;
use koinon_apiserver::serve::{Options, Server};
use koinon_control::{Clock, Key};
use koinon_fleet::{ClusterId, Fleet, Index, Link, Metrics, Record, Selection, Wanted};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use tower::ServiceExt as _;

/// Longer than anything the fleet does by itself takes.
const LONG: Duration = Duration::from_secs(600);

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Up,
    /// Nothing comes back, not even on connections that are open.
    Silent,
    /// Connections break, and no new one is made.
    Cut,
    /// Every answer has this status.
    Answers(u16),
    /// Every answer comes so much later than the request was carried out.
    Slow(Duration),
    /// Lists in streams are refused, as by an older server.
    Unstreamed,
}

#[derive(Clone)]
pub(crate) struct Wire {
    mode: watch::Sender<Mode>,
    target: Arc<Mutex<Router>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Wire {
    fn to(router: &Router) -> Wire {
        Wire {
            mode: watch::Sender::new(Mode::Up),
            target: Arc::new(Mutex::new(router.clone())),
            requests: Arc::default(),
        }
    }

    pub(crate) fn link(&self) -> Client {
        let wire = self.clone();
        Client::new(tower::service_fn(move |request| wire.clone().answer(request)), "default")
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// From now on somebody else answers.
    pub(crate) fn turn_to(&self, other: &Cluster) {
        *self.target.lock() = other.router.clone();
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().clone()
    }

    pub(crate) fn writes(&self) -> Vec<String> {
        let mut requests = self.requests();
        requests.retain(|request| !request.starts_with("GET"));
        requests
    }

    async fn answer(self, request: Request<kube::client::Body>) -> io::Result<Response<Body>> {
        let asked = format!("{} {}", request.method(), request.uri());
        self.requests.lock().push(asked.clone());
        let mode = *self.mode.borrow();
        match mode {
            Mode::Up | Mode::Slow(_) => {}
            Mode::Silent => std::future::pending().await,
            Mode::Cut => return Err(io::ErrorKind::ConnectionRefused.into()),
            Mode::Answers(code) => return Ok(refusal(code)),
            Mode::Unstreamed if asked.contains("sendInitialEvents=true") => return Ok(refusal(422)),
            Mode::Unstreamed => {}
        }
        let router = self.target.lock().clone();
        let answer = router.oneshot(request).await.map_err(io::Error::other)?;
        if let Mode::Slow(delay) = mode {
            tokio::time::sleep(delay).await;
        }
        let (head, body) = answer.into_parts();
        let mode = self.mode.subscribe();
        let frames = body.into_data_stream();
        let gated = futures::stream::unfold((frames, false), move |(mut frames, ended)| {
            let mode = mode.clone();
            async move {
                if ended {
                    return None;
                }
                tokio::select! {
                    biased;
                    () = became(mode.clone(), Mode::Cut) => {
                        Some((Err(io::Error::from(io::ErrorKind::ConnectionReset)), (frames, true)))
                    }
                    // What is lost on the way stays lost.
                    () = became(mode.clone(), Mode::Silent) => std::future::pending().await,
                    frame = frames.next() => {
                        frame.map(|frame| (frame.map_err(io::Error::other), (frames, false)))
                    }
                }
            }
        });
        Ok(Response::from_parts(head, Body::from_stream(gated)))
    }
}

async fn became(mut mode: watch::Receiver<Mode>, wanted: Mode) {
    let _ = mode.wait_for(|mode| *mode == wanted).await;
}

fn refusal(code: u16) -> Response<Body> {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "fault", "code": code,
    });
    let response = Response::builder().status(code).header("content-type", "application/json");
    response.body(Body::from(status.to_string())).unwrap()
}

pub(crate) struct Cluster {
    /// Straight to the server: what the tests do and see.
    pub(crate) client: Client,
    pub(crate) wire: Wire,
    pub(crate) clock: Clock,
    router: Router,
    /// The same for those who have to show who they are.
    pub(crate) door: Router,
}

impl Cluster {
    pub(crate) async fn new(seed: u64) -> Cluster {
        let start = Instant::now();
        let now = move || Timestamp::from_second(1_800_000_000).unwrap() + start.elapsed();
        let context = Context::seeded(seed, now);
        let authority = Authority::in_memory(&context).unwrap();
        let server = Server::open(Options::default(), &authority, context).await.unwrap();
        let router = server.trusted_router(User::new("system:admin", &["system:masters"]));
        let wire = Wire::to(&router);
        let client = Client::new(router.clone(), "default");
        Cluster { client, wire, clock: Clock::new(now), router, door: server.router() }
    }

    /// The server itself.
    pub(crate) fn router(&self) -> Router {
        self.router.clone()
    }

    /// The way that the fleet takes.
    pub(crate) fn link(&self) -> Client {
        self.wire.link()
    }

    /// A way of its own to the same cluster.
    pub(crate) fn wire(&self) -> Wire {
        Wire::to(&self.router)
    }

    pub(crate) fn wanted(&self) -> Wanted {
        Wanted { link: Link::Direct(self.link()), uid: None }
    }

    pub(crate) async fn uid(&self) -> String {
        let api: Api<Namespace> = Api::all(self.client.clone());
        api.get("kube-system").await.unwrap().uid().unwrap()
    }

    /// Makes a ConfigMap with so many entries.
    pub(crate) async fn put(&self, name: &str, size: usize) {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), "default");
        let data = (0..size).map(|index| (format!("k{index}"), String::new())).collect();
        let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
        let mut map = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
        match api.get_opt(name).await.unwrap() {
            Some(before) => {
                map.metadata = before.metadata;
                api.replace(name, &PostParams::default(), &map).await.unwrap();
            }
            None => drop(api.create(&PostParams::default(), &map).await.unwrap()),
        }
    }

    pub(crate) async fn remove(&self, name: &str) {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), "default");
        api.delete(name, &Default::default()).await.unwrap();
    }

    pub(crate) async fn has(&self, name: &str) -> bool {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), "default");
        api.get_opt(name).await.unwrap().is_some()
    }
}

/// Keeps how many entries a ConfigMap has.
#[derive(Debug, PartialEq)]
pub(crate) struct Size(pub(crate) usize);

impl Record for Size {
    type Object = ConfigMap;

    fn fold(object: &ConfigMap) -> Option<Size> {
        object.data.as_ref().map(|data| Size(data.len()))
    }
}

pub(crate) fn id(name: &str) -> ClusterId {
    ClusterId::new(name).unwrap()
}

pub(crate) fn key(name: &str) -> Key {
    Key::new("default", name)
}

/// Clusters by name, and a fleet of them.
pub(crate) struct World {
    pub(crate) clusters: BTreeMap<String, Cluster>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) index: Arc<Index<Size>>,
}

impl World {
    pub(crate) async fn new(names: &[&str]) -> World {
        World::with(names, koinon_fleet::Options::default()).await
    }

    pub(crate) async fn with(names: &[&str], options: koinon_fleet::Options) -> World {
        let mut clusters = BTreeMap::new();
        for (seed, name) in names.iter().enumerate() {
            clusters.insert((*name).to_owned(), Cluster::new(seed as u64 + 1).await);
        }
        let clock = clusters.values().next().map(|cluster| cluster.clock.clone()).unwrap_or_default();
        let world =
            World { clusters, fleet: Fleet::new(options, Metrics::default(), clock), index: Index::new() };
        world.join(names).await;
        world
    }

    /// Makes the members be these.
    pub(crate) async fn join(&self, names: &[&str]) {
        self.fleet.set(names.iter().map(|name| (id(name), self[*name].wanted())).collect()).await;
    }

    /// Follows ConfigMaps of the namespace `default` everywhere.
    pub(crate) fn follow(&self) {
        let (fleet, index) = (self.fleet.clone(), self.index.clone());
        tokio::spawn(async move {
            fleet.follow(index, Selection::default(), |member| member.namespaced("default")).await;
        });
    }

    pub(crate) async fn until_reachable(&self) {
        self.until("all are reachable", || self.fleet.members().iter().all(|member| member.is_reachable()))
            .await;
    }

    /// Waits until something holds; how long that took.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn() -> bool) -> Duration {
        let start = Instant::now();
        while !holds() {
            assert!(start.elapsed() < LONG, "not so: {what}; {:#?}", self.states());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        start.elapsed()
    }

    fn states(&self) -> Vec<String> {
        let members = self.fleet.members();
        members.iter().map(|member| format!("{}: {:?}", member.name(), member.state())).collect()
    }
}

impl std::ops::Index<&str> for World {
    type Output = Cluster;

    fn index(&self, name: &str) -> &Cluster {
        &self.clusters[name]
    }
}

/// A write through the fleet.
pub(crate) async fn write(
    world: &World,
    member: &str,
    name: &str,
) -> Result<(), koinon_fleet::member::Error> {
    let member = world.fleet.get(member).unwrap();
    let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
    let map = ConfigMap { metadata, ..ConfigMap::default() };
    let api = member.client().namespaced::<ConfigMap>("default");
    member.client().call(api.create(&PostParams::default(), &map)).await.map(drop)
}
