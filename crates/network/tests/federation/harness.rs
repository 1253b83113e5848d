//! Clusters in this process, each a bare API server, and supervisors beside some of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use koinon_apiserver::auth::User;
use koinon_apiserver::auth::pki::Authority;
use koinon_apiserver::context::Context;
use koinon_apiserver::serve::{Options, Server};
use koinon_control::{Clock, Key};
use koinon_network::services::{Metrics, Services};
use koinon_network::{Network, crds, services};
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::wire::{Faults, Log, Wire};
use crate::world::{Place, World as Model, id};

/// Longer than anything that happens by itself takes.
const LONG: Duration = Duration::from_secs(1800);
/// Longer than any pause after which something still happens by itself.
const QUIET: Duration = Duration::from_secs(150);

pub(crate) const SYSTEM: &str = "antrea-plus-system";
pub(crate) const FOO: &str = "/api/v1/namespaces/antrea-plus-system/services/foo";
pub(crate) const GLOBAL: &str = "svc.global.federated.antreaplus.vmware-tanzu.com";

pub(crate) struct Site {
    /// Straight to the server: what users and tests do and see.
    pub(crate) client: Client,
    router: axum::Router,
    clock: Clock,
}

struct Process {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

pub(crate) struct World {
    pub(crate) sites: BTreeMap<String, Site>,
    pub(crate) log: Arc<Log>,
    /// What goes wrong on the way.
    pub(crate) faults: Arc<Faults>,
    pub(crate) options: services::Options,
    /// From one supervisor to one cluster.
    wires: BTreeMap<(String, String), Wire>,
    running: BTreeMap<String, Process>,
    started: u32,
}

impl Site {
    async fn new(seed: u64, start: Instant) -> Site {
        let now = move || Timestamp::from_second(1_800_000_000).unwrap() + start.elapsed();
        let context = Context::seeded(seed, now);
        let authority = Authority::in_memory(&context).unwrap();
        let server = Server::open(Options::default(), &authority, context).await.unwrap();
        let router = server.trusted_router(User::new("system:admin", &["system:masters"]));
        Site { client: Client::new(router.clone(), "default"), router, clock: Clock::new(now) }
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: Value) -> Result<Value, u16> {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(&body).unwrap() };
        let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
        match self.client.request::<Value>(request.body(body).unwrap()).await {
            Ok(answer) => Ok(answer),
            Err(kube::Error::Api(status)) => Err(status.code),
            Err(error) => panic!("{method} {path}: {error}"),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        self.send("GET", path, Value::Null).await.ok()
    }

    pub(crate) async fn create(&self, path: &str, body: Value) {
        self.send("POST", path, body.clone()).await.unwrap_or_else(|code| panic!("{path}: {code} {body:#}"));
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) {
        self.send("PATCH", path, body).await.unwrap();
    }

    pub(crate) async fn delete(&self, path: &str) {
        self.send("DELETE", path, Value::Null).await.unwrap();
    }

    pub(crate) async fn namespace(&self, name: &str) {
        let _ = self.send("POST", "/api/v1/namespaces", json!({"metadata": {"name": name}})).await;
    }

    /// A Service with one port 80 called `http` that joins, in whatever namespace.
    pub(crate) async fn member(&self, name: &str, joins: &str, kind: &str) {
        let (namespace, name) = name.split_once('/').unwrap();
        self.namespace(namespace).await;
        let body = json!({
            "metadata": {"name": name, "annotations": {GLOBAL: joins}},
            "spec": {"type": kind, "selector": {"app": name}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
        });
        self.create(&format!("/api/v1/namespaces/{namespace}/services"), body).await;
    }

    /// The endpoints of a Service, each with `!` where it is not ready.
    pub(crate) async fn endpoints(&self, name: &str, addresses: &str) {
        let (namespace, name) = name.split_once('/').unwrap();
        let path = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
        let endpoints: Vec<Value> = addresses
            .split_whitespace()
            .map(|word| json!({"addresses": [word.trim_end_matches('!')], "conditions": {"ready": !word.ends_with('!')}}))
            .collect();
        let body = json!({
            "metadata": {"name": format!("{name}-x"), "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4", "endpoints": endpoints,
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        });
        let at = format!("{path}/{name}-x");
        if self.get(&at).await.is_some() {
            self.patch(&at, json!({"endpoints": body["endpoints"]})).await;
        } else {
            self.create(&path, body).await;
        }
    }

    pub(crate) async fn events(&self, namespace: &str) -> Vec<String> {
        let list = self.get(&format!("/api/v1/namespaces/{namespace}/events")).await.unwrap();
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|event| {
                let about = event["involvedObject"]["name"].as_str().unwrap();
                format!("{about} {}", event["reason"].as_str().unwrap())
            })
            .collect()
    }

    async fn list<K>(&self, labels: &str) -> Vec<K>
    where
        K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let api: Api<K> = Api::all(self.client.clone());
        api.list(&ListParams::default().labels(labels)).await.unwrap().items
    }

    /// What the cluster holds, for the model.
    async fn place(&self) -> Place {
        let services: Vec<Service> = self.list("").await;
        let is_ours = |service: &Service| {
            let labels = service.metadata.labels.clone().unwrap_or_default();
            labels.get("app.kubernetes.io/managed-by").is_some_and(|one| one == "koinon")
        };
        Place {
            services: services.into_iter().filter(|service| !is_ours(service)).collect(),
            slices: self.list("endpointslice.kubernetes.io/managed-by!=federation.koinon.dev").await,
            nodes: self.list::<Node>("").await,
            ..Place::default()
        }
    }

    /// What was generated here of the federated Service, in words.
    pub(crate) async fn shown(&self, key: &Key) -> String {
        let path = format!("/api/v1/namespaces/{}/services/{}", key.namespace, key.name);
        let Some(service) = self.get(&path).await else { return "nothing".into() };
        let ports: Vec<String> = service["spec"]["ports"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|port| format!("{}:{}", port["name"].as_str().unwrap_or_default(), port["port"]))
            .collect();
        let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for slice in self.own().await {
            let labels = slice.metadata.labels.clone().unwrap();
            if labels["kubernetes.io/service-name"] != key.name {
                continue;
            }
            let from =
                slice.metadata.annotations.unwrap()["cluster.federated.antreaplus.vmware-tanzu.com"].clone();
            let line = lines.entry(from).or_default();
            line.extend(slice.endpoints.unwrap().iter().map(|one| {
                let ready = one.conditions.as_ref().is_none_or(|one| one.ready != Some(false));
                format!("{}{}", one.addresses[0], if ready { "" } else { "!" })
            }));
        }
        let lines = lines.into_iter().map(|(from, mut all)| {
            all.sort();
            format!("{from}={}", all.join(","))
        });
        std::iter::once(ports.join(",")).chain(lines).collect::<Vec<_>>().join(" ")
    }

    pub(crate) async fn own(&self) -> Vec<EndpointSlice> {
        self.list("endpointslice.kubernetes.io/managed-by=federation.koinon.dev").await
    }
}

impl World {
    /// Clusters of these names, those with a star beside a supervisor, all in one federation.
    pub(crate) async fn new(names: &[&str]) -> World {
        let start = Instant::now();
        let mut world = World {
            sites: BTreeMap::new(),
            log: Arc::default(),
            faults: Arc::default(),
            options: services::Options { resolve: None, ..services::Options::default() },
            wires: BTreeMap::new(),
            running: BTreeMap::new(),
            started: 0,
        };
        for (seed, name) in names.iter().enumerate() {
            let site = Site::new(seed as u64 + 1, start).await;
            site.namespace(SYSTEM).await;
            for crd in crds() {
                site.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).await;
            }
            world.sites.insert(name.trim_end_matches('*').to_owned(), site);
        }
        let all: Vec<&str> = names.iter().map(|name| name.trim_end_matches('*')).collect();
        for name in names {
            let site = &world.sites[name.trim_end_matches('*')];
            let claims = format!("{}/clusterclaims", federation_group());
            let claim = |name: &str, value: &str| json!({"apiVersion": API, "kind": "ClusterClaim", "metadata": {"name": name}, "value": value});
            site.create(&claims, claim("id.k8s.io", name.trim_end_matches('*'))).await;
            if name.ends_with('*') {
                site.create(&claims, claim("supervisor.antreaplus.tanzu-vmware.com", "true")).await;
            }
            world.federate(name, &all).await;
        }
        for name in names.iter().filter(|name| name.ends_with('*')) {
            world.start(name.trim_end_matches('*')).await;
        }
        world
    }

    /// Writes the Federation of a cluster: its members, or nobody beside a child.
    async fn federate(&self, name: &str, members: &[&str]) {
        let listed: Vec<Value> =
            members.iter().map(|id| json!({"clusterID": {"value": id}, "secret": "s"})).collect();
        let members = if name.ends_with('*') { listed } else { Vec::new() };
        let body = json!({
            "apiVersion": API, "kind": "Federation", "metadata": {"name": "fed"}, "spec": {"members": members},
        });
        self[name.trim_end_matches('*')].create(&format!("{}/federations", federation_group()), body).await;
    }

    /// Makes the members of a supervisor's Federation be these.
    pub(crate) async fn members(&self, supervisor: &str, members: &[&str]) {
        let members: Vec<Value> =
            members.iter().map(|id| json!({"clusterID": {"value": id}, "secret": "s"})).collect();
        let path = format!("{}/federations/fed", federation_group());
        self[supervisor].patch(&path, json!({"spec": {"members": members}})).await;
    }

    pub(crate) async fn leave(&self, name: &str) {
        self[name].delete(&format!("{}/federations/fed", federation_group())).await;
    }

    pub(crate) async fn rejoin(&self, name: &str) {
        self.federate(name, &[]).await;
    }

    /// Starts the role beside a cluster.
    pub(crate) async fn start(&mut self, name: &str) {
        self.started += 1;
        let mut direct = BTreeMap::new();
        for (other, site) in &self.sites {
            let at = (name.to_owned(), other.clone());
            let (log, faults) = (&self.log, &self.faults);
            let wire = || Wire::new(other, site.router.clone(), log, faults);
            let wire = self.wires.entry(at).or_insert_with(wire);
            direct.insert(id(other), wire.client());
        }
        let site = &self.sites[name];
        let own = self.wires[&(name.to_owned(), name.to_owned())].client();
        let instance = format!("{name}-{}", self.started);
        let network =
            Network::new(own, &instance, Default::default(), Default::default(), site.clock.clone());
        let network = network.direct(direct);
        let services = Services::new(network.fleet().clone(), self.options.clone(), Metrics::default());
        let (stop, stopped) = oneshot::channel();
        let run = network.feature(services).run(async { drop(stopped.await) });
        self.running.insert(name.to_owned(), Process { stop, task: tokio::spawn(run) });
    }

    /// Ends the role at once, in the middle of whatever it does.
    pub(crate) async fn kill(&mut self, name: &str) {
        if let Some(process) = self.running.remove(name) {
            process.task.abort();
            let _ = process.task.await;
        }
    }

    /// Ends the role in good order.
    pub(crate) async fn stop(&mut self, name: &str) {
        if let Some(process) = self.running.remove(name) {
            drop(process.stop);
            process.task.await.unwrap();
        }
    }

    pub(crate) fn runs(&self, name: &str) -> bool {
        self.running.contains_key(name)
    }

    /// Cuts or heals a cluster's ways to and from all others.
    pub(crate) fn isolate(&self, name: &str, up: bool) {
        let crossing = self.wires.iter().filter(|((from, to), _)| from != to && (from == name || to == name));
        crossing.for_each(|(_, wire)| wire.set(up));
    }

    pub(crate) async fn until_shown(&self, cluster: &str, key: &Key, wanted: &str) {
        let start = Instant::now();
        loop {
            let shown = self[cluster].shown(key).await;
            if shown == wanted {
                return;
            }
            assert!(start.elapsed() < LONG, "in {cluster} it is {shown:?} and not {wanted:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// What every cluster should have by the state of all members alone.
    async fn model(&self, key: &Key) -> Model {
        let mut model = Model::default();
        for (name, site) in &self.sites {
            model.places.insert(name.clone(), site.place().await);
        }
        model.settle_all(key);
        model
    }

    /// Waits until every cluster has what the model says, and nothing else.
    pub(crate) async fn until_as_the_model(&self, key: &Key, context: &str) {
        let start = Instant::now();
        let model = self.model(key).await;
        loop {
            let mut wrong = Vec::new();
            for (name, site) in &self.sites {
                let wanted: BTreeMap<_, _> = model.places[name].own.values().map(content).collect();
                let found: BTreeMap<_, _> = site.own().await.iter().map(content).collect();
                if found != wanted {
                    wrong.push(format!("{name}: {found:#?}, not {wanted:#?}"));
                }
                let path = format!("/api/v1/namespaces/{}/services/{}", key.namespace, key.name);
                let has = site
                    .get(&path)
                    .await
                    .is_some_and(|one| one["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "koinon");
                if has == model.places[name].generated.is_empty() {
                    wrong.push(format!("{name}: the Service is there: {has}"));
                }
            }
            if wrong.is_empty() {
                return;
            }
            assert!(start.elapsed() < LONG, "{context}: {}", wrong.join("\n"));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Makes sure that all came to rest: for longer than any pause nothing is written about Services.
    pub(crate) async fn rest(&self) {
        tokio::time::sleep(QUIET).await;
        let before = self.log.writes();
        tokio::time::sleep(QUIET).await;
        let after = self.log.writes();
        assert_eq!(before.len(), after.len(), "{:#?}", &after[before.len()..]);
    }

    /// The cluster whose supervisor leads a member.
    pub(crate) async fn leader(&self, member: &str) -> Option<String> {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/{member}");
        let lease = self[member].get(&path).await?;
        let holder = lease["spec"]["holderIdentity"].as_str()?;
        holder.split_once('_').map(|(cluster, _)| cluster.to_owned())
    }
}

const API: &str = "federation.antreaplus.tanzu.vmware.com/v1alpha1";

fn federation_group() -> String {
    format!("/apis/{API}/namespaces/{SYSTEM}")
}

fn content(slice: &EndpointSlice) -> (String, String) {
    let name = slice.metadata.name.clone().unwrap();
    (name, format!("{} {:?} {:?}", slice.address_type, slice.ports, slice.endpoints))
}

impl std::ops::Index<&str> for World {
    type Output = Site;

    fn index(&self, name: &str) -> &Site {
        &self.sites[name]
    }
}
