//! Clusters with a federator beside each, and ways between them.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use koinon_config::{Config, Connect, Lead, Options, crds};
use koinon_simulation::{Fault, Fuse, Network, Requests, Site, Trace};
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

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
#[derive(Clone)]
pub(crate) struct Cluster(Site);

impl Deref for Cluster {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.0
    }
}

pub(crate) struct World {
    pub(crate) network: Network,
    pub(crate) clusters: BTreeMap<String, Cluster>,
    federators: BTreeMap<String, Federator>,
}

struct Federator {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    lead: watch::Receiver<Lead>,
}

impl World {
    /// Clusters with the definitions and the namespace, and nothing else.
    pub(crate) async fn bare(names: &[&str]) -> World {
        World::simulated(names, 0, &Trace::default()).await
    }

    async fn simulated(names: &[&str], seed: u64, trace: &Trace) -> World {
        let network = Network::new(seed, trace);
        let mut clusters = BTreeMap::new();
        for (seed, name) in (1u64..).zip(names) {
            let cluster = Cluster(Site::open(seed, &network.time().clock()).await);
            network.serve(name, cluster.router());
            for crd in crds() {
                cluster.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).await;
            }
            cluster.create("/api/v1/namespaces", json!({"metadata": {"name": "avi-system"}})).await;
            for path in [CLUSTERS, CONFIGS, POLICIES] {
                cluster.until_there(path).await;
            }
            clusters.insert((*name).to_owned(), cluster);
        }
        World { network, clusters, federators: BTreeMap::new() }
    }

    /// A federation of clusters that know each other; the first leads, and every federator runs.
    async fn federation(mut world: World, names: &[&str]) -> World {
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
        World::settled_with(names, 0, &Trace::default()).await
    }

    pub(crate) async fn settled_with(names: &[&str], seed: u64, trace: &Trace) -> World {
        let world = World::federation(World::simulated(names, seed, trace).await, names).await;
        world.at(names[0]).create(CONFIGS, config("gc-1", 1800)).await;
        world.at(names[0]).create(POLICIES, policy("global-gdp", 10)).await;
        world.equal(names[0]).await;
        world.says(names[0], &ALL_WELL).await;
        world
    }

    pub(crate) fn at(&self, name: &str) -> &Cluster {
        &self.clusters[name]
    }

    /// Starts the federator beside a cluster.
    pub(crate) fn start(&mut self, name: &str) {
        let fuse = self.network.fuse(name);
        fuse.renew();
        let members: BTreeMap<String, Client> =
            self.clusters.keys().map(|to| (to.clone(), self.network.client(name, to))).collect();
        let own = members[name].clone();
        // A kubeconfig leads to the cluster that its server names, which a rotation may change.
        let connect: Connect = Arc::new(move |kubeconfig, _| {
            let cluster = kubeconfig.clusters.first().and_then(|named| named.cluster.clone());
            let server = cluster.and_then(|cluster| cluster.server).unwrap_or_default();
            let client = members.get(server.trim_start_matches("https://")).cloned();
            Box::pin(async move { client.ok_or_else(|| format!("{server:?} leads nowhere")) })
        });
        let config = Config::new(Options::default(), own, connect, self.network.time().clock());
        let lead = config.lead();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            tokio::select! {
                biased;
                () = fuse.blown() => {}
                () = config.run(async { drop(stopped.await) }) => {}
            }
        });
        self.federators.insert(name.to_owned(), Federator { stop, task, lead });
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

    pub(crate) fn fuse(&self, name: &str) -> Fuse {
        self.network.fuse(name)
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
        self.network.trace().writes().iter().map(|write| format!("{write}\n")).collect()
    }

    /// Everything that was written by federators to clusters other than their own.
    pub(crate) fn written_to_others(&self, from: &str) -> Vec<String> {
        let writes = self.network.trace().writes();
        let others = writes.iter().filter(|write| write.from == from && write.to != from);
        others.map(ToString::to_string).collect()
    }

    /// Lets time pass and sees that nobody writes anything any more.
    pub(crate) async fn rest(&self) {
        self.network.until_quiet(QUIET).await;
    }
}

/// One in so many requests fails, and of those that write, one in so many takes place and its answer is lost.
pub(crate) fn faulty(one_in: u32) -> [Fault; 5] {
    let refuse = |code| Fault::Refuse { what: Requests::Any, code, one_in: 4 * one_in };
    [refuse(503), refuse(500), refuse(429), refuse(409), Fault::Lose { one_in: 2 * one_in }]
}

impl Cluster {
    pub(crate) async fn try_create(&self, path: &str, object: Value) -> Result<Value, String> {
        let made = self.call(Method::POST, path, Some(&object)).await;
        made.map_err(|error| match error {
            kube::Error::Api(status) => status.message,
            error => error.to_string(),
        })
    }

    /// Deletes what may be gone already.
    pub(crate) async fn delete(&self, path: &str) {
        match self.call(Method::DELETE, path, None).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => panic!("{path}: {error}"),
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
