//! What members say of how they stand, as a condition of their Services.

use serde_json::{Value, json};

use crate::harness::{FOO, GLOBAL, SYSTEM, Site, World};
use crate::wire::{Fault, How};
use crate::world::foo;

/// The condition of a member, as status and reason.
async fn standing(site: &Site, name: &str) -> String {
    let service = site.get(&format!("/api/v1/namespaces/ns/services/{name}")).await.unwrap();
    let mut conditions = service["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.find(|one| one["type"] == "koinon.dev/Federated");
    found.map_or_else(
        || "silent".into(),
        |one| format!("{} {}", one["status"].as_str().unwrap(), one["reason"].as_str().unwrap()),
    )
}

async fn until(world: &World, cluster: &str, name: &str, wanted: &str) {
    for _ in 0..600 {
        if standing(&world[cluster], name).await == wanted {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    panic!("{name} in {cluster} says {:?} and not {wanted:?}", standing(&world[cluster], name).await);
}

#[tokio::test(start_paused = true)]
async fn trouble_is_said_where_it_is_and_so_is_its_end() {
    let world = World::new(&["c1*", "c2"]).await;
    let mine =
        json!({"metadata": {"name": "foo"}, "spec": {"selector": {"app": "mine"}, "ports": [{"port": 7}]}});
    world["c2"].create(&format!("/api/v1/namespaces/{SYSTEM}/services"), mine).await;
    world["c2"].member("ns/one", "foo", "ClusterIP").await;
    world["c2"].member("ns/fine", "bar", "ClusterIP").await;
    world["c1"].member("ns/bad", "Not A Name", "ClusterIP").await;
    world["c1"].member("ns/pending", "bar", "LoadBalancer").await;
    // What others say of it is theirs.
    let other = json!({"status": {"conditions": [{
        "type": "example.com/Seen", "status": "True", "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    world["c1"].patch("/api/v1/namespaces/ns/services/pending/status", other.clone()).await;
    until(&world, "c2", "one", "False NameTaken").await;
    until(&world, "c1", "bad", "False InvalidName").await;
    until(&world, "c1", "pending", "False LoadBalancerPending").await;
    world.rest().await;
    assert_eq!(standing(&world["c2"], "fine").await, "silent");
    world["c2"].delete(FOO).await;
    until(&world, "c2", "one", "True Joined").await;
    let balancer = json!({"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.9"}]}}});
    world["c1"].patch("/api/v1/namespaces/ns/services/pending/status", balancer).await;
    until(&world, "c1", "pending", "True Joined").await;
    let leaves = json!({"metadata": {"annotations": {GLOBAL: Value::Null}}});
    world["c1"].patch("/api/v1/namespaces/ns/services/pending", leaves).await;
    until(&world, "c1", "pending", "silent").await;
    let service = world["c1"].get("/api/v1/namespaces/ns/services/pending").await.unwrap();
    assert_eq!(service["status"]["conditions"], other["status"]["conditions"]);
    world.rest().await;
    // Who leaves the federation says nothing of it any more.
    world.leave("c2").await;
    until(&world, "c2", "one", "silent").await;
}

#[tokio::test(start_paused = true)]
async fn a_conflict_with_who_is_not_known_is_not_over() {
    let mut world = World::new(&["c1", "c2", "c3*"]).await;
    world["c1"].member("ns/foo1", "foo", "ClusterIP").await;
    world["c2"].member("ns/foo2", "foo", "ClusterIP").await;
    let ports = json!({"spec": {"ports": [{"name": "http", "port": 81}]}});
    world["c2"].patch("/api/v1/namespaces/ns/services/foo2", ports).await;
    for (cluster, name) in [("c1", "foo1"), ("c2", "foo2")] {
        until(&world, cluster, name, "True Conflict").await;
    }
    world.rest().await;
    world.kill("c3").await;
    world.isolate("c1", false);
    world.start("c3").await;
    world.rest().await;
    assert_eq!(standing(&world["c2"], "foo2").await, "True Conflict");
    let before = world.log.writes().len();
    world.isolate("c1", true);
    world.rest().await;
    assert_eq!(world.log.writes()[before..], Vec::<String>::new()[..]);
    world["c1"].delete("/api/v1/namespaces/ns/services/foo1").await;
    until(&world, "c2", "foo2", "True Joined").await;
    world.until_shown("c3", &foo(), "http:81").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_whose_rules_do_not_let_it_say_so_is_not_asked_over_and_over() {
    let world = World::new(&["c1*"]).await;
    let how = How::Refused(403, "services/status is forbidden");
    world.faults.add(Fault { cluster: "c1", method: "PATCH", path: "/services/bad/status", body: "", how });
    world["c1"].member("ns/bad", "Not A Name", "ClusterIP").await;
    world.rest().await;
    assert_eq!(standing(&world["c1"], "bad").await, "silent");
    assert!(world["c1"].events("ns").await.contains(&"bad InvalidFederatedName".to_owned()));
}
