//! A federation whose clusters have Antrea's definitions, and ways between them that can be cut.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use crate::league::wire::Wire;
use crate::union::{SITES, SUPERVISORS, Site, Union};
use crate::wait::{Look, until};
use crate::world::{Room, World};

pub(super) const MARK: &str = "federated.anp.antreaplus.vmware.com";
const API: &str = "crd.antrea.io/v1beta1";
const DEFINITIONS: &str = include_str!("../../../../crates/network/data/antrea.json");
/// Members that are away or gone are given up soon, and taken back soon.
const HASTE: [&str; 6] = ["--offline-after", "4s", "--online-after", "1s", "--left-after", "3s"];

/// Three clusters `a`, `b` and `c`, of which the first two supervise.
pub(super) struct Realm {
    pub(super) union: Union,
    /// The way from each supervisor to each other cluster.
    wires: BTreeMap<(&'static str, &'static str), Wire>,
    rooms: Vec<Room>,
}

impl Realm {
    /// Founds the federation; a policy that is made now is on its way.
    pub(super) async fn found(world: &Arc<World>) -> anyhow::Result<Realm> {
        let union = Union::prepare(world).await?;
        let mut realm = Realm { union, wires: BTreeMap::new(), rooms: Vec::new() };
        for (index, name) in SITES.into_iter().enumerate() {
            realm.install(name).await?;
            realm.union.federate(index).await?;
        }
        for supervisor in SUPERVISORS {
            realm.lead_over_wires(supervisor).await?;
        }
        realm.start().await?;
        Ok(realm)
    }

    async fn install(&self, name: &str) -> anyhow::Result<()> {
        let definitions: Value = serde_json::from_str(DEFINITIONS)?;
        let room = &self.at(name).room;
        let kinds = room.file("antrea.json");
        let list = json!({"apiVersion": "v1", "kind": "List", "items": definitions});
        std::fs::write(&kinds, list.to_string())?;
        room.kubectl(&["apply", "-f", &kinds.to_string_lossy()]).await?;
        room.established(&kinds).await
    }

    /// Has a supervisor reach all others by ways of its own.
    async fn lead_over_wires(&mut self, supervisor: &'static str) -> anyhow::Result<()> {
        for (index, name) in SITES.into_iter().enumerate().filter(|(_, name)| *name != supervisor) {
            let (server, _) = self.at(name).server()?;
            let address = server.strip_prefix("https://").context("a server behind TLS")?;
            let wire = Wire::open(address.trim_end_matches('/').parse()?).await?;
            let way = json!([{
                "op": "replace", "path": format!("/spec/members/{index}/server"),
                "value": format!("https://{}", wire.address),
            }]);
            let patch = ["patch", "federation", "fed", "--type=json", "-p", &way.to_string()];
            self.at(supervisor).room.kubectl(&patch).await?;
            self.wires.insert((supervisor, name), wire);
        }
        Ok(())
    }

    pub(super) fn at(&self, name: &str) -> &Site {
        self.union.sites.iter().find(|site| site.name == name).expect("there is such a cluster")
    }

    /// Starts the role beside every supervisor.
    pub(super) async fn start(&mut self) -> anyhow::Result<()> {
        for (index, name) in SITES.into_iter().enumerate() {
            if SUPERVISORS.contains(&name) {
                self.union.start_role(index, &HASTE).await?;
            }
        }
        Ok(())
    }

    /// Ends every role. Whatever it needed, it must have been allowed to.
    pub(super) async fn stop(&mut self) -> anyhow::Result<()> {
        for site in &mut self.union.sites {
            site.end_role().await?;
        }
        Ok(())
    }

    /// From now on no cluster hears of another.
    pub(super) fn cut(&self) {
        self.wires.values().for_each(Wire::cut);
    }

    pub(super) fn heal(&self) {
        self.wires.values().for_each(Wire::heal);
    }

    /// Makes a namespace in these clusters.
    pub(super) async fn open(&mut self, namespace: &str, clusters: &[&str]) -> anyhow::Result<()> {
        for name in clusters {
            let cluster = self.at(name).room.cluster.clone();
            self.rooms.push(Room::bare(cluster, namespace).await?);
        }
        Ok(())
    }

    /// Deletes a namespace and waits for its end.
    pub(super) async fn close(&mut self, namespace: &str, name: &str) -> anyhow::Result<()> {
        let cluster = self.at(name).room.cluster.clone();
        self.rooms.retain(|room| room.name != namespace || !Arc::ptr_eq(&room.cluster, &cluster));
        self.at(name).room.kubectl(&["delete", "namespace", namespace]).await?;
        Ok(())
    }

    /// Runs kubectl in a cluster, in the namespace of a policy.
    pub(super) async fn kubectl(
        &self,
        name: &str,
        policy: &Policy,
        arguments: &[&str],
    ) -> anyhow::Result<String> {
        self.room(name, policy).kubectl(arguments).await
    }

    pub(super) fn room(&self, name: &str, policy: &Policy) -> Room {
        let namespace = policy.namespace.unwrap_or("default");
        Room { cluster: self.at(name).room.cluster.clone(), name: namespace.into() }
    }

    pub(super) async fn apply(&self, name: &str, policy: &Policy, object: &Value) -> anyhow::Result<()> {
        self.room(name, policy).apply(object).await
    }

    /// Has a user of one cluster make a federated policy with this priority.
    pub(super) async fn create(&self, name: &str, policy: &Policy, says: i64) -> anyhow::Result<()> {
        self.apply(name, policy, &policy.object(says)).await
    }

    pub(super) async fn edit(&self, name: &str, policy: &Policy, says: i64) -> anyhow::Result<()> {
        let patch = json!({"spec": {"priority": says}}).to_string();
        self.kubectl(name, policy, &["patch", policy.kind(), policy.name, "--type=merge", "-p", &patch])
            .await?;
        Ok(())
    }

    pub(super) async fn delete(&self, name: &str, policy: &Policy) -> anyhow::Result<()> {
        self.kubectl(name, policy, &["delete", policy.kind(), policy.name]).await?;
        Ok(())
    }

    /// What a cluster has of a policy.
    pub(super) async fn find(&self, name: &str, policy: &Policy) -> anyhow::Result<Option<DynamicObject>> {
        let client = self.at(name).room.cluster.client.clone();
        let resource = policy.resource();
        let api: Api<DynamicObject> = match policy.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        Ok(api.get_opt(policy.name).await?)
    }

    /// Waits until the clusters have this of a policy: `a=1 b=1 c=-`; one that is not federated has a star.
    pub(super) async fn until(&self, policy: &Policy, wanted: &str) -> anyhow::Result<()> {
        until(&format!("{} is {wanted}", policy.name), async || {
            let mut shows = Vec::new();
            for name in SITES {
                let shown = match self.find(name, policy).await? {
                    None => "-".to_owned(),
                    Some(found) => {
                        let federated = found.annotations().get(MARK).is_some_and(|value| value == "true");
                        format!("{}{}", found.data["spec"]["priority"], if federated { "" } else { "*" })
                    }
                };
                shows.push(format!("{name}={shown}"));
            }
            let shows = shows.join(" ");
            Ok(if shows == wanted { Look::Found(()) } else { Look::NotYet(shows) })
        })
        .await
    }

    /// Waits until a policy has an event with this reason that says all of these.
    pub(super) async fn until_told(
        &self,
        name: &str,
        policy: &Policy,
        reason: &str,
        says: &[&str],
    ) -> anyhow::Result<()> {
        let events = self.room(name, policy).api::<Event>();
        let fields = format!("involvedObject.name={},reason={reason}", policy.name);
        until(&format!("{reason} about {} in {name} says {says:?}", policy.name), async || {
            let told = events.list(&ListParams::default().fields(&fields)).await?.items;
            let told: Vec<String> = told.into_iter().filter_map(|event| event.message).collect();
            let is_told = told.iter().any(|message| says.iter().all(|part| message.contains(part)));
            Ok(if is_told { Look::Found(()) } else { Look::NotYet(format!("{told:?}")) })
        })
        .await
    }

    /// Waits until the ledger of a cluster says this of something, or says it of nothing.
    pub(super) async fn until_ledger(&self, name: &str, word: &str, is_there: bool) -> anyhow::Result<()> {
        until(&format!("the ledger of {name} says {word}: {is_there}"), async || {
            let selector = ["get", "configmaps", "-l", "koinon.dev/ledger=policies", "-o", "json"];
            let ledger = self.at(name).room.kubectl(&selector).await?;
            Ok(if ledger.contains(word) == is_there { Look::Found(()) } else { Look::NotYet(ledger) })
        })
        .await
    }

    /// Waits until nobody has anything to remember of what was removed.
    pub(super) async fn until_forgotten(&self, clusters: &[&str]) -> anyhow::Result<()> {
        for name in clusters {
            for word in ["removing", "removed", "settled"] {
                self.until_ledger(name, word, false).await?;
            }
        }
        Ok(())
    }

    /// What `koinon status policies` says in a supervisor's cluster, by policy.
    pub(super) async fn status(&self, name: &str) -> anyhow::Result<BTreeMap<String, Value>> {
        let kubeconfig: &Path = &self.at(name).room.cluster.kubeconfig;
        let mut command = tokio::process::Command::new(crate::engine::koinon());
        command.args(["status", "policies", "-o", "json", "--kubeconfig"]).arg(kubeconfig);
        let output = command.kill_on_drop(true).output().await?;
        ensure!(output.status.success(), "status: {}", String::from_utf8_lossy(&output.stderr));
        let all: Value = serde_json::from_slice(&output.stdout)?;
        let reports = all["policies"].as_array().into_iter().flatten();
        Ok(reports.map(|one| (one["policy"].as_str().unwrap_or_default().to_owned(), one.clone())).collect())
    }

    /// Ends it all; nothing of it stays in the clusters.
    pub(super) async fn dissolve(mut self) -> anyhow::Result<()> {
        self.stop().await?;
        let definitions: Vec<Value> = serde_json::from_str(DEFINITIONS)?;
        let names = definitions.iter().filter_map(|one| one["metadata"]["name"].as_str());
        let arguments: Vec<&str> = ["delete", "crd"].into_iter().chain(names).collect();
        for name in SITES {
            self.at(name).room.kubectl(&arguments).await?;
        }
        for room in self.rooms {
            room.leave().await?;
        }
        self.union.dissolve().await
    }
}

/// Which policy.
#[derive(Clone, Copy)]
pub(super) struct Policy {
    /// Where it is, unless it is for the whole cluster.
    namespace: Option<&'static str>,
    pub(super) name: &'static str,
}

impl Policy {
    pub(super) const fn cluster(name: &'static str) -> Policy {
        Policy { namespace: None, name }
    }

    pub(super) const fn within(namespace: &'static str, name: &'static str) -> Policy {
        Policy { namespace: Some(namespace), name }
    }

    fn kind(&self) -> &'static str {
        match self.namespace {
            Some(_) => "networkpolicies.crd.antrea.io",
            None => "clusternetworkpolicies.crd.antrea.io",
        }
    }

    fn resource(&self) -> ApiResource {
        let (kind, plural) = match self.namespace {
            Some(_) => ("NetworkPolicy", "networkpolicies"),
            None => ("ClusterNetworkPolicy", "clusternetworkpolicies"),
        };
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("crd.antrea.io", "v1beta1", kind), plural)
    }

    /// It, federated.
    pub(super) fn object(&self, says: i64) -> Value {
        let mut object = json!({
            "apiVersion": API, "kind": self.resource().kind,
            "metadata": {
                "name": self.name, "labels": {"team": "net"}, "annotations": {MARK: "true", "example.com/why": "because"},
            },
            "spec": {
                "priority": says,
                "appliedTo": [{"podSelector": {"matchLabels": {"app": "web"}}}],
                "egress": [{"action": "Drop", "to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
            },
        });
        if let Some(namespace) = self.namespace {
            object["metadata"]["namespace"] = namespace.into();
        }
        object
    }
}

/// The external entities of a cluster for global Services, as `KIND NAME CLUSTER ADDRESSES`.
async fn entities(site: &Site) -> anyhow::Result<Vec<String>> {
    let list = site.room.kubectl(&["get", "externalentities.crd.antrea.io", "-o", "json"]).await?;
    let list: Value = serde_json::from_str(&list)?;
    let items = list["items"].as_array().into_iter().flatten();
    let mut all: Vec<String> = items
        .map(|entity| {
            let labels = &entity["metadata"]["labels"];
            let label = |key: &str| {
                labels[format!("{key}.antreaplus.tanzu.vmware.com")].as_str().unwrap_or("-").to_owned()
            };
            let addresses = entity["spec"]["endpoints"].as_array().map_or(0, Vec::len);
            format!("{} {} {} {addresses}", label("kind"), label("name"), label("cluster"))
        })
        .collect();
    all.sort();
    Ok(all)
}

/// A Service with two pods behind it, which joins the federated Service `foo`.
pub(super) async fn serve(home: &Room) -> anyhow::Result<()> {
    let labels = json!({"app": "foo"});
    let pod = json!({
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "web", "image": "web:1", "ports": [{"containerPort": 8080}]}]},
    });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "foo"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": pod},
    });
    let annotations = json!({"svc.global.federated.antreaplus.vmware-tanzu.com": "foo"});
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "foo", "annotations": annotations},
        "spec": {"selector": labels, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
    });
    home.apply(&deployment).await?;
    home.apply(&service).await
}

/// Waits until there are these external entities, as `KIND NAME CLUSTER ADDRESSES`.
pub(super) async fn until_entities(realm: &Realm, name: &str, wanted: &[&str]) -> anyhow::Result<()> {
    until(&format!("the external entities of {name} are {wanted:?}"), async || {
        let now = entities(realm.at(name)).await?;
        Ok(if now == wanted { Look::Found(()) } else { Look::NotYet(format!("{now:?}")) })
    })
    .await
}
