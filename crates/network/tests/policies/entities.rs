//! External entities for federated Services, beside the Services that they stand for.

use std::time::Duration;

use koinon_simulation::{Network, Trace};
use serde_json::{Value, json};

use crate::harness::{ANPS, Antrea, ENTITIES, World, anp};

const GLOBAL: &str = "svc.global.federated.antreaplus.vmware-tanzu.com";
const ALL: &str = "foo a=10.1.0.1 b=10.2.0.1 c=10.3.0.1";

/// These clusters and a supervisor beside the first that looks after Services and policies.
async fn world(names: &[&str], antrea: Antrea) -> World {
    let mut world = World::furnished(Network::new(0, &Trace::default()), names, antrea).await;
    world.services = true;
    world.start(names[0]).await;
    world
}

/// A Service in a cluster that joins the federated Service `foo`, with these addresses behind it.
async fn serve(world: &World, cluster: &str, namespace: &str, name: &str, addresses: &[&str]) {
    let service = json!({
        "metadata": {"name": name, "annotations": {GLOBAL: "foo"}},
        "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
    });
    world.at(cluster).create(&format!("/api/v1/namespaces/{namespace}/services"), service).await;
    let slice = json!({
        "metadata": {"name": format!("{name}-x"), "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4", "endpoints": endpoints(addresses),
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    });
    world.at(cluster).create(&slices(namespace), slice).await;
}

fn slices(namespace: &str) -> String {
    format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices")
}

fn endpoints(addresses: &[&str]) -> Value {
    addresses.iter().map(|address| json!({"addresses": [address]})).collect()
}

/// What a cluster has, as an ingress rule would select it: `foo a=10.1.0.1,10.1.0.2 b=10.2.0.1`.
async fn shows(world: &World, cluster: &str) -> String {
    let selector =
        "kind.antreaplus.tanzu.vmware.com%3Dfederated-service,name.antreaplus.tanzu.vmware.com%3Dfoo";
    let list = world.at(cluster).get(&format!("{ENTITIES}?labelSelector={selector}")).await.unwrap();
    let mut all: Vec<String> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entity| {
            let cluster =
                entity["metadata"]["labels"]["cluster.antreaplus.tanzu.vmware.com"].as_str().unwrap();
            let ips =
                entity["spec"]["endpoints"].as_array().unwrap().iter().map(|one| one["ip"].as_str().unwrap());
            assert_eq!(entity["spec"]["ports"], json!([{"name": "http", "protocol": "TCP", "port": 8080}]));
            format!("{cluster}={}", ips.collect::<Vec<_>>().join(","))
        })
        .collect();
    all.sort();
    format!("foo {}", all.join(" "))
}

async fn until_shows(world: &World, cluster: &str, wanted: &str) {
    for _ in 0..6000 {
        if shows(world, cluster).await == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{cluster}: {} and not {wanted}", shows(world, cluster).await);
}

#[tokio::test(start_paused = true)]
async fn without_antrea_nothing_is_asked_for_until_it_is_there() {
    let world = world(&["a", "b"], Antrea::Absent).await;
    serve(&world, "a", "prod", "web", &["10.1.0.1"]).await;
    world.rest().await;
    let writes = world.writes("a");
    assert!(
        writes.iter().any(|write| write.contains("b: POST") && write.contains("endpointslices")),
        "{writes:#?}"
    );
    assert!(!writes.iter().any(|write| write.contains("externalentities")), "{writes:#?}");
    world.at("b").install_antrea().await;
    until_shows(&world, "b", "foo a=10.1.0.1").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn every_cluster_has_an_entity_for_each_cluster_that_a_service_is_in() {
    let world = world(&["a", "b", "c", "d"], Antrea::Installed).await;
    serve(&world, "a", "prod", "web", &["10.1.0.1"]).await;
    serve(&world, "b", "prod", "web", &["10.2.0.1"]).await;
    // One that has the name of the federated Service stands in for it.
    serve(&world, "c", "antrea-plus-system", "foo", &["10.3.0.1"]).await;
    for name in ["a", "b", "c", "d"] {
        until_shows(&world, name, ALL).await;
    }
    world.rest().await;
    // One that changes is written once in each cluster, and nothing else is.
    let before = world.writes("a").len();
    let more = json!({"endpoints": endpoints(&["10.1.0.1", "10.1.0.2"])});
    world.at("a").patch(&format!("{}/web-x", slices("prod")), more).await;
    for name in ["a", "b", "c", "d"] {
        until_shows(&world, name, &ALL.replace("10.1.0.1", "10.1.0.1,10.1.0.2")).await;
    }
    world.rest().await;
    let writes = world.writes("a").split_off(before);
    let of_entities = writes.iter().filter(|write| write.contains("externalentities"));
    assert_eq!(of_entities.count(), 4, "{writes:#?}");
    // What somebody did to one is undone.
    let list = world.at("d").get(ENTITIES).await.unwrap();
    let names: Vec<&str> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["metadata"]["name"].as_str().unwrap())
        .collect();
    world.at("d").delete(&format!("{ENTITIES}/{}", names[0])).await;
    world.at("d").patch(&format!("{ENTITIES}/{}", names[1]), json!({"spec": {"endpoints": []}})).await;
    until_shows(&world, "d", &ALL.replace("10.1.0.1", "10.1.0.1,10.1.0.2")).await;
    world.at("a").delete("/api/v1/namespaces/prod/services/web").await;
    for name in ["a", "b", "c", "d"] {
        until_shows(&world, name, "foo b=10.2.0.1 c=10.3.0.1").await;
    }
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_not_known_keeps_its_entities_and_one_that_left_does_not() {
    let mut world = world(&["a", "b", "c"], Antrea::Installed).await;
    serve(&world, "a", "prod", "web", &["10.1.0.1"]).await;
    serve(&world, "b", "prod", "web", &["10.2.0.1"]).await;
    serve(&world, "c", "prod", "web", &["10.3.0.1"]).await;
    until_shows(&world, "a", ALL).await;
    until_shows(&world, "b", ALL).await;
    world.rest().await;
    world.kill("a").await;
    world.start("a").await;
    world.cut("a", "c");
    world.rest().await;
    until_shows(&world, "a", ALL).await;
    until_shows(&world, "b", ALL).await;
    world.list("a", &["a", "b"]).await;
    until_shows(&world, "a", "foo a=10.1.0.1 b=10.2.0.1").await;
    until_shows(&world, "b", "foo a=10.1.0.1 b=10.2.0.1").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_names_a_service_of_one_cluster_is_warned_of() {
    let world = world(&["a", "b"], Antrea::Installed).await;
    serve(&world, "a", "prod", "web", &["10.1.0.1"]).await;
    until_shows(&world, "b", "foo a=10.1.0.1").await;
    let mut policy = anp("shop", 1);
    policy["spec"]["egress"] = json!([{"action": "Allow", "toServices": [
        {"name": "foo", "namespace": "antrea-plus-system"}, {"name": "web", "namespace": "prod"},
    ]}]);
    world.at("b").create(ANPS, policy).await;
    let told = world.until_event("b", "prod", "shop", "FederatedPolicyLocalRule").await;
    assert!(told.contains("egress rule 1 names the Service prod/web"), "{told}");
    world.rest().await;
    let events = world.at("b").events("prod", "shop").await;
    assert_eq!(
        events.iter().filter(|event| event.starts_with("FederatedPolicyLocalRule")).count(),
        1,
        "{events:#?}"
    );
}
