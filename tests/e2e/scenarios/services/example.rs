//! The design's example: `foo1.ns1`, `foo2.ns2` and `foo3.ns3` in three clusters, and one `foo` in all of them.

use std::sync::Arc;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::stage::field;
use crate::engine::koinon;
use crate::union::{Site, Union};
use crate::wait::{Look, until};
use crate::world::{Room, World};

/// Where `fooN` is.
struct Home {
    number: usize,
    room: Room,
}

pub(super) async fn run(world: Arc<World>) -> anyhow::Result<()> {
    let mut union = Union::found(&world).await?;
    let mut homes = Vec::new();
    for (index, site) in union.sites.iter().enumerate() {
        let number = index + 1;
        let room = Room::open(site.room.cluster.clone(), &format!("ns{number}")).await?;
        homes.push(Home { number, room });
    }
    for home in &homes[..2] {
        home.serve().await?;
    }
    // At home everybody uses the member there, elsewhere all of them.
    until_used(&union.sites[0], &["a"]).await?;
    until_used(&union.sites[1], &["b"]).await?;
    until_used(&union.sites[2], &["a", "b"]).await?;
    let address = address(&union.sites[2]).await?;
    handled(&union.sites[2]).await?;
    anyhow::ensure!(self::address(&union.sites[2]).await? == address, "a change of it is no new one");
    // A child uses all of them, and knows of nobody else.
    let said = asked(&union.sites[2], [["?", "2/2"], ["?", "2/2"]]).await?;
    anyhow::ensure!(said.contains("elsewhere is not known"), "{said}");
    // A supervisor knows of all of them, though its cluster uses its own alone.
    let said = asked(&union.sites[0], [["2/2", "2/2"], ["2/2", "no"]]).await?;
    anyhow::ensure!(!said.contains("not known"), "{said}");

    // The leader of c is lost: the other follows, and what changes after that arrives.
    let leader = union.sites[2].leader().await?;
    let lost = union.sites.iter_mut().find(|site| site.name == leader).context("a supervisor leads")?;
    lost.end_role().await?;
    homes[2].serve().await?;
    until_used(&union.sites[2], &["c"]).await?;
    homes[2].room.kubectl(&["delete", "service", "foo3"]).await?;
    until_used(&union.sites[2], &["a", "b"]).await?;
    anyhow::ensure!(self::address(&union.sites[2]).await? == address, "the address of the Service stays");

    // With the last member all goes.
    for home in &homes[..2] {
        let name = format!("foo{}", home.number);
        home.room.kubectl(&["delete", "service", &name]).await?;
    }
    for site in &union.sites {
        until_gone(site).await?;
    }
    for home in homes {
        home.room.leave().await?;
    }
    union.dissolve().await
}

/// What users do to `foo` with their own hands: what is ours is put right, what is theirs stays.
async fn handled(site: &Site) -> anyhow::Result<()> {
    let room = &site.room;
    anyhow::ensure!(
        field(room, "service/foo", "{.spec.type}").await? == "ClusterIP",
        "it is an ordinary Service"
    );
    anyhow::ensure!(field(room, "service/foo", "{.spec.selector}").await?.is_empty(), "it selects nothing");
    room.kubectl(&["label", "service", "foo", "team=blue"]).await?;
    let wrong = json!({"spec": {"selector": {"app": "mine"}, "ports": [{"name": "http", "port": 81}]}});
    room.kubectl(&["patch", "service", "foo", "--type=merge", "-p", &wrong.to_string()]).await?;
    until("the ports of foo are put right", async || {
        let now = field(room, "service/foo", "{.spec.ports[*].port} {.spec.selector}").await?;
        Ok(if now == "80 " { Look::Found(()) } else { Look::NotYet(now) })
    })
    .await?;
    anyhow::ensure!(
        field(room, "service/foo", "{.metadata.labels.team}").await? == "blue",
        "a user's label stays"
    );
    // A slice that is changed or deleted is put right as well.
    let selector = ["-l", "kubernetes.io/service-name=foo"];
    room.kubectl(&[&["delete", "endpointslices"], &selector[..]].concat()).await?;
    until_used(site, &["a", "b"]).await
}

/// What `koinon status` says of it, and of one that there is not: of each member how many are ready, and how many are used here.
async fn asked(site: &Site, used: [[&str; 2]; 2]) -> anyhow::Result<String> {
    let status = async |name: &str| {
        let mut command = tokio::process::Command::new(koinon());
        command
            .args(["status", &format!("service/{name}"), "--kubeconfig"])
            .arg(&site.room.cluster.kubeconfig);
        command.kill_on_drop(true).output().await
    };
    let said = String::from_utf8(status("foo").await?.stdout)?;
    anyhow::ensure!(said.contains("http 80/TCP"), "{said}");
    for (cluster, member, [ready, used]) in [("a", "ns1/foo1", used[0]), ("b", "ns2/foo2", used[1])] {
        let row = [cluster, "Service", member, ready, used];
        let has_row = said.lines().any(|line| line.split_whitespace().eq(row));
        anyhow::ensure!(has_row, "{row:?} is missing in: {said}");
    }
    let missed = status("bar").await?;
    let told = String::from_utf8(missed.stderr)?;
    anyhow::ensure!(missed.status.code() == Some(1), "{told}");
    anyhow::ensure!(told.contains("svc.global.federated"), "it says how a Service comes about: {told}");
    Ok(said)
}

impl Home {
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
            self.room.apply(&object).await?;
        }
        Ok(())
    }
}

async fn address(site: &Site) -> anyhow::Result<String> {
    site.room.kubectl(&["get", "service", "foo", "-o", "jsonpath={.spec.clusterIP}"]).await
}

/// Waits until `foo` here leads to two ready endpoints of each of these clusters, and to nobody else.
async fn until_used(site: &Site, clusters: &[&str]) -> anyhow::Result<()> {
    let wanted: Vec<String> = clusters.iter().map(|name| format!("{name} 2 ready")).collect();
    until(&format!("foo in {} leads to {clusters:?}", site.name), async || {
        site.room.kubectl(&["get", "service", "foo"]).await?;
        let selector = "kubernetes.io/service-name=foo";
        let text = site.room.kubectl(&["get", "endpointslices", "-l", selector, "-o", "json"]).await?;
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

async fn until_gone(site: &Site) -> anyhow::Result<()> {
    until(&format!("nothing of foo is left in {}", site.name), async || {
        let services = site.room.kubectl(&["get", "services", "-o", "name"]).await?;
        let ours = "endpointslice.kubernetes.io/managed-by=federation.koinon.dev";
        let slices = site.room.kubectl(&["get", "endpointslices", "-l", ours, "-o", "name"]).await?;
        let left = format!("{services}{slices}");
        Ok(if left.contains("foo") { Look::NotYet(left) } else { Look::Found(()) })
    })
    .await
}
