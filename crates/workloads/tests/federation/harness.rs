//! A federation in one process: its API server, members that are whole simulated clusters, and the role between them.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use koinon_cluster::kubelet::Settings;
use koinon_cluster::{Cluster, Housekeeping};
use koinon_fleet::{ClusterId, Fleet, Link, Wanted};
use koinon_simulation::{Network, Trace};
use koinon_workloads::{Metrics, Workloads};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::wire::{ROLE, Wire};

/// Longer than anything that happens by itself takes.
const LONG: Duration = Duration::from_secs(1800);
/// Longer than any pause after which something still happens by itself.
const QUIET: Duration = Duration::from_secs(200);

pub(crate) const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
pub(crate) const DEPLOY: &str = "/apis/apps/v1/namespaces/default/deployments/web";
pub(crate) const PREFERENCES: &str = "federation.kubernetes.io/replica-set-preferences";
pub(crate) const WEB: &str = "/apis/apps/v1/namespaces/default/replicasets/web";

/// One API server, reached directly: what users and tests do and see.
pub(crate) struct Site {
    site: koinon_simulation::Site,
    /// The way that the role takes.
    pub(crate) wire: Wire,
    running: JoinSet<()>,
}

impl Deref for Site {
    type Target = koinon_simulation::Site;

    fn deref(&self) -> &koinon_simulation::Site {
        &self.site
    }
}

impl Site {
    async fn new(network: &Network, name: &str, seed: u64) -> Site {
        let site = koinon_simulation::Site::open(seed, &network.time().clock()).await;
        network.serve(name, site.router());
        Site { site, wire: Wire::new(network, name), running: JoinSet::new() }
    }

    pub(crate) async fn send(&self, method: &str, path: &str, kind: &str, body: Value) -> Result<Value, u16> {
        let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(&body).unwrap() };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .body(body)
            .unwrap();
        match self.client().request::<Value>(request).await {
            Ok(answer) => Ok(answer),
            Err(kube::Error::Api(status)) => Err(status.code),
            Err(error) => panic!("{method} {path}: {error}"),
        }
    }

    pub(crate) async fn delete(&self, path: &str, propagation: &str) {
        let options = json!({"propagationPolicy": propagation});
        self.send("DELETE", path, "application/json", options).await.unwrap();
    }

    /// The events of one object, as `reason: message`.
    pub(crate) async fn events(&self, name: &str) -> Vec<String> {
        let list = self.get("/api/v1/namespaces/default/events").await.unwrap();
        let items = list["items"].as_array().unwrap().iter();
        items
            .filter(|event| event["involvedObject"]["name"] == name)
            .map(|event| {
                format!("{}: {}", event["reason"].as_str().unwrap(), event["message"].as_str().unwrap())
            })
            .collect()
    }
}

pub(crate) struct World {
    pub(crate) network: Network,
    pub(crate) federation: Site,
    pub(crate) members: BTreeMap<String, Site>,
    role: Option<Role>,
    pub(crate) options: koinon_workloads::Options,
    pub(crate) metrics: Metrics,
}

struct Role {
    fleet: Arc<Fleet>,
    task: tokio::task::JoinHandle<()>,
}

/// Nodes that take so many pods in all.
pub(crate) fn room(pods: u32) -> Settings {
    Settings {
        nodes: 1,
        pods_per_node: pods,
        start_after: Duration::from_millis(300),
        ready_after: Duration::from_millis(300),
        terminate_after: Duration::from_millis(300),
        events: false,
        ..Settings::default()
    }
}

impl World {
    /// A federation with members that have so much room, and the role at work.
    pub(crate) async fn new(members: &[(&str, u32)]) -> World {
        let mut world = World::bare(members).await;
        world.start().await;
        world
    }

    /// The same before the role ever ran.
    pub(crate) async fn bare(members: &[(&str, u32)]) -> World {
        World::simulated(members, 0, &Trace::default()).await
    }

    /// The same with these chances, and told in this trace.
    pub(crate) async fn simulated(members: &[(&str, u32)], seed: u64, trace: &Trace) -> World {
        let network = Network::new(seed, trace);
        let mut federation = Site::new(&network, "federation", 1).await;
        let house = Housekeeping::new(federation.client()).clock(federation.clock());
        federation.running.spawn(house.run(std::future::pending()));
        let options = koinon_workloads::Options::default();
        let mut world = World {
            network,
            federation,
            members: BTreeMap::new(),
            role: None,
            options,
            metrics: Metrics::default(),
        };
        for (name, pods) in members {
            world.add(name, room(*pods)).await;
        }
        world
    }

    /// One more cluster; it is a member from the next start on, or from [`World::join`].
    pub(crate) async fn add(&mut self, name: &str, settings: Settings) {
        let mut site = Site::new(&self.network, name, self.members.len() as u64 + 2).await;
        let cluster = Cluster::new(site.client(), site.clock(), "", settings);
        site.running.spawn(cluster.run(std::future::pending()));
        self.members.insert(name.to_owned(), site);
    }

    /// Starts the role from nothing: it knows what the servers tell, and nothing else.
    pub(crate) async fn start(&mut self) {
        let clock = self.federation.clock();
        let fleet =
            Fleet::new(koinon_fleet::Options::default(), koinon_fleet::Metrics::default(), clock.clone());
        self.role = Some(Role { fleet: fleet.clone(), task: tokio::spawn(async {}) });
        let names: Vec<String> = self.members.keys().cloned().collect();
        self.join(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let client = self.network.client(ROLE, "federation");
        let (options, metrics) = (self.options.clone(), self.metrics.clone());
        let workloads = Workloads::new(options, client, fleet.clone(), clock, metrics);
        let task = tokio::spawn(workloads.run(std::future::pending()));
        self.role = Some(Role { fleet, task });
    }

    /// Ends the role at once, in the middle of whatever it does.
    pub(crate) async fn kill(&mut self) {
        if let Some(role) = self.role.take() {
            role.task.abort();
            let _ = role.task.await;
        }
        self.network.fuse(ROLE).renew();
    }

    /// What the role wrote, wherever, but for events.
    pub(crate) fn writes(&self) -> Vec<String> {
        let writes = self.network.trace().writes().into_iter();
        writes.map(|write| format!("{} {} {}", write.to, write.method, write.path)).collect()
    }

    /// Makes the members be these.
    pub(crate) async fn join(&self, names: &[&str]) {
        let wanted = names.iter().map(|name| {
            let link = Link::Direct(self.network.client(ROLE, name));
            (ClusterId::new(name).unwrap(), Wanted { link, uid: None })
        });
        self.role.as_ref().unwrap().fleet.set(wanted.collect()).await;
    }

    /// Makes the federated ReplicaSet `web`.
    pub(crate) async fn create_set(&self, replicas: i64, preferences: Option<&str>) {
        self.federation.create(SETS, set("web", replicas, preferences)).await;
    }

    /// Makes the federated Deployment `web`.
    pub(crate) async fn create_deployment(&self, deploy: Deploy<'_>) {
        let labels = json!({"app": "web"});
        let body = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "annotations": deploy.annotations},
            "spec": {
                "replicas": deploy.replicas,
                "progressDeadlineSeconds": deploy.deadline,
                "revisionHistoryLimit": deploy.history,
                "strategy": deploy.strategy,
                "paused": deploy.paused,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels, "annotations": deploy.pods},
                    "spec": {"containers": [{"name": "web", "image": deploy.image}]},
                },
            },
        });
        self.federation.create("/apis/apps/v1/namespaces/default/deployments", body).await;
    }

    /// What each member's `web` asks for, and of that is available.
    pub(crate) async fn layout(&self, path: &str) -> String {
        let mut layout = Vec::new();
        for (name, site) in &self.members {
            if let Some(found) = site.get(path).await {
                let asked = found["spec"]["replicas"].as_i64().unwrap();
                let available = found["status"]["availableReplicas"].as_i64().unwrap_or(0);
                layout.push(if asked == available {
                    format!("{name}={asked}")
                } else {
                    format!("{name}={available}/{asked}")
                });
            }
        }
        layout.join(" ")
    }

    /// Waits until the members are so.
    pub(crate) async fn until_layout(&self, path: &str, wanted: &str) {
        let start = Instant::now();
        loop {
            let layout = self.layout(path).await;
            if layout == wanted {
                return;
            }
            if start.elapsed() > LONG {
                let federated = self.federation.get(path).await;
                panic!("it is {layout} and not {wanted}: {federated:#?}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until members ask for so many in all.
    pub(crate) async fn until_asked(&self, path: &str, wanted: i64) {
        let start = Instant::now();
        while self.asked(path).await != wanted {
            assert!(start.elapsed() < LONG, "not {wanted}, but {}", self.layout(path).await);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until an object of the federation is so.
    pub(crate) async fn until(&self, path: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let found = self.federation.get(path).await.unwrap_or(Value::Null);
            if holds(&found) {
                return found;
            }
            assert!(start.elapsed() < LONG, "not so: {what}; {found:#?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until an event of `web` starts so.
    pub(crate) async fn until_event(&self, beginning: &str) -> String {
        let start = Instant::now();
        loop {
            let events = self.federation.events("web").await;
            if let Some(event) = events.iter().find(|event| event.starts_with(beginning)) {
                return event.clone();
            }
            assert!(start.elapsed() < LONG, "no event {beginning:?} among {events:#?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Lets everything come to rest, and makes sure that it did: for longer than any pause nothing is written.
    pub(crate) async fn rest(&self) {
        self.rest_for(QUIET).await;
    }

    /// The same with less patience, for what is done over and over.
    pub(crate) async fn rest_for(&self, quiet: Duration) {
        tokio::time::sleep(quiet).await;
        let before = self.writes();
        tokio::time::sleep(quiet).await;
        let after = self.writes();
        assert_eq!(before.len(), after.len(), "{:#?}", &after[before.len()..]);
    }

    /// How many pods of `web` are available in all members.
    pub(crate) async fn available(&self, path: &str) -> i64 {
        self.sum(path, |found| &found["status"]["availableReplicas"]).await
    }

    /// How many pods of `web` members ask for.
    pub(crate) async fn asked(&self, path: &str) -> i64 {
        self.sum(path, |found| &found["spec"]["replicas"]).await
    }

    /// How many pods of `web` there are in all members.
    pub(crate) async fn pods(&self, path: &str) -> i64 {
        self.sum(path, |found| &found["status"]["replicas"]).await
    }

    async fn sum(&self, path: &str, count: impl Fn(&Value) -> &Value) -> i64 {
        let mut sum = 0;
        for site in self.members.values() {
            let found = site.get(path).await.unwrap_or(Value::Null);
            sum += count(&found).as_i64().unwrap_or(0);
        }
        sum
    }
}

/// A federated Deployment.
pub(crate) struct Deploy<'a> {
    pub(crate) replicas: i64,
    pub(crate) image: &'a str,
    pub(crate) deadline: i64,
    pub(crate) history: i64,
    pub(crate) strategy: Value,
    pub(crate) annotations: Value,
    pub(crate) paused: bool,
    /// The annotations of its pods.
    pub(crate) pods: Value,
}

impl Default for Deploy<'_> {
    fn default() -> Self {
        let strategy = json!({"type": "RollingUpdate"});
        Deploy {
            replicas: 1,
            image: "web:1",
            deadline: 600,
            history: 10,
            strategy,
            annotations: json!({}),
            paused: false,
            pods: Value::Null,
        }
    }
}

pub(crate) fn set(name: &str, replicas: i64, preferences: Option<&str>) -> Value {
    let annotations = preferences.map(|text| json!({PREFERENCES: text})).unwrap_or_else(|| json!({}));
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": name, "annotations": annotations, "labels": {"team": "blue"}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    })
}

/// How many pods have the template that a Deployment wants now, by a status that speaks of that.
pub(crate) fn updated(deployment: &Value) -> i64 {
    let observed = deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"];
    if observed { deployment["status"]["updatedReplicas"].as_i64().unwrap_or(0) } else { 0 }
}

pub(crate) fn placement(object: &Value) -> Value {
    let text = object["metadata"]["annotations"]["koinon.dev/placement"].as_str().unwrap_or("{}");
    serde_json::from_str(text).unwrap()
}
