//! The Multi-Cluster Services API: what its conformance suite asks for where no packets are needed.

use koinon_api::mcs::crds;
use koinon_control::Key;
use koinon_network::services::mcs::derived_key;
use serde_json::{Value, json};

use crate::harness::World;

const EXPORTS: &str = "/apis/multicluster.x-k8s.io/v1beta1/namespaces/demo/serviceexports";
const IMPORT: &str = "/apis/multicluster.x-k8s.io/v1beta1/namespaces/demo/serviceimports/hello";
const SERVICES: &str = "/api/v1/namespaces/demo/services";

async fn world() -> World {
    let world = World::new(&["c1*", "c2", "c3"]).await;
    for site in world.sites.values() {
        for crd in crds() {
            site.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).await;
        }
        site.namespace("demo").await;
    }
    world
}

fn hello() -> Value {
    json!({
        "selector": {"app": "hello"}, "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10}}, "trafficDistribution": "PreferClose",
        "ports": [{"name": "tcp", "port": 42, "protocol": "TCP"}, {"name": "udp", "port": 42, "protocol": "UDP"}],
    })
}

async fn export(world: &World, cluster: &str, spec: Value) {
    world[cluster].create(SERVICES, json!({"metadata": {"name": "hello"}, "spec": spec})).await;
    let export = json!({"apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport", "metadata": {"name": "hello"}});
    world[cluster].create(EXPORTS, export).await;
    // Two that come in the same second are told apart by name; here their age should decide.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
}

async fn import(world: &World, cluster: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    until(world, cluster, IMPORT, what, holds).await
}

async fn until(
    world: &World,
    cluster: &str,
    path: &str,
    what: &str,
    holds: impl Fn(&Value) -> bool,
) -> Value {
    for _ in 0..3000 {
        let found = world[cluster].get(path).await.unwrap_or(Value::Null);
        if holds(&found) {
            return found;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    panic!("not so in {cluster}: {what}; {:#}", world[cluster].get(path).await.unwrap_or(Value::Null));
}

/// The condition of an export, as status and reason.
async fn until_condition(world: &World, cluster: &str, kind: &str, wanted: &str) {
    until(world, cluster, &format!("{EXPORTS}/hello"), wanted, |export| {
        let conditions = export["status"]["conditions"].as_array().into_iter().flatten();
        let found = conditions.filter(|one| one["type"] == kind);
        found
            .map(|one| format!("{} {}", one["status"].as_str().unwrap(), one["reason"].as_str().unwrap()))
            .any(|one| one == wanted)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_exported_service_is_imported_everywhere_as_it_is() {
    let world = world().await;
    export(&world, "c2", hello()).await;
    world["c2"].endpoints("demo/hello", "10.2.0.1").await;
    world["c2"]
        .patch(
            "/apis/discovery.k8s.io/v1/namespaces/demo/endpointslices/hello-x",
            json!({"ports": [{"name": "tcp", "port": 4242, "protocol": "TCP"}]}),
        )
        .await;
    for cluster in ["c1", "c2", "c3"] {
        let import = import(&world, cluster, "an import with an address", |one| {
            one["spec"]["ips"].as_array().is_some_and(|ips| !ips.is_empty())
                && one["status"]["clusters"][0]["cluster"] == "c2"
        })
        .await;
        let spec = &import["spec"];
        assert_eq!(spec["type"], "ClusterSetIP");
        assert_eq!(spec["ips"].as_array().unwrap().len(), spec["ipFamilies"].as_array().unwrap().len());
        assert_eq!(
            (&spec["sessionAffinity"], &spec["trafficDistribution"]),
            (&json!("ClientIP"), &json!("PreferClose"))
        );
        assert_eq!(spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"], 10);
        assert_eq!(spec["internalTrafficPolicy"], "Cluster");
        assert_eq!(spec["ports"].as_array().unwrap().len(), 2, "{spec:#}");
        let slices = "/apis/discovery.k8s.io/v1/namespaces/demo/endpointslices\
            ?labelSelector=multicluster.kubernetes.io/service-name=hello,multicluster.kubernetes.io/source-cluster=c2";
        until(&world, cluster, slices, "its endpoints", |list| {
            list["items"][0]["endpoints"][0]["addresses"][0] == "10.2.0.1"
        })
        .await;
    }
    until_condition(&world, "c2", "Valid", "True Valid").await;
    until_condition(&world, "c2", "Ready", "True Exported").await;
    until_condition(&world, "c2", "Conflict", "False NoConflicts").await;
    world.rest().await;
    world["c2"].delete(&format!("{EXPORTS}/hello")).await;
    for cluster in ["c1", "c2", "c3"] {
        import(&world, cluster, "no import", Value::is_null).await;
        let path = format!("{SERVICES}?labelSelector=app.kubernetes.io/managed-by=koinon");
        until(&world, cluster, &path, "nothing behind it", |list| {
            list["items"].as_array().is_some_and(Vec::is_empty)
        })
        .await;
    }
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn exports_that_differ_are_merged_by_age_and_told() {
    let world = world().await;
    export(&world, "c1", hello()).await;
    let mut other = hello();
    other["ports"] = json!([{"name": "tcp", "port": 43, "protocol": "TCP"}, {"name": "more", "port": 44, "protocol": "TCP"}]);
    export(&world, "c2", other).await;
    let import = import(&world, "c3", "all ports", |one| {
        one["spec"]["ports"].as_array().is_some_and(|ports| ports.len() == 3)
    })
    .await;
    let ports: Vec<String> = import["spec"]["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| format!("{}:{}", port["name"].as_str().unwrap(), port["port"]))
        .collect();
    assert_eq!(ports, ["tcp:42", "udp:42", "more:44"]);
    for cluster in ["c1", "c2"] {
        until_condition(&world, cluster, "Conflict", "True PortConflict").await;
    }
    // While one still exports, it stays.
    world["c1"].delete(&format!("{EXPORTS}/hello")).await;
    self::import(&world, "c3", "ports of who is left", |one| one["spec"]["ports"][0]["port"] == 43).await;
    until_condition(&world, "c2", "Conflict", "False NoConflicts").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn headless_and_external_services_are_told_apart() {
    let world = world().await;
    let headless =
        json!({"clusterIP": "None", "selector": {"app": "hello"}, "ports": [{"name": "tcp", "port": 42}]});
    export(&world, "c2", headless).await;
    let found = import(&world, "c3", "a headless import", |one| one["spec"]["type"] == "Headless").await;
    assert_eq!(found["spec"]["ips"], Value::Null);
    export(&world, "c1", hello()).await;
    for cluster in ["c1", "c2"] {
        until_condition(&world, cluster, "Conflict", "True TypeConflict").await;
    }
    assert_eq!(world["c3"].get(IMPORT).await.unwrap()["spec"]["type"], "Headless", "the oldest decides");
    world["c2"].delete(&format!("{EXPORTS}/hello")).await;
    import(&world, "c3", "an import with an address", |one| one["spec"]["ips"].is_array()).await;
    world["c1"].delete(&format!("{EXPORTS}/hello")).await;
    world["c1"].delete(&format!("{SERVICES}/hello")).await;
    import(&world, "c3", "no import", Value::is_null).await;
    export(&world, "c1", json!({"type": "ExternalName", "externalName": "example.com"})).await;
    until_condition(&world, "c1", "Valid", "False InvalidServiceType").await;
    world["c1"].delete(&format!("{SERVICES}/hello")).await;
    until_condition(&world, "c1", "Valid", "False NoService").await;
    assert!(world["c3"].get(IMPORT).await.is_none());
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_strangers_service_in_the_way_of_an_import_is_told_and_everything_else_goes_on() {
    let world = world().await;
    let behind = derived_key(&Key::new("demo", "hello")).name;
    let mine = json!({"metadata": {"name": behind}, "spec": {"ports": [{"port": 1}]}});
    world["c3"].create(SERVICES, mine).await;
    export(&world, "c2", hello()).await;
    for (cluster, wanted) in [("c1", "True Ready"), ("c2", "True Ready"), ("c3", "False NameTaken")] {
        import(&world, cluster, wanted, |one| {
            let said = &one["status"]["conditions"][0];
            format!("{} {}", said["status"].as_str().unwrap_or(""), said["reason"].as_str().unwrap_or(""))
                == wanted
        })
        .await;
    }
    let events = world["c3"].events("demo").await;
    assert_eq!(events.iter().filter(|one| *one == "hello NameTaken").count(), 1, "{events:?}");
    let path = format!("{SERVICES}/{behind}");
    assert_eq!(world["c3"].get(&path).await.unwrap()["spec"]["ports"][0]["port"], 1, "it is not touched");
    world["c3"].delete(&path).await;
    import(&world, "c3", "an address", |one| one["spec"]["ips"].is_array()).await;
    world.rest().await;
    // One of ours that a tool calls its own is found again by what the server saw us write.
    let before = world["c3"].get(&path).await.unwrap();
    world["c3"]
        .patch(&path, json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "argocd"}}}))
        .await;
    until(&world, "c3", &path, "our label", |one| {
        one["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "koinon"
    })
    .await;
    let after = world["c3"].get(&path).await.unwrap();
    assert_eq!(
        (&after["metadata"]["uid"], &after["spec"]["clusterIP"]),
        (&before["metadata"]["uid"], &before["spec"]["clusterIP"])
    );
    import(&world, "c3", "ready again", |one| one["status"]["conditions"][0]["status"] == "True").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_exported_no_more_is_taken_back_from_imports() {
    let world = world().await;
    export(&world, "c2", hello()).await;
    let path = format!("{EXPORTS}/hello");
    let spec = json!({"exportedLabels": {"tier": "gold"}, "exportedAnnotations": {"example.com/note": "x"}});
    world["c2"].patch(&path, json!({"spec": spec})).await;
    import(&world, "c3", "what is exported", |one| {
        one["metadata"]["labels"]["tier"] == "gold"
            && one["metadata"]["annotations"]["example.com/note"] == "x"
    })
    .await;
    world["c3"].patch(IMPORT, json!({"metadata": {"labels": {"mine": "stays"}}})).await;
    let spec = json!({"exportedLabels": {"tier": null}, "exportedAnnotations": {"example.com/note": null}});
    world["c2"].patch(&path, json!({"spec": spec})).await;
    let import = import(&world, "c3", "nothing of it", |one| {
        one["metadata"]["labels"].get("tier").is_none()
            && one["metadata"]["annotations"].get("example.com/note").is_none()
    })
    .await;
    assert_eq!(import["metadata"]["labels"]["mine"], "stays");
    world.rest().await;
}
