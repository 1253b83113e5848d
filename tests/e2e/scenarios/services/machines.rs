//! Virtual machines (N18 to N25) as Services of their own cluster, as members of federated ones, and for ExternalDNS (N37).

use std::sync::Arc;

use koinon_api::network::virtual_machine_crd;
use serde_json::{Value, json};

use super::stage::{GLOBAL, Stage, field, http, service, until_shown, until_told};
use crate::wait::{Look, until};
use crate::world::World;

const TAG: &str = "svc.antreaplus.vmware.com";
const PORTS: &str = "ports.svc.antreaplus.vmware.com";
const CRD: &str = "crd/virtualmachines.runtime.cloud.antrea.io";
const OLD: &str = r"{.metadata.annotations.external-dns\.alpha\.kubernetes\.io/";
const NEW: &str = r"{.metadata.annotations.external-dns\.kubernetes\.io/";

pub(super) async fn run(world: Arc<World>) -> anyhow::Result<()> {
    let mut stage = Stage::prepare(&world, "machines").await?;
    stage.room("c").apply(&virtual_machine_crd()).await?;
    stage.room("c").kubectl(&["wait", "--for=condition=Established", CRD]).await?;
    stage.union.begin(&["--dns-suffix", "my-org.com"]).await?;
    first_to_last(&stage).await?;
    names(&stage).await?;
    found_from_outside(&stage).await?;
    stage.room("c").kubectl(&["delete", "virtualmachines", "--all"]).await?;
    until_shown(stage.room("c"), "web", "nothing").await?;
    stage.room("c").kubectl(&["delete", CRD]).await?;
    stage.close().await
}

/// N18, N20 to N22, N24: with the first machine the Service comes, with the last it goes.
async fn first_to_last(stage: &Stage) -> anyhow::Result<()> {
    let room = stage.room("c");
    machine(stage, "vm1", json!({TAG: "web"}), "10.7.0.1").await?;
    until_shown(room, "web", "\nc IPv4  -> 10.7.0.1").await?;
    anyhow::ensure!(
        field(room, "service/web", "{.spec.clusterIP}").await? == "None",
        "without ports it is headless"
    );
    machine(stage, "vm2", json!({TAG: "web"}), "10.7.0.2").await?;
    until_shown(room, "web", "\nc IPv4  -> 10.7.0.1 10.7.0.2").await?;
    let slices = ["get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o"];
    let path = "jsonpath={range .items[*].endpoints[*]}{.hostname}/{.targetRef.kind}/{.targetRef.name} {end}";
    let named = room.kubectl(&[&slices[..], &[path]].concat()).await?;
    let mut named: Vec<&str> = named.split_whitespace().collect();
    named.sort_unstable();
    anyhow::ensure!(named == ["vm1/VirtualMachine/vm1", "vm2/VirtualMachine/vm2"], "{named:?}");
    // One that is stopped stays, but is not ready.
    status(stage, "vm2", json!({"state": "stopped"})).await?;
    until_shown(room, "web", "\nc IPv4  -> 10.7.0.1 10.7.0.2!").await?;
    // With ports it gets an address of its own, and keeps what users wrote on it.
    room.kubectl(&["annotate", "service", "web", "example.com/mine=yes"]).await?;
    status(stage, "vm1", json!({"tags": {TAG: "web:80", PORTS: "53-udp"}})).await?;
    let ported = "p53-udp:53/UDP p80-tcp:80";
    until_shown(room, "web", &format!("{ported}\nc IPv4 {ported} -> 10.7.0.1 10.7.0.2!")).await?;
    let mine = field(room, "service/web", r"{.metadata.annotations.example\.com/mine}").await?;
    anyhow::ensure!(mine == "yes", "what a user wrote on it is gone");
    // A tag that moves takes its machine along.
    status(stage, "vm2", json!({"tags": {TAG: "db"}, "state": "running"})).await?;
    until_shown(room, "web", &format!("{ported}\nc IPv4 {ported} -> 10.7.0.1")).await?;
    until_shown(room, "db", "\nc IPv4  -> 10.7.0.2").await?;
    room.kubectl(&["delete", "virtualmachine", "vm2"]).await?;
    until_shown(room, "db", "nothing").await
}

/// N19 and N24: a name from the machine where none is given, and never one that somebody has.
async fn names(stage: &Stage) -> anyhow::Result<()> {
    let room = stage.room("c");
    machine(stage, "aws", json!({TAG: ""}), "10.7.1.1").await?;
    status(stage, "aws", json!({"cloudId": "i-0c2e1a"})).await?;
    until_shown(room, "i-0c2e1a", "\nc IPv4  -> 10.7.1.1").await?;
    machine(stage, "azure", json!({TAG: ""}), "10.7.1.2").await?;
    status(stage, "azure", json!({"cloudId": "/7a11/Machines/One"})).await?;
    until_shown(room, "vm-7a11-machines-one", "\nc IPv4  -> 10.7.1.2").await?;
    stage.apply("c", &[service("mine", &[], http())]).await?;
    let before = field(room, "service/mine", "{.metadata.resourceVersion}").await?;
    machine(stage, "thief", json!({TAG: "mine"}), "10.7.1.3").await?;
    until_told(room, "mine", "NameTaken").await?;
    let after = field(room, "service/mine", "{.metadata.resourceVersion}").await?;
    anyhow::ensure!(before == after, "somebody's Service was taken over");
    room.kubectl(&["delete", "virtualmachine", "aws", "azure", "thief"]).await?;
    until_shown(room, "i-0c2e1a", "nothing").await
}

/// N25 and N37: a Service of machines joins like any other; ExternalDNS is told where machines are, unless somebody says
/// otherwise by hand.
async fn found_from_outside(stage: &Stage) -> anyhow::Result<()> {
    status(stage, "vm1", json!({"tags": {TAG: "web:80", PORTS: null}})).await?;
    until_shown(stage.room("c"), "web", ":80\nc IPv4 :80 -> 10.7.0.1").await?;
    stage.room("c").kubectl(&["annotate", "service", "web", &format!("{GLOBAL}=shop")]).await?;
    for cluster in ["a", "b", "c"] {
        stage.until(cluster, "shop", ":80\nc IPv4 :80 -> 10.7.0.1").await?;
    }
    let here = stage.system("c");
    for prefix in [OLD, NEW] {
        until_field(stage, &format!("{prefix}hostname}}"), "shop.my-org.com").await?;
        until_field(stage, &format!("{prefix}target}}"), "10.7.0.1").await?;
    }
    // By hand, it is as it was written, and the addresses follow all the same.
    let by_hand = "external-dns.alpha.kubernetes.io/hostname=by.hand.org";
    here.kubectl(&["annotate", "--overwrite", "service", "shop", by_hand]).await?;
    status(
        stage,
        "vm1",
        json!({"networkInterfaces": [{"ips": [{"addressType": "ExternalIP", "address": "198.51.100.9"}]}]}),
    )
    .await?;
    until_field(stage, &format!("{OLD}target}}"), "198.51.100.9").await?;
    until_field(stage, &format!("{OLD}hostname}}"), "by.hand.org").await?;
    // Where there are no machines nobody looks for it.
    let elsewhere = field(stage.system("a"), "service/shop", &format!("{OLD}hostname}}")).await?;
    anyhow::ensure!(elsewhere.is_empty(), "{elsewhere}");
    // With the last machine both go.
    stage.room("c").kubectl(&["delete", "virtualmachine", "vm1"]).await?;
    until_shown(stage.room("c"), "web", "nothing").await?;
    stage.until("a", "shop", "nothing").await
}

async fn until_field(stage: &Stage, path: &str, wanted: &str) -> anyhow::Result<()> {
    until(&format!("{path} of shop is {wanted}"), async || {
        let now = field(stage.system("c"), "service/shop", path).await?;
        Ok(if now == wanted { Look::Found(()) } else { Look::NotYet(now) })
    })
    .await
}

/// Makes a machine that runs.
async fn machine(stage: &Stage, name: &str, tags: Value, address: &str) -> anyhow::Result<()> {
    let machine = json!({
        "apiVersion": "runtime.cloud.antrea.io/v1alpha1", "kind": "VirtualMachine", "metadata": {"name": name}, "spec": {},
    });
    stage.apply("c", &[machine]).await?;
    let interfaces = json!([{"ips": [{"addressType": "InternalIP", "address": address}]}]);
    status(stage, name, json!({"tags": tags, "state": "running", "networkInterfaces": interfaces})).await
}

/// What nephe would say of a machine.
async fn status(stage: &Stage, name: &str, status: Value) -> anyhow::Result<()> {
    let patch = json!({"status": status}).to_string();
    let arguments = ["patch", "virtualmachine", name, "--subresource=status", "--type=merge", "-p", &patch];
    stage.room("c").kubectl(&arguments).await.map(drop)
}
