//! Clusters with Antrea's definitions, supervisors beside them, and users.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use koinon_cluster::Housekeeping;
use koinon_control::Clock;
use koinon_fleet::election::{Elections, Timing};
use koinon_fleet::membership::formation::{Formation, Part};
use koinon_fleet::{ClusterId, Fleet, Link, Metrics, Wanted};
use koinon_network::Feature;
use koinon_network::lead::lead;
use koinon_network::policies::Policies;
use koinon_network::services::{self, Services};
use koinon_simulation::{Fault, Network, Site, Trace};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

/// Longer than anything that happens by itself takes.
const LONG: Duration = Duration::from_secs(900);
/// Longer than any pause of a leader.
pub(crate) const QUIET: Duration = Duration::from_secs(150);

pub(crate) const ACNPS: &str = "/apis/crd.antrea.io/v1beta1/clusternetworkpolicies";
pub(crate) const ANPS: &str = "/apis/crd.antrea.io/v1beta1/namespaces/prod/networkpolicies";
pub(crate) const TIERS: &str = "/apis/crd.antrea.io/v1beta1/tiers";
pub(crate) const MARK: &str = "federated.anp.antreaplus.vmware.com";
pub(crate) const ENTITIES: &str =
    "/apis/crd.antrea.io/v1alpha2/namespaces/antrea-plus-system/externalentities";
const LEDGERS: &str = "/api/v1/namespaces/antrea-plus-system/configmaps";
pub(crate) const FEDERATIONS: &str =
    "/apis/federation.antreaplus.tanzu.vmware.com/v1alpha1/namespaces/antrea-plus-system/federations";

pub(crate) struct Cluster {
    /// Straight to the server: what users and tests do and see.
    site: Site,
    _running: JoinSet<()>,
}

/// What clusters have besides Kubernetes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Antrea {
    Installed,
    Absent,
}

impl Cluster {
    async fn new(seed: u64, clock: &Clock, antrea: Antrea) -> Cluster {
        let site = Site::open(seed, clock).await;
        let mut running = JoinSet::new();
        let house = Housekeeping::new(site.client()).clock(clock.clone()).namespace_grace(Duration::ZERO);
        running.spawn(house.run(std::future::pending()));
        let cluster = Cluster { site, _running: running };
        cluster.define(koinon_api::membership::crds(), &[FEDERATIONS]).await;
        if antrea == Antrea::Installed {
            cluster.install_antrea().await;
        }
        for name in ["antrea-plus-system", "prod"] {
            cluster.create_namespace(name).await;
        }
        cluster.join(&json!({})).await;
        cluster
    }

    pub(crate) async fn install_antrea(&self) {
        let antrea: Vec<Value> = serde_json::from_str(include_str!("../../data/antrea.json")).unwrap();
        self.define(antrea, &[ACNPS, ANPS, TIERS, ENTITIES]).await;
    }

    async fn define(&self, definitions: Vec<Value>, paths: &[&str]) {
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        for definition in definitions {
            self.create(crds, definition).await;
        }
        for path in paths {
            let start = Instant::now();
            while self.send("GET", path, "application/json", Value::Null).await.is_err() {
                assert!(start.elapsed() < LONG, "{path} is not served");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }

    /// Makes the cluster take part, under these annotations.
    pub(crate) async fn join(&self, annotations: &Value) {
        let federation = json!({
            "apiVersion": "federation.antreaplus.tanzu.vmware.com/v1alpha1", "kind": "Federation",
            "metadata": {"name": "federation", "annotations": annotations}, "spec": {},
        });
        self.create(FEDERATIONS, federation).await;
    }

    pub(crate) async fn annotate_federation(&self, annotations: Value) {
        let patch = json!({"metadata": {"annotations": annotations}});
        self.patch(&format!("{FEDERATIONS}/federation"), patch).await;
    }

    pub(crate) async fn leave(&self) {
        self.delete(&format!("{FEDERATIONS}/federation")).await;
    }

    pub(crate) async fn create_namespace(&self, name: &str) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.create("/api/v1/namespaces", namespace).await;
    }

    pub(crate) async fn delete_namespace(&self, name: &str) {
        let path = format!("/api/v1/namespaces/{name}");
        self.delete(&path).await;
        let start = Instant::now();
        while self.get(&path).await.is_some() {
            assert!(start.elapsed() < LONG, "{path} stays");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub(crate) async fn send(&self, method: &str, path: &str, kind: &str, body: Value) -> Result<Value, u16> {
        let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(&body).unwrap() };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .body(body)
            .unwrap();
        match self.site.client().request::<Value>(request).await {
            Ok(answer) => Ok(answer),
            Err(kube::Error::Api(status)) => Err(status.code),
            Err(error) => panic!("{method} {path}: {error}"),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        match self.send("GET", path, "application/json", Value::Null).await {
            Ok(found) => Some(found),
            Err(404) => None,
            Err(code) => panic!("{path}: {code}"),
        }
    }

    pub(crate) async fn create(&self, path: &str, body: Value) {
        self.send("POST", path, "application/json", body).await.unwrap();
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) {
        self.send("PATCH", path, "application/merge-patch+json", body).await.unwrap();
    }

    pub(crate) async fn delete(&self, path: &str) {
        self.send("DELETE", path, "application/json", Value::Null).await.unwrap();
    }

    /// The events of one object, as `reason: message`.
    pub(crate) async fn events(&self, namespace: &str, name: &str) -> Vec<String> {
        let list = self.get(&format!("/api/v1/namespaces/{namespace}/events")).await.unwrap();
        let items = list["items"].as_array().unwrap().iter();
        let of = items.filter(|event| event["involvedObject"]["name"] == name);
        of.map(|event| {
            format!("{}: {}", event["reason"].as_str().unwrap(), event["message"].as_str().unwrap())
        })
        .collect()
    }

    /// All documents of the ledger, as a backup has them.
    pub(crate) async fn ledger_documents(&self) -> Vec<Value> {
        let list = self.get(LEDGERS).await.unwrap();
        let items = list["items"].as_array().unwrap().iter();
        let ours = items.filter(|map| map["metadata"]["labels"]["koinon.dev/ledger"] == "policies");
        let bare = ours.map(|map| {
            let metadata = json!({"name": map["metadata"]["name"], "labels": map["metadata"]["labels"]});
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": map["data"]})
        });
        bare.collect()
    }

    pub(crate) async fn restore(&self, ledger: Vec<Value>) {
        for document in ledger {
            self.create(LEDGERS, document).await;
        }
    }

    /// Deletes every page of the ledger; what it says of members stays.
    pub(crate) async fn forget_policies(&self) {
        for document in self.ledger_documents().await {
            let name = document["metadata"]["name"].as_str().unwrap();
            if name != "koinon-policies" {
                self.delete(&format!("{LEDGERS}/{name}")).await;
            }
        }
    }

    /// What the ledger says of members.
    pub(crate) async fn roster(&self) -> String {
        let map = self.get(&format!("{LEDGERS}/koinon-policies")).await.unwrap_or_default();
        map["data"]["ledger.json"].as_str().unwrap_or_default().to_owned()
    }

    /// Everything that the ledger says of policies, as one text.
    pub(crate) async fn ledger(&self) -> String {
        let list = self.get(LEDGERS).await.unwrap();
        let items = list["items"].as_array().unwrap().iter();
        let pages = items.filter_map(|map| map["data"]["ledger.json"].as_str().map(str::to_owned));
        pages.filter(|text| text.contains("\"policies\"")).collect::<Vec<_>>().join("\n")
    }
}

/// One supervisor: beside one cluster, with a way of its own to each.
pub(crate) struct Process {
    pub(crate) fleet: Arc<Fleet>,
    task: JoinHandle<()>,
}

pub(crate) struct World {
    pub(crate) network: Network,
    pub(crate) clusters: BTreeMap<String, Cluster>,
    pub(crate) processes: BTreeMap<String, Process>,
    started: u32,
    /// Clusters that are no members at the moment.
    pub(crate) out: BTreeSet<String>,
    /// Whether supervisors look after federated Services too.
    pub(crate) services: bool,
}

pub(crate) fn id(name: &str) -> ClusterId {
    ClusterId::new(name).unwrap()
}

/// A policy that says `says`, federated.
pub(crate) fn policy(kind: &str, name: &str, says: i64) -> Value {
    json!({
        "apiVersion": "crd.antrea.io/v1beta1", "kind": kind,
        "metadata": {"name": name, "annotations": {MARK: "true"}},
        "spec": {
            "priority": says,
            "appliedTo": [{"podSelector": {"matchLabels": {"app": "web"}}}],
            "egress": [{"action": "Drop", "to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
        },
    })
}

pub(crate) fn acnp(name: &str, says: i64) -> Value {
    policy("ClusterNetworkPolicy", name, says)
}

pub(crate) fn anp(name: &str, says: i64) -> Value {
    policy("NetworkPolicy", name, says)
}

impl World {
    /// These clusters, and one supervisor beside the first that leads them all.
    pub(crate) async fn new(names: &[&str]) -> World {
        let mut world = World::bare(names).await;
        world.start(names[0]).await;
        world
    }

    pub(crate) async fn bare(names: &[&str]) -> World {
        World::on(Network::new(0, &Trace::default()), names).await
    }

    /// Clusters without supervisors, on a network of their own.
    pub(crate) async fn on(network: Network, names: &[&str]) -> World {
        World::furnished(network, names, Antrea::Installed).await
    }

    pub(crate) async fn furnished(network: Network, names: &[&str], antrea: Antrea) -> World {
        let mut clusters = BTreeMap::new();
        for (seed, name) in names.iter().enumerate() {
            let cluster = Cluster::new(seed as u64 + 1, &network.time().clock(), antrea).await;
            network.serve(name, cluster.site.router());
            clusters.insert((*name).to_owned(), cluster);
        }
        World {
            network,
            clusters,
            processes: BTreeMap::new(),
            started: 0,
            out: BTreeSet::new(),
            services: false,
        }
    }

    /// Another cluster takes the place of this one, with nothing of what it had.
    pub(crate) async fn replace(&mut self, name: &str) {
        let seed = 100 + self.clusters.len() as u64;
        let cluster = Cluster::new(seed, &self.network.time().clock(), Antrea::Installed).await;
        self.network.serve(name, cluster.site.router());
        self.clusters.insert(name.to_owned(), cluster);
    }

    pub(crate) fn at(&self, name: &str) -> &Cluster {
        &self.clusters[name]
    }

    /// Starts the supervisor beside a cluster, from nothing.
    pub(crate) async fn start(&mut self, beside: &str) {
        let options = koinon_fleet::Options { spread: Duration::ZERO, ..koinon_fleet::Options::default() };
        let fleet = Fleet::new(options, Metrics::default(), self.network.time().clock());
        self.network.fuse(beside).renew();
        for name in self.clusters.keys() {
            self.network.set(beside, name, &[]);
        }
        self.started += 1;
        let formation = Formation {
            part: Part::Supervisor(id(beside)),
            federation: None,
            members: BTreeMap::new(),
            ignored: Vec::new(),
            problems: Vec::new(),
        };
        let (sender, formed) = watch::channel(Some(Arc::new(formation)));
        let elections = Elections::new(fleet.clone(), &format!("i{}", self.started), Timing::default());
        let services =
            Services::new(fleet.clone(), services::Options::default(), services::Metrics::default());
        let policies =
            Policies::new(fleet.clone(), services.origins(), Default::default(), Default::default());
        let mut features: Vec<Arc<dyn Feature>> = vec![policies];
        if self.services {
            features.push(services);
        }
        let (following, leading) = (elections.clone(), fleet.clone());
        let task = tokio::spawn(async move {
            let _formed = sender;
            // Elections ask first, so that tests can tell who asks.
            let leading = async {
                tokio::time::sleep(Duration::from_millis(1)).await;
                lead(leading, elections, features).await
            };
            tokio::select! {
                biased;
                _ = following.run(formed) => {}
                _ = leading => {}
            }
        });
        let process = Process { fleet, task };
        self.processes.insert(beside.to_owned(), process);
        self.list_members(beside).await;
    }

    /// A cluster leaves: its Federation goes, and the supervisors list it no more.
    pub(crate) async fn part(&mut self, name: &str) {
        if self.out.insert(name.to_owned()) {
            self.at(name).leave().await;
            self.list_everywhere().await;
        }
    }

    /// It is a member again.
    pub(crate) async fn return_to(&mut self, name: &str) {
        if self.out.remove(name) {
            self.at(name).join(&json!({})).await;
            self.list_everywhere().await;
        }
    }

    async fn list_everywhere(&self) {
        for process in self.processes.keys() {
            self.list_members(process).await;
        }
    }

    /// Makes all that are members be so for one supervisor.
    async fn list_members(&self, process: &str) {
        let names = self.clusters.keys().filter(|name| !self.out.contains(*name));
        self.list(process, &names.map(String::as_str).collect::<Vec<_>>()).await;
    }

    /// Makes these the members, for one supervisor.
    pub(crate) async fn list(&self, process: &str, names: &[&str]) {
        let wanted = names.iter().map(|name| {
            let link = Link::Direct(self.network.client(process, name));
            (id(name), Wanted { link, uid: None })
        });
        self.processes[process].fleet.set(wanted.collect()).await;
    }

    /// Ends a supervisor in the middle of whatever it does.
    pub(crate) async fn kill(&mut self, beside: &str) {
        if let Some(process) = self.processes.remove(beside) {
            process.task.abort();
            let _ = process.task.await;
        }
    }

    /// A supervisor reaches a cluster no more.
    pub(crate) fn cut(&self, process: &str, cluster: &str) {
        self.network.set(process, cluster, &[Fault::Cut]);
    }

    pub(crate) fn mend(&self, process: &str, cluster: &str) {
        self.network.set(process, cluster, &[]);
    }

    /// What a supervisor wrote, but for events and leases.
    pub(crate) fn writes(&self, process: &str) -> Vec<String> {
        let writes = self.network.trace().writes();
        writes.iter().filter(|write| write.from == process).map(ToString::to_string).collect()
    }

    /// What the clusters have of a policy: `a=1 b=1 c=-`; one that is not federated has a star.
    pub(crate) async fn shows(&self, path: &str) -> String {
        let mut shows = Vec::new();
        for (name, cluster) in &self.clusters {
            let shown = match cluster.get(path).await {
                None => "-".to_owned(),
                Some(found) => {
                    let star = if found["metadata"]["annotations"][MARK] == "true" { "" } else { "*" };
                    format!("{}{star}", found["spec"]["priority"])
                }
            };
            shows.push(format!("{name}={shown}"));
        }
        shows.join(" ")
    }

    pub(crate) async fn until_shows(&self, path: &str, wanted: &str) -> Duration {
        let start = Instant::now();
        loop {
            let shows = self.shows(path).await;
            if shows == wanted {
                return start.elapsed();
            }
            if start.elapsed() > LONG {
                for (name, cluster) in &self.clusters {
                    eprintln!("{name}: {}", cluster.ledger().await);
                }
                panic!("it is {shows} and not {wanted}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub(crate) async fn until_event(
        &self,
        cluster: &str,
        namespace: &str,
        name: &str,
        beginning: &str,
    ) -> String {
        let start = Instant::now();
        loop {
            let events = self.at(cluster).events(namespace, name).await;
            if let Some(event) = events.iter().find(|event| event.starts_with(beginning)) {
                return event.clone();
            }
            assert!(start.elapsed() < LONG, "no event {beginning:?} among {events:#?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until no ledger remembers anything that was removed.
    pub(crate) async fn until_forgotten(&self) {
        let names: Vec<String> = self.clusters.keys().cloned().collect();
        self.until_forgotten_in(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }

    pub(crate) async fn until_forgotten_in(&self, names: &[&str]) {
        let start = Instant::now();
        loop {
            let mut ledgers = Vec::new();
            for name in names {
                ledgers.push(self.at(name).ledger().await);
            }
            let is_over = |ledger: &String| {
                !["removing", "removed", "settled"].iter().any(|word| ledger.contains(word))
            };
            if ledgers.iter().all(is_over) {
                return;
            }
            assert!(start.elapsed() < LONG, "{ledgers:#?}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Lets everything come to rest, and makes sure that it did.
    pub(crate) async fn rest(&self) {
        tokio::time::sleep(QUIET).await;
        let before = self.network.trace().writes();
        tokio::time::sleep(QUIET).await;
        assert_eq!(before, self.network.trace().writes(), "there is no rest");
    }
}
