//! What is lost, comes back or lies: nothing is removed because somebody is out of sight, and nobody harms another.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::stage::{GLOBAL, Stage, field, http, service, shown, slice, until_shown, until_told};
use crate::league::wire::Wire;
use crate::union::{FEDERATION, SUPERVISORS};
use crate::wait::{Look, until};
use crate::world::{Room, World};

const SOON: [&str; 4] = ["--offline-after", "4s", "--online-after", "1s"];

pub(super) async fn run(world: Arc<World>) -> anyhow::Result<()> {
    let mut stage = Stage::prepare(&world, "trouble").await?;
    let wires = wired(&stage).await?;
    for (index, name) in SUPERVISORS.iter().enumerate() {
        stage.site(name).claim("supervisor.antreaplus.tanzu-vmware.com", "true").await?;
        federate(&stage, name, &["a", "b", "c"], &wires).await?;
        stage.union.start_role(index, &SOON).await?;
    }
    federate(&stage, "c", &[], &wires).await?;
    for (cluster, name, address) in [("a", "one", "10.1.0.1"), ("b", "two", "10.2.0.1")] {
        stage
            .apply(cluster, &[service(name, &[(GLOBAL, "foo")], http()), slice(name, "http:8080", address)])
            .await?;
    }
    stage.until("c", "foo", "http:80\na IPv4 http:8080 -> 10.1.0.1\nb IPv4 http:8080 -> 10.2.0.1").await?;
    out_of_sight(&mut stage, &wires).await?;
    removed_and_back(&stage, &wires).await?;
    lies(&stage).await?;
    stage.room("a").kubectl(&["delete", "service", "one"]).await?;
    stage.room("b").kubectl(&["delete", "service", "two"]).await?;
    stage.until("c", "foo", "nothing").await?;
    stage.close().await
}

/// A member is cut off, then leaders are lost as well: what it brought stays, and what others change arrives.
async fn out_of_sight(stage: &mut Stage, wires: &BTreeMap<&str, Wire>) -> anyhow::Result<()> {
    // What is asked of it later is there before.
    stage.until("b", "foo", "http:80\nb IPv4 http:8080 -> 10.2.0.1").await?;
    wires["b"].cut();
    until_state(stage, "b", "Unreachable").await?;
    stage.apply("a", &[slice("one", "http:8080", "10.1.0.2")]).await?;
    stage.until("c", "foo", "http:80\na IPv4 http:8080 -> 10.1.0.2\nb IPv4 http:8080 -> 10.2.0.1").await?;
    // Both leaders go, and one comes back that has never seen b.
    for name in SUPERVISORS {
        let site = stage.union.sites.iter_mut().find(|site| site.name == name).context("one of the three")?;
        site.end_role().await?;
    }
    stage.apply("a", &[slice("one", "http:8080", "10.1.0.3")]).await?;
    stage.apply("b", &[slice("two", "http:8080", "10.2.0.9")]).await?;
    stage.union.start_role(0, &SOON).await?;
    stage.until("c", "foo", "http:80\na IPv4 http:8080 -> 10.1.0.3\nb IPv4 http:8080 -> 10.2.0.1").await?;
    anyhow::ensure!(stage.site("c").leader().await? == "a", "who is left leads");
    // Nobody looked after b itself, and it works on as it was.
    stage.until("b", "foo", "http:80\nb IPv4 http:8080 -> 10.2.0.1").await?;
    wires["b"].heal();
    stage.until("c", "foo", "http:80\na IPv4 http:8080 -> 10.1.0.3\nb IPv4 http:8080 -> 10.2.0.9").await?;
    stage.until("b", "foo", "http:80\nb IPv4 http:8080 -> 10.2.0.9").await?;
    stage.union.start_role(1, &SOON).await
}

/// A member leaves, changes, and comes back (N15 and N16).
async fn removed_and_back(stage: &Stage, wires: &BTreeMap<&str, Wire>) -> anyhow::Result<()> {
    stage
        .apply("c", &[service("three", &[(GLOBAL, "bar")], http()), slice("three", "http:8080", "10.3.0.1")])
        .await?;
    stage.until("a", "bar", "http:80\nc IPv4 http:8080 -> 10.3.0.1").await?;
    stage.system("c").kubectl(&["delete", "federation", "fed"]).await?;
    // What was generated there goes, while the others still have it.
    stage.until("c", "foo", "nothing").await?;
    stage.until("c", "bar", "nothing").await?;
    stage.until("a", "bar", "http:80\nc IPv4 http:8080 -> 10.3.0.1").await?;
    for name in SUPERVISORS {
        federate(stage, name, &["a", "b"], wires).await?;
    }
    stage.until("a", "bar", "nothing").await?;
    stage.until("b", "bar", "nothing").await?;
    stage.apply("c", &[slice("three", "http:8080", "10.3.0.9")]).await?;
    federate(stage, "c", &[], wires).await?;
    for name in SUPERVISORS {
        federate(stage, name, &["a", "b", "c"], wires).await?;
    }
    stage.until("a", "bar", "http:80\nc IPv4 http:8080 -> 10.3.0.9").await?;
    stage.until("c", "foo", "http:80\na IPv4 http:8080 -> 10.1.0.3\nb IPv4 http:8080 -> 10.2.0.9").await
}

/// A member says more than it should, or what is not its own to say.
async fn lies(stage: &Stage) -> anyhow::Result<()> {
    let mut objects = vec![service("huge", &[(GLOBAL, "huge")], http())];
    for thousand in 0..6 {
        let addresses: Vec<String> =
            (0..1000).map(|one| format!("10.{}.{}.{}", 60 + thousand, one / 250, one % 250 + 1)).collect();
        let mut many = slice("huge", "http:8080", &addresses.join(" "));
        many["metadata"]["name"] = json!(format!("huge-{thousand}"));
        objects.push(many);
    }
    stage.apply("c", &objects).await?;
    until_told(stage.room("c"), "huge", "TooManyEndpoints").await?;
    until("no more than 5000 endpoints of one Service arrive", async || {
        let now = shown(stage.system("a"), "huge").await?;
        let count: usize = now.lines().skip(1).map(|line| line.split_whitespace().skip(4).count()).sum();
        Ok(if count == 5000 { Look::Found(()) } else { Look::NotYet(format!("{count} are there")) })
    })
    .await?;
    // Endpoints in another namespace are nobody's of this one.
    let elsewhere = Room::bare(stage.room("c").cluster.clone(), "trouble-elsewhere").await?;
    elsewhere.apply(&slice("three", "http:8080", "10.66.0.1")).await?;
    stage.apply("c", &[slice("three", "http:8080", "10.3.0.8")]).await?;
    stage.until("a", "bar", "http:80\nc IPv4 http:8080 -> 10.3.0.8").await?;
    elsewhere.leave().await?;
    taken_slice(stage).await?;
    // Through all of it the others' Service stays what it was.
    until_shown(stage.system("a"), "foo", "http:80\na IPv4 http:8080 -> 10.1.0.3").await?;
    stage.room("c").kubectl(&["delete", "service", "huge", "three"]).await?;
    stage.until("a", "huge", "nothing").await?;
    stage.until("a", "bar", "nothing").await
}

/// Somebody has an EndpointSlice of the very name that one of ours would have: it stays theirs, and it is told.
async fn taken_slice(stage: &Stage) -> anyhow::Result<()> {
    let (here, selector) = (stage.system("a"), ["-l", "kubernetes.io/service-name=bar"]);
    let name = here.kubectl(&[&["get", "endpointslices", "-o", "name"], &selector[..]].concat()).await?;
    let name = name.trim().rsplit('/').next().context("a slice")?.to_owned();
    stage.room("c").kubectl(&["annotate", "service", "three", &format!("{GLOBAL}-")]).await?;
    stage.until("a", "bar", "nothing").await?;
    let mut foreign = slice("mine", "http:8080", "10.1.9.9");
    foreign["metadata"]["name"] = json!(name);
    until("the name is free", async || {
        let left = here.kubectl_said(&["get", "endpointslice", &name]).await?;
        Ok(if left.code == Some(0) { Look::NotYet("it is still there".into()) } else { Look::Found(()) })
    })
    .await?;
    here.apply(&foreign).await?;
    stage.room("c").kubectl(&["annotate", "service", "three", &format!("{GLOBAL}=bar")]).await?;
    until_told(here, "bar", "SliceNameTaken").await?;
    stage.until("b", "bar", "http:80\nc IPv4 http:8080 -> 10.3.0.8").await?;
    let address = field(here, &format!("endpointslice/{name}"), "{.endpoints[0].addresses[0]}").await?;
    anyhow::ensure!(address == "10.1.9.9", "somebody's EndpointSlice was changed to {address}");
    here.kubectl(&["delete", "endpointslice", &name]).await?;
    stage.until("a", "bar", "http:80\nc IPv4 http:8080 -> 10.3.0.8").await
}

/// A wire to every cluster, by which the supervisors of others reach it.
async fn wired(stage: &Stage) -> anyhow::Result<BTreeMap<&'static str, Wire>> {
    let mut wires = BTreeMap::new();
    for site in &stage.union.sites {
        let (server, _) = site.server()?;
        let address = server.strip_prefix("https://").context("a server behind TLS")?;
        wires.insert(site.name, Wire::open(address.trim_end_matches('/').parse()?).await?);
    }
    Ok(wires)
}

/// Says who takes part, in one cluster: the others by their wires.
async fn federate(
    stage: &Stage,
    name: &str,
    members: &[&str],
    wires: &BTreeMap<&str, Wire>,
) -> anyhow::Result<()> {
    let site = stage.site(name);
    let mut entries = Vec::new();
    for member in members {
        let mut entry = site.entry_for(stage.site(member)).await?;
        if *member != name {
            entry["server"] = json!(format!("https://{}", wires[member].address));
        }
        entries.push(entry);
    }
    site.claim("id.k8s.io", name).await?;
    let federation = json!({
        "apiVersion": FEDERATION, "kind": "Federation", "metadata": {"name": "fed"}, "spec": {"members": entries},
    });
    site.apply(&federation).await
}

/// Waits until the supervisor a says that of a member.
async fn until_state(stage: &Stage, member: &str, wanted: &str) -> anyhow::Result<()> {
    until(&format!("{member} is {wanted}"), async || {
        let text = stage.system("a").kubectl(&["get", "federation", "fed", "-o", "json"]).await?;
        let federation: Value = serde_json::from_str(&text)?;
        let states = federation["status"]["memberStatus"].clone();
        let found = states.as_array().into_iter().flatten().find(|one| one["clusterID"] == member);
        let is_so = found.is_some_and(|one| one["status"] == wanted);
        Ok(if is_so { Look::Found(()) } else { Look::NotYet(states.to_string()) })
    })
    .await
}
