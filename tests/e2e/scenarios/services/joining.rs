//! Who joins what (N26 to N36): every spelling, both scopes, names that are taken or cannot be, and ports that differ.

use std::sync::Arc;

use serde_json::json;

use super::stage::{
    GLOBAL, NAMESPACED, Stage, field, http, service, slice, told, until_shown, until_standing, until_told,
};
use crate::wait::{Look, until};
use crate::world::{Room, World};

/// The domains under which annotations are read.
const DOMAINS: [&str; 5] = [
    "antreaplus.vmware-tanzu.com",
    "antreaplus.vmware.com",
    "antreaplus.tanzu-vmware.com",
    "antreaplus.tanzu.vmware.com",
    "antreaplus.vmware-tanzue.com",
];

pub(super) async fn run(world: Arc<World>) -> anyhow::Result<()> {
    let stage = Stage::open(&world, "joining").await?;
    every_spelling(&stage).await?;
    scopes(&stage).await?;
    names_that_cannot_be(&stage).await?;
    names_that_are_taken(&stage).await?;
    ports_that_differ(&stage).await?;
    stage.close().await
}

/// N26, N28 and A1: one Service for each spelling, and each joins both ways.
async fn every_spelling(stage: &Stage) -> anyhow::Result<()> {
    let keys: Vec<[String; 2]> = DOMAINS
        .iter()
        .map(|domain| [format!("svc.global.federated.{domain}"), format!("svc.federated.{domain}")])
        .collect();
    let mut objects = Vec::new();
    for (number, [global, namespaced]) in keys.iter().enumerate() {
        let name = format!("one{number}");
        let joins = [(global.as_str(), "spelled"), (namespaced.as_str(), "nearby")];
        objects.push(service(&name, &joins, http()));
        objects.push(slice(&name, "http:8080", &format!("10.1.0.{number}")));
    }
    stage.apply("a", &objects).await?;
    let lines: Vec<String> =
        (0..DOMAINS.len()).map(|number| format!("a IPv4 http:8080 -> 10.1.0.{number}")).collect();
    let wanted = format!("http:80\n{}", lines.join("\n"));
    for cluster in ["a", "b", "c"] {
        stage.until(cluster, "spelled", &wanted).await?;
        until_shown(stage.room(cluster), "nearby", &wanted).await?;
    }
    // Two spellings that differ: the first counts, and it is told.
    let [first, second] = [&keys[0][0], &keys[1][0]];
    stage.apply("a", &[service("one0", &[(second, "odd"), (first, "spelled")], http())]).await?;
    until_told(stage.room("a"), "one0", "AmbiguousAnnotation").await?;
    let names: Vec<String> = (0..DOMAINS.len()).map(|number| format!("one{number}")).collect();
    let delete: Vec<&str> =
        ["delete", "service"].into_iter().chain(names.iter().map(String::as_str)).collect();
    stage.room("a").kubectl(&delete).await?;
    for cluster in ["a", "b", "c"] {
        stage.until(cluster, "spelled", "nothing").await?;
        until_shown(stage.room(cluster), "nearby", "nothing").await?;
    }
    Ok(())
}

/// N27: namespaces are never made; a Service waits for its own, and only those of one name combine.
async fn scopes(stage: &Stage) -> anyhow::Result<()> {
    let late = "joining-late";
    let mut rooms = Vec::new();
    for (cluster, address) in [("a", "10.1.1.1"), ("b", "10.2.1.1")] {
        let room = Room::bare(stage.room(cluster).cluster.clone(), late).await?;
        for object in [service("own", &[(NAMESPACED, "shop")], http()), slice("own", "http:8080", address)] {
            room.apply(&object).await?;
        }
        rooms.push(room);
    }
    // One of the same name in another namespace has nothing to do with it.
    stage
        .apply("b", &[service("own", &[(NAMESPACED, "shop")], http()), slice("own", "http:8080", "10.2.1.2")])
        .await?;
    until_shown(stage.room("a"), "shop", "http:80\nb IPv4 http:8080 -> 10.2.1.2").await?;
    until_shown(&rooms[0], "shop", "http:80\na IPv4 http:8080 -> 10.1.1.1").await?;
    until_shown(&rooms[1], "shop", "http:80\nb IPv4 http:8080 -> 10.2.1.1").await?;
    let missing = stage.room("c").kubectl_said(&["get", "namespace", late]).await?;
    anyhow::ensure!(missing.code != Some(0), "a namespace was made");
    rooms.push(Room::bare(stage.room("c").cluster.clone(), late).await?);
    let both = "http:80\na IPv4 http:8080 -> 10.1.1.1\nb IPv4 http:8080 -> 10.2.1.1";
    until_shown(&rooms[2], "shop", both).await?;
    for room in rooms {
        room.leave().await?;
    }
    stage.room("b").kubectl(&["delete", "service", "own"]).await?;
    until_shown(stage.room("a"), "shop", "nothing").await
}

/// N26 and N32: what cannot be a name joins nothing, and what is generated never joins.
async fn names_that_cannot_be(stage: &Stage) -> anyhow::Result<()> {
    stage
        .apply(
            "b",
            &[
                service("odd", &[(GLOBAL, "../Kube-DNS")], http()),
                service("empty", &[(GLOBAL, "")], http()),
                service("good", &[(GLOBAL, "base")], http()),
                slice("good", "http:8080", "10.2.2.1"),
            ],
        )
        .await?;
    until_told(stage.room("b"), "odd", "InvalidFederatedName").await?;
    until_told(stage.room("b"), "empty", "InvalidFederatedName").await?;
    until_standing(stage.room("b"), "odd", "False InvalidName").await?;
    stage.until("c", "base", "http:80\nb IPv4 http:8080 -> 10.2.2.1").await?;
    // Somebody has the generated Service join another, which would feed itself.
    stage.system("c").kubectl(&["annotate", "service", "base", &format!("{GLOBAL}=loop")]).await?;
    stage
        .apply("b", &[service("good", &[(GLOBAL, "base")], http()), slice("good", "http:8080", "10.2.2.2")])
        .await?;
    stage.until("c", "base", "http:80\nb IPv4 http:8080 -> 10.2.2.2").await?;
    stage.until("a", "loop", "nothing").await?;
    stage.room("b").kubectl(&["delete", "service", "odd", "empty", "good"]).await?;
    stage.until("c", "base", "nothing").await
}

/// N31: what is somebody else's is not touched; a member of that very name stands in.
async fn names_that_are_taken(stage: &Stage) -> anyhow::Result<()> {
    let mine = service("till", &[], json!({"selector": {"app": "mine"}, "ports": [{"port": 7}]}));
    stage.system("c").apply(&mine).await?;
    let before = field(stage.system("c"), "service/till", "{.metadata.resourceVersion}").await?;
    stage
        .apply("c", &[service("wants", &[(GLOBAL, "till")], http()), slice("wants", "http:8080", "10.3.3.1")])
        .await?;
    until_told(stage.room("c"), "wants", "NameTaken").await?;
    until_told(stage.system("c"), "till", "NameTaken").await?;
    until_standing(stage.room("c"), "wants", "False NameTaken").await?;
    // The others have it.
    stage.until("a", "till", "http:80\nc IPv4 http:8080 -> 10.3.3.1").await?;
    stage.until("b", "till", "http:80\nc IPv4 http:8080 -> 10.3.3.1").await?;
    let after = field(stage.system("c"), "service/till", "{.metadata.resourceVersion}").await?;
    anyhow::ensure!(before == after, "somebody else's Service was touched");
    // Called like what it joins, in the very namespace: it is what is asked for already.
    stage
        .apply(
            "b",
            &[service("same", &[(NAMESPACED, "same")], http()), slice("same", "http:8080", "10.2.3.1")],
        )
        .await?;
    until_shown(stage.room("a"), "same", "http:80\nb IPv4 http:8080 -> 10.2.3.1").await?;
    until_shown(stage.room("b"), "same", "http:80\nnobody IPv4 http:8080 -> 10.2.3.1").await?;
    anyhow::ensure!(
        !told(stage.room("b")).await?.contains(&"same NameTaken".to_owned()),
        "it is no conflict"
    );
    stage.system("c").kubectl(&["delete", "service", "till"]).await?;
    stage.until("c", "till", "http:80\nc IPv4 http:8080 -> 10.3.3.1").await?;
    until_standing(stage.room("c"), "wants", "True Joined").await?;
    // Who joins nothing any more says nothing of it.
    stage.room("c").kubectl(&["annotate", "service", "wants", &format!("{GLOBAL}-")]).await?;
    until_standing(stage.room("c"), "wants", "").await?;
    stage.room("c").kubectl(&["delete", "service", "wants"]).await?;
    stage.room("b").kubectl(&["delete", "service", "same"]).await?;
    stage.until("a", "till", "nothing").await
}

/// N36 and the ports of all members: one number is one port whatever it is called, one name is one number, and who differs
/// is told.
async fn ports_that_differ(stage: &Stage) -> anyhow::Result<()> {
    let web = service("old", &[(GLOBAL, "mixed")], http());
    stage.apply("a", &[web, slice("old", "http:8080", "10.1.4.1")]).await?;
    stage.until("c", "mixed", "http:80\na IPv4 http:8080 -> 10.1.4.1").await?;
    // The age of Services counts in seconds.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let other = json!({"ports": [
        {"name": "web", "port": 80, "targetPort": 9090},
        {"name": "http", "port": 81, "targetPort": 9091},
        {"name": "dns", "port": 53, "protocol": "UDP"},
    ]});
    let mut endpoints = slice("young", "web:9090", "10.2.4.1");
    endpoints["ports"] = json!([
        {"name": "web", "port": 9090, "protocol": "TCP"}, {"name": "http", "port": 9091, "protocol": "TCP"},
        {"name": "dns", "port": 53, "protocol": "UDP"},
    ]);
    stage.apply("b", &[service("young", &[(GLOBAL, "mixed")], other), endpoints]).await?;
    let wanted = "dns:53/UDP http:80\na IPv4 http:8080 -> 10.1.4.1\nb IPv4 dns:53/UDP http:9090 -> 10.2.4.1";
    stage.until("c", "mixed", wanted).await?;
    until_told(stage.room("a"), "old", "PortConflict").await?;
    until_told(stage.room("b"), "young", "PortConflict").await?;
    until_standing(stage.room("b"), "young", "True Conflict").await?;
    let conflicts =
        field(stage.system("c"), "service/mixed", r"{.metadata.annotations.koinon\.dev/conflicts}").await?;
    anyhow::ensure!(conflicts.contains("joining/young"), "{conflicts}");
    // The oldest goes: what is left is as the other has it, and the Service is still the same.
    let address = field(stage.system("c"), "service/mixed", "{.spec.clusterIP}").await?;
    stage.room("a").kubectl(&["delete", "service", "old"]).await?;
    let left = "dns:53/UDP http:81 web:80\nb IPv4 dns:53/UDP http:9091 web:9090 -> 10.2.4.1";
    stage.until("c", "mixed", left).await?;
    until("nothing is disputed any more", async || {
        let now = field(stage.system("c"), "service/mixed", r"{.metadata.annotations.koinon\.dev/conflicts}")
            .await?;
        Ok(if now.is_empty() { Look::Found(()) } else { Look::NotYet(now) })
    })
    .await?;
    until_standing(stage.room("b"), "young", "True Joined").await?;
    let still = field(stage.system("c"), "service/mixed", "{.spec.clusterIP}").await?;
    anyhow::ensure!(address == still, "the address changed from {address} to {still}");
    stage.room("b").kubectl(&["delete", "service", "young"]).await?;
    stage.until("c", "mixed", "nothing").await
}
