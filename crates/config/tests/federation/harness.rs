//! Clusters with a federator beside each, and ways between them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use http::{Method, Request};
use jiff::Timestamp;
use koinon_apiserver::auth::User;
use koinon_apiserver::auth::pki::Authority;
use koinon_apiserver::context::Context;
use koinon_apiserver::serve::{Options as ServerOptions, Server};
use koinon_config::{Config, Connect, Lead, Options, crds};
use koinon_control::Clock;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::wire::{Fuse, Way, Wire};

/// Long enough for everything that a federator does by itself, pauses and deadlines included.
const LONG: Duration = Duration::from_secs(300);
/// Longer than any pause between two attempts.
const QUIET: Duration = Duration::from_secs(70);

pub(crate) const CLUSTERS: &str = "/apis/amko.vmware.com/v1alpha1/namespaces/avi-system/amkoclusters";
pub(crate) const CLUSTER: &str =
    "/apis/amko.vmware.com/v1alpha1/namespaces/avi-system/amkoclusters/amkocluster-federation";
pub(crate) const CONFIGS: &str = "/apis/amko.vmware.com/v1alpha1/namespaces/avi-system/gslbconfigs";
pub(crate) const POLICIES: &str =
    "/apis/amko.vmware.com/v1alpha2/namespaces/avi-system/globaldeploymentpolicies";
pub(crate) const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/avi-system/leases/amko-leader";
pub(crate) const SECRET: &str = "/api/v1/namespaces/avi-system/secrets/gslb-config-secret";

pub(crate) const VALID: &str = "current AMKOCluster Validation = valid AMKOCluster object";
pub(crate) const FOLLOWER: &str =
    "current AMKOCluster Validation = won't federate objects (AMKO not a leader)";
pub(crate) const CLIENTS: &str = "member cluster initialisation = all cluster clients fetched";
pub(crate) const MEMBERS: &str = "member cluster validation = validated all member clusters";
pub(crate) const CONFIG: &str = "GSLBConfig Federation = federated to all valid clusters successfully";
pub(crate) const POLICY: &str = "GDP Federation = federated to all valid clusters successfully";
pub(crate) const ALL_WELL: [&str; 5] = [VALID, CLIENTS, MEMBERS, CONFIG, POLICY];

/// One cluster, reached directly: what tests do and see.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    router: Router,
}

pub(crate) struct World {
    pub(crate) clusters: BTreeMap<String, Cluster>,
    wires: BTreeMap<(String, String), Arc<Wire>>,
    federators: BTreeMap<String, Federator>,
    now: Clock,
}

struct Federator {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    lead: watch::Receiver<Lead>,
    fuse: Arc<Fuse>,
}

impl World {
    /// Clusters with the definitions and the namespace, and nothing else.
    pub(crate) async fn bare(names: &[&str]) -> World {
        let start = Instant::now();
        let now = move || Timestamp::from_second(1_800_000_000).unwrap() + start.elapsed();
        let mut clusters = BTreeMap::new();
        for (seed, name) in (1u64..).zip(names) {
            let context = Context::seeded(seed, now);
            let authority = Authority::in_memory(&context).unwrap();
            let server = Server::open(ServerOptions::default(), &authority, context).await.unwrap();
            let router = server.trusted_router(User::new("system:admin", &["system:masters"]));
            let cluster = Cluster { client: Client::new(router.clone(), "default"), router };
            for crd in crds() {
                cluster.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).await;
            }
            cluster.create("/api/v1/namespaces", json!({"metadata": {"name": "avi-system"}})).await;
            for path in [CLUSTERS, CONFIGS, POLICIES] {
                cluster.until(path, |list| list.is_some()).await;
            }
            clusters.insert((*name).to_owned(), cluster);
        }
        let mut wires = BTreeMap::new();
        for from in names {
            for to in names {
                wires.insert(((*from).to_owned(), (*to).to_owned()), Wire::new());
            }
        }
        World { clusters, wires, federators: BTreeMap::new(), now: Clock::new(now) }
    }

    /// A federation of clusters that know each other; the first leads, and every federator runs.
    pub(crate) async fn federation(names: &[&str]) -> World {
        let mut world = World::bare(names).await;
        for (number, name) in names.iter().enumerate() {
            let cluster = &world.clusters[*name];
            cluster.create("/api/v1/namespaces/avi-system/secrets", secret(names)).await;
            cluster.create(CLUSTERS, amko_cluster(name, number == 0, names)).await;
        }
        for name in names {
            world.start(name);
        }
        world
    }

    /// The same, with a GSLBConfig and a policy that have arrived everywhere.
    pub(crate) async fn settled(names: &[&str]) -> World {
        let world = World::federation(names).await;
        world.at(names[0]).create(CONFIGS, config("gc-1", 1800)).await;
        world.at(names[0]).create(POLICIES, policy("global-gdp", 10)).await;
        world.equal(names[0]).await;
        world.says(names[0], &ALL_WELL).await;
        world
    }

    pub(crate) fn at(&self, name: &str) -> &Cluster {
        &self.clusters[name]
    }

    pub(crate) fn wire(&self, from: &str, to: &str) -> &Arc<Wire> {
        &self.wires[&(from.to_owned(), to.to_owned())]
    }

    /// Changes the way between two clusters, in both directions.
    pub(crate) fn set_way(&self, one: &str, other: &str, way: Way) {
        self.wire(one, other).way.send_replace(way);
        self.wire(other, one).way.send_replace(way);
    }

    /// Changes every way to and from a cluster; its own federator still reaches it.
    pub(crate) fn set_ways(&self, name: &str, way: Way) {
        for other in self.clusters.keys().filter(|other| *other != name) {
            self.set_way(name, other, way);
        }
    }

    /// Starts the federator beside a cluster.
    pub(crate) fn start(&mut self, name: &str) {
        let fuse = Arc::new(Fuse::default());
        let members: BTreeMap<String, Client> = self
            .clusters
            .iter()
            .map(|(to, cluster)| (to.clone(), self.wire(name, to).client(&cluster.router, &fuse)))
            .collect();
        let own = members[name].clone();
        // A kubeconfig leads to the cluster that its server names, which a rotation may change.
        let connect: Connect = Arc::new(move |kubeconfig, _| {
            let cluster = kubeconfig.clusters.first().and_then(|named| named.cluster.clone());
            let server = cluster.and_then(|cluster| cluster.server).unwrap_or_default();
            let client = members.get(server.trim_start_matches("https://")).cloned();
            Box::pin(async move { client.ok_or_else(|| format!("{server:?} leads nowhere")) })
        });
        let config = Config::new(Options::default(), own, connect, self.now.clone());
        let lead = config.lead();
        let (stop, stopped) = oneshot::channel();
        let blown = fuse.clone();
        let task = tokio::spawn(async move {
            tokio::select! {
                () = config.run(async { drop(stopped.await) }) => {}
                () = blown.blown.notified() => {}
            }
        });
        self.federators.insert(name.to_owned(), Federator { stop, task, lead, fuse });
    }

    /// Ends a federator in good order.
    pub(crate) async fn stop(&mut self, name: &str) {
        let federator = self.federators.remove(name).expect("it runs");
        // It may have blown its fuse.
        let _ = federator.stop.send(());
        federator.task.await.expect("it ends well");
    }

    /// Ends a federator in the middle of whatever it does.
    pub(crate) async fn crash(&mut self, name: &str) {
        if let Some(federator) = self.federators.remove(name) {
            federator.task.abort();
            let _ = federator.task.await;
        }
    }

    pub(crate) fn fuse(&self, name: &str) -> &Fuse {
        &self.federators[name].fuse
    }

    pub(crate) fn runs(&self, name: &str) -> bool {
        self.federators.contains_key(name)
    }

    pub(crate) fn leads(&self, name: &str) -> bool {
        matches!(*self.federators[name].lead.borrow(), Lead::As(_))
    }

    /// Waits until the status of a cluster says this.
    pub(crate) async fn says(&self, name: &str, lines: &[&str]) {
        let deadline = Instant::now() + LONG;
        loop {
            let said = self.at(name).conditions().await;
            if said == lines {
                return;
            }
            assert!(Instant::now() < deadline, "{name} says {said:#?}\nand not {lines:#?}\n{}", self.told());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until every cluster has what the leader has.
    pub(crate) async fn equal(&self, leader: &str) {
        for name in self.clusters.keys().filter(|name| *name != leader) {
            self.equals(leader, name).await;
        }
    }

    pub(crate) async fn equals(&self, leader: &str, follower: &str) {
        let deadline = Instant::now() + LONG;
        loop {
            let (wanted, there) = (self.at(leader).carried().await, self.at(follower).carried().await);
            if wanted == there {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{follower} has {there:#?}\nand not {wanted:#?}\n{leader} says {:#?}\n{}",
                self.at(leader).conditions().await,
                self.told()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// All that federators wrote.
    pub(crate) fn told(&self) -> String {
        let mut told = String::new();
        for ((from, to), wire) in &self.wires {
            for write in wire.writes() {
                told.push_str(&format!("{from} to {to}: {write}\n"));
            }
        }
        told
    }

    /// Everything that was written by federators to clusters other than their own.
    pub(crate) fn written_to_others(&self, from: &str) -> Vec<String> {
        let others = self.wires.iter().filter(|((one, to), _)| one == from && to != from);
        others.flat_map(|(_, wire)| wire.writes()).collect()
    }

    /// Lets time pass and sees that nobody writes anything any more.
    pub(crate) async fn rest(&self) {
        for _ in 0..10 {
            let before = self.told();
            tokio::time::sleep(QUIET).await;
            if self.told() == before {
                return;
            }
        }
        panic!("no rest: {}", self.told());
    }
}

impl Cluster {
    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, kube::Error> {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let body = body.map(|body| serde_json::to_vec(body).unwrap()).unwrap_or_default();
        let request =
            Request::builder().method(method).uri(path).header("content-type", kind).body(body).unwrap();
        self.client.request(request).await
    }

    pub(crate) async fn try_create(&self, path: &str, object: Value) -> Result<Value, String> {
        let made = self.call(Method::POST, path, Some(&object)).await;
        made.map_err(|error| match error {
            kube::Error::Api(status) => status.message,
            error => error.to_string(),
        })
    }

    pub(crate) async fn create(&self, path: &str, object: Value) -> Value {
        self.try_create(path, object).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) async fn patch(&self, path: &str, patch: Value) -> Value {
        self.call(Method::PATCH, path, Some(&patch)).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) async fn delete(&self, path: &str) {
        match self.call(Method::DELETE, path, None).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => panic!("{path}: {error}"),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        get_with(&self.client, path).await
    }

    pub(crate) async fn items(&self, path: &str) -> Vec<Value> {
        let list = self.get(path).await.expect("the list is served");
        list["items"].as_array().unwrap().clone()
    }

    /// Waits until an object is as it should be; `None` stands for its absence.
    pub(crate) async fn until(&self, path: &str, wanted: impl Fn(Option<&Value>) -> bool) -> Option<Value> {
        let deadline = Instant::now() + LONG;
        loop {
            let object = self.get(path).await;
            if wanted(object.as_ref()) {
                return object;
            }
            assert!(Instant::now() < deadline, "{path} stays {object:#?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What the AMKOCluster's status says, as `type = status (reason)`.
    pub(crate) async fn conditions(&self) -> Vec<String> {
        self.conditions_of(CLUSTER).await
    }

    pub(crate) async fn conditions_of(&self, path: &str) -> Vec<String> {
        let object = self.get(path).await.unwrap_or_default();
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let line = |one: &Value| match one["reason"].as_str() {
            None | Some("") => format!("{} = {}", text(&one["type"]), text(&one["status"])),
            Some(reason) => format!("{} = {} ({reason})", text(&one["type"]), text(&one["status"])),
        };
        conditions.iter().map(line).collect()
    }

    pub(crate) async fn set_leader(&self, is_leader: bool) {
        self.patch(CLUSTER, json!({"spec": {"isLeader": is_leader}})).await;
    }

    pub(crate) async fn is_leader(&self) -> bool {
        self.get(CLUSTER).await.is_some_and(|object| object["spec"]["isLeader"] == true)
    }

    /// What followers share with their leader.
    pub(crate) async fn carried(&self) -> Vec<Value> {
        let mut carried = Vec::new();
        for path in [CONFIGS, POLICIES] {
            for item in self.items(path).await {
                let metadata = &item["metadata"];
                let uuid = &metadata["annotations"]["amko.vmware.com/amko-uuid"];
                carried.push(json!([metadata["name"], item["spec"], metadata["labels"], uuid]));
            }
        }
        carried
    }
}

pub(crate) async fn get_with(client: &Client, path: &str) -> Option<Value> {
    match client.request(Request::get(path).body(Vec::new()).unwrap()).await {
        Ok(object) => Some(object),
        Err(kube::Error::Api(status)) if status.code == 404 => None,
        Err(error) => panic!("{path}: {error}"),
    }
}

/// The rivals that a status names.
pub(crate) fn conflicts_of(cluster: &Value) -> Vec<String> {
    let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let reasons = conditions.iter().filter_map(|one| one["reason"].as_str());
    let named = |part: &str| {
        let name =
            part.strip_prefix("AMKO in cluster ")?.strip_suffix(" is also a leader, conflicting state")?;
        Some(name.to_owned())
    };
    reasons.flat_map(|reason| reason.split(',').filter_map(named).collect::<Vec<_>>()).collect()
}

pub(crate) fn amko_cluster(context: &str, is_leader: bool, clusters: &[&str]) -> Value {
    json!({
        "apiVersion": "amko.vmware.com/v1alpha1", "kind": "AMKOCluster",
        "metadata": {"name": "amkocluster-federation"},
        "spec": {"isLeader": is_leader, "clusterContext": context, "version": "1.4.2", "clusters": clusters},
    })
}

/// A kubeconfig with a context for each; all of them lead to the cluster of their name.
pub(crate) fn kubeconfig(names: &[&str]) -> Value {
    let named = |field: &str, of: &dyn Fn(&str) -> Value| -> Vec<Value> {
        names.iter().map(|name| json!({"name": name, field: of(name)})).collect()
    };
    json!({
        "clusters": named("cluster", &|name| json!({"server": format!("https://{name}")})),
        "users": named("user", &|_| json!({"token": "hidden"})),
        "contexts": named("context", &|name| json!({"cluster": name, "user": name})),
    })
}

pub(crate) fn secret(names: &[&str]) -> Value {
    json!({
        "metadata": {"name": "gslb-config-secret"},
        "stringData": {"gslb-members": kubeconfig(names).to_string()},
    })
}

pub(crate) fn config(name: &str, interval: u64) -> Value {
    json!({
        "apiVersion": "amko.vmware.com/v1alpha1", "kind": "GSLBConfig",
        "metadata": {"name": name},
        "spec": {
            "gslbLeader": {"credentials": "gslb-avi-secret", "controllerVersion": "20.1.4", "controllerIP": "10.0.0.1"},
            "memberClusters": [{"clusterContext": "a"}, {"clusterContext": "b"}],
            "refreshInterval": interval, "logLevel": "INFO",
        },
    })
}

pub(crate) fn policy(name: &str, ttl: u64) -> Value {
    json!({
        "apiVersion": "amko.vmware.com/v1alpha2", "kind": "GlobalDeploymentPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchRules": {"appSelector": {"label": {"app": "gslb"}}},
            "matchClusters": [{"cluster": "a"}, {"cluster": "b"}],
            "ttl": ttl,
        },
    })
}
