//! Services that span clusters: the example of three, with two supervisors, each allowed what it needs and no more.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use base64::Engine as _;
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use super::{Scenario, kubectl};
use crate::engine::{Running, koinon};
use crate::wait::{Look, until};
use crate::world::{Room, World};

const SITES: [&str; 3] = ["a", "b", "c"];
const SUPERVISORS: [&str; 2] = ["a", "b"];
const SYSTEM: &str = "antrea-plus-system";
const FEDERATION: &str = "federation.antreaplus.tanzu.vmware.com/v1alpha1";
/// Enough haste that a test need not wait long for a new leader.
const HASTE: [&str; 8] =
    ["--lease-duration", "6s", "--renew-deadline", "4s", "--retry-period", "1s", "--probe-every", "1s"];

pub(super) fn all() -> Vec<Scenario> {
    vec![kubectl("foo_is_found_in_every_cluster_and_outlives_a_leader", example)]
}

struct Site {
    name: &'static str,
    number: usize,
    room: Room,
    /// Where `fooN` is.
    home: Room,
    role: Option<Running>,
}

async fn example(world: Arc<World>) -> anyhow::Result<()> {
    let mut sites = Vec::new();
    for (index, name) in SITES.into_iter().enumerate() {
        sites.push(Site::prepare(&world, name, index + 1).await?);
    }
    for index in 0..sites.len() {
        federate(&sites, index).await?;
    }
    for site in sites.iter_mut().filter(|site| SUPERVISORS.contains(&site.name)) {
        let kubeconfig = site.kubeconfig_of("koinon-network").await?;
        site.role = Some(world.role_with(site.name, "network", &kubeconfig, &HASTE).await?);
    }
    for site in &sites[..2] {
        site.serve().await?;
    }
    // At home everybody uses the member there, elsewhere all of them.
    sites[0].until_used(&["a"]).await?;
    sites[1].until_used(&["b"]).await?;
    sites[2].until_used(&["a", "b"]).await?;
    let address = sites[2].address().await?;

    // The leader of c is lost: the other follows, and what changes after that arrives.
    let leader = sites[2].leader().await?;
    let lost = sites.iter().position(|site| site.name == leader).context("a supervisor leads")?;
    sites[lost].role.take().context("it runs")?.stop().await;
    sites[2].serve().await?;
    sites[2].until_used(&["c"]).await?;
    sites[2].home.kubectl(&["delete", "service", "foo3"]).await?;
    sites[2].until_used(&["a", "b"]).await?;
    anyhow::ensure!(sites[2].address().await? == address, "the address of the Service stays");

    // With the last member all goes.
    for site in &sites[..2] {
        let name = format!("foo{}", site.number);
        site.home.kubectl(&["delete", "service", &name]).await?;
    }
    for site in &sites {
        site.until_gone().await?;
    }
    for site in sites {
        if let Some(role) = site.role {
            role.stop().await;
        }
        site.home.leave().await?;
        site.room.leave().await?;
    }
    Ok(())
}

/// Has a cluster take part: supervisors know how to log in everywhere, a child only says that it is in.
async fn federate(sites: &[Site], index: usize) -> anyhow::Result<()> {
    let site = &sites[index];
    let mut members = Vec::new();
    if SUPERVISORS.contains(&site.name) {
        for other in sites {
            let (server, authority) = other.server()?;
            let token = other.token("koinon-network-member").await?;
            let secret = format!("member-{}", other.name);
            site.apply(&json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret},
                "stringData": {"token": token, "ca.crt": authority},
            }))
            .await?;
            members.push(json!({"clusterID": {"value": other.name}, "server": server, "secret": secret}));
        }
        site.claim("supervisor.antreaplus.tanzu-vmware.com", "true").await?;
    }
    site.claim("id.k8s.io", site.name).await?;
    site.apply(&json!({
        "apiVersion": FEDERATION, "kind": "Federation", "metadata": {"name": "fed"}, "spec": {"members": members},
    }))
    .await
}

impl Site {
    async fn prepare(world: &World, name: &'static str, number: usize) -> anyhow::Result<Site> {
        let cluster = world.cluster(name).await?;
        let room = Room::open(cluster.clone(), SYSTEM).await?;
        let home = Room::open(cluster, &format!("ns{number}")).await?;
        let beside = Room { cluster: room.cluster.clone(), name: "kube-system".into() };
        for what in ["crds", "rbac"] {
            let printed = tokio::process::Command::new(koinon())
                .args(["install", what, "--role", "network"])
                .output()
                .await?;
            // kubectl is told a namespace here, and then takes no object of another.
            let (other, own): (Vec<&str>, Vec<&str>) =
                str::from_utf8(&printed.stdout)?.split("---\n").partition(|one| one.contains("kube-system"));
            for (room, documents) in [(&room, own), (&beside, other)] {
                if documents.is_empty() {
                    continue;
                }
                let file = room.cluster.kubeconfig.with_file_name("network.yaml");
                std::fs::write(&file, documents.join("---\n"))?;
                room.kubectl(&["apply", "-f", &file.to_string_lossy()]).await?;
            }
        }
        room.kubectl(&["wait", "--for=condition=Established", "crd", "--all"]).await?;
        Ok(Site { name, number, room, home, role: None })
    }

    /// Makes `fooN`, which a pod stands behind, and has it join.
    async fn serve(&self) -> anyhow::Result<()> {
        let name = format!("foo{}", self.number);
        let labels = json!({"app": name});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {
                "replicas": 2, "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "web", "image": "web:1", "ports": [{"containerPort": 8080}]}]},
                },
            },
        });
        let annotations = json!({"svc.global.federated.antreaplus.vmware-tanzu.com": "foo"});
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "annotations": annotations},
            "spec": {"selector": labels, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
        });
        for object in [deployment, service] {
            apply(&self.home, &object).await?;
        }
        Ok(())
    }

    async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        apply(&self.room, object).await
    }

    async fn claim(&self, name: &str, value: &str) -> anyhow::Result<()> {
        let claim = json!({"apiVersion": FEDERATION, "kind": "ClusterClaim", "metadata": {"name": name}, "value": value});
        self.apply(&claim).await
    }

    async fn token(&self, account: &str) -> anyhow::Result<String> {
        let token = self.room.kubectl(&["create", "token", account, "--duration=2h"]).await?;
        Ok(token.trim().to_owned())
    }

    fn server(&self) -> anyhow::Result<(String, String)> {
        let config = Kubeconfig::read_from(&self.room.cluster.kubeconfig)?;
        let cluster = config.clusters.first().and_then(|named| named.cluster.clone()).context("a cluster")?;
        let authority = cluster.certificate_authority_data.context("an authority")?;
        let authority = base64::engine::general_purpose::STANDARD.decode(authority)?;
        Ok((cluster.server.context("a server")?, String::from_utf8(authority)?))
    }

    /// The cluster's kubeconfig, but for an account that may do little.
    async fn kubeconfig_of(&self, account: &str) -> anyhow::Result<PathBuf> {
        let mut config = Kubeconfig::read_from(&self.room.cluster.kubeconfig)?;
        let user = config.auth_infos.first_mut().context("a user")?;
        let token = self.token(account).await?;
        user.auth_info = Some(serde_json::from_value(json!({"token": token}))?);
        let mut text = serde_json::to_value(&config)?;
        // A token is written down as little as possible, so it is left out of what is serialised.
        text["users"][0]["user"] = json!({"token": token});
        let file = self.room.cluster.kubeconfig.with_file_name(format!("{account}.kubeconfig"));
        std::fs::write(&file, text.to_string())?;
        Ok(file)
    }

    async fn leader(&self) -> anyhow::Result<String> {
        let path = "jsonpath={.spec.holderIdentity}";
        let holder = self.room.kubectl(&["get", "lease", self.name, "-o", path]).await?;
        Ok(holder.split('_').next().unwrap_or_default().to_owned())
    }

    async fn address(&self) -> anyhow::Result<String> {
        self.room.kubectl(&["get", "service", "foo", "-o", "jsonpath={.spec.clusterIP}"]).await
    }

    /// Waits until `foo` here leads to two ready endpoints of each of these clusters, and to nobody else.
    async fn until_used(&self, clusters: &[&str]) -> anyhow::Result<()> {
        let wanted: Vec<String> = clusters.iter().map(|name| format!("{name} 2 ready")).collect();
        until(&format!("foo in {} leads to {clusters:?}", self.name), async || {
            self.room.kubectl(&["get", "service", "foo"]).await?;
            let selector = "kubernetes.io/service-name=foo";
            let text = self.room.kubectl(&["get", "endpointslices", "-l", selector, "-o", "json"]).await?;
            let slices: Value = serde_json::from_str(&text)?;
            let mut used: Vec<String> = slices["items"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|slice| slice["addressType"] == "IPv4")
                .map(|slice| {
                    let annotations = &slice["metadata"]["annotations"];
                    let from = annotations["cluster.federated.antreaplus.vmware-tanzu.com"].as_str();
                    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
                    let ready = endpoints.filter(|one| one["conditions"]["ready"] == true).count();
                    format!("{} {ready} ready", from.unwrap_or_default())
                })
                .collect();
            used.sort();
            Ok(if used == wanted { Look::Found(()) } else { Look::NotYet(format!("{used:?}")) })
        })
        .await
    }

    async fn until_gone(&self) -> anyhow::Result<()> {
        until(&format!("nothing of foo is left in {}", self.name), async || {
            let services = self.room.kubectl(&["get", "services", "-o", "name"]).await?;
            let ours = "endpointslice.kubernetes.io/managed-by=federation.koinon.dev";
            let slices = self.room.kubectl(&["get", "endpointslices", "-l", ours, "-o", "name"]).await?;
            let left = format!("{services}{slices}");
            Ok(if left.contains("foo") { Look::NotYet(left) } else { Look::Found(()) })
        })
        .await
    }
}

async fn apply(room: &Room, object: &Value) -> anyhow::Result<()> {
    let file = room.cluster.kubeconfig.with_file_name("network-object.json");
    std::fs::write(&file, object.to_string())?;
    until("the object is applied", async || {
        room.kubectl(&["apply", "-f", &file.to_string_lossy()]).await?;
        Ok(Look::Found(()))
    })
    .await
}
