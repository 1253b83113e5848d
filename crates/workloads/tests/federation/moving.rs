//! Moves between clusters: what is available never falls, and there are never too many.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{DEPLOY, Deploy, PREFERENCES, WEB, World};

async fn sampled_until(world: &World, wanted: &str, least: i64, most: i64) {
    for _ in 0..6000 {
        let layout = world.layout(WEB).await;
        if layout == wanted {
            return;
        }
        let available = world.available(WEB).await;
        assert!(available >= least, "{available} are available: {layout}");
        let asked = world.asked(WEB).await;
        assert!(asked <= most, "{asked} are asked for: {layout}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it is {} and not {wanted}", world.layout(WEB).await);
}

#[tokio::test(start_paused = true)]
async fn from_one_cluster_to_another() {
    let world = World::new(&[("a", 110), ("b", 110)]).await;
    world.create_set(40, Some(r#"{"rebalance":true,"clusters":{"a":{"weight":1}}}"#)).await;
    world.until_layout(WEB, "a=40").await;
    let there = r#"{"rebalance":true,"clusters":{"b":{"weight":1}}}"#;
    world.federation.patch(WEB, json!({"metadata": {"annotations": {PREFERENCES: there}}})).await;
    sampled_until(&world, "a=0 b=40", 40, 50).await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn to_a_cluster_that_joins_and_from_one_that_leaves() {
    let mut world = World::bare(&[("a", 110), ("b", 110), ("c", 110)]).await;
    world.start().await;
    world.join(&["a", "b"]).await;
    world.create_set(30, Some(r#"{"rebalance":true}"#)).await;
    world.until_layout(WEB, "a=15 b=15").await;
    world.join(&["a", "b", "c"]).await;
    sampled_until(&world, "a=10 b=10 c=10", 30, 38).await;
    world.join(&["b", "c"]).await;
    // Who left keeps what it has; it is only no concern of ours any more.
    world.until_layout(WEB, "a=10 b=15 c=15").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_blinks_moves_nothing() {
    let world = World::new(&[("a", 110), ("b", 110), ("c", 110)]).await;
    world.create_set(12, Some(r#"{"rebalance":true}"#)).await;
    world.until_layout(WEB, "a=4 b=4 c=4").await;
    world.create_deployment(Deploy { replicas: 12, ..Deploy::default() }).await;
    world.until_event("RolledOut: every cluster is up to date").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let before = world.writes().into_iter().filter(|write| !write.starts_with("federation")).count();
    for _ in 0..30 {
        world.members["b"].wire.cut();
        tokio::time::sleep(Duration::from_secs(12)).await;
        is_complete(&world).await;
        world.members["b"].wire.heal();
        tokio::time::sleep(Duration::from_secs(8)).await;
        is_complete(&world).await;
    }
    let writes: Vec<_> =
        world.writes().into_iter().filter(|write| !write.starts_with("federation")).collect();
    assert_eq!(writes.len(), before, "{writes:#?}");
    world.until_layout(WEB, "a=4 b=4 c=4").await;
    world.until_layout(DEPLOY, "a=4 b=4 c=4").await;
    world.rest().await;
    told_once(&world, "RolledOut").await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ends_is_no_update() {
    let world = World::new(&[("a", 110), ("b", 110)]).await;
    world.create_deployment(Deploy { replicas: 4, ..Deploy::default() }).await;
    world.until_event("RolledOut: every cluster is up to date").await;
    let pods = "/api/v1/namespaces/default/pods";
    for _ in 0..3 {
        let list = world.members["a"].get(pods).await.unwrap();
        let name = list["items"][0]["metadata"]["name"].as_str().unwrap().to_owned();
        world.members["a"].delete(&format!("{pods}/{name}"), "Background").await;
        let missing = |one: &Value| one["status"]["availableReplicas"] == 3;
        world.until(DEPLOY, "one is missing", missing).await;
        is_complete(&world).await;
        world.until(DEPLOY, "all are there", |one| one["status"]["availableReplicas"] == 4).await;
    }
    world.rest().await;
    told_once(&world, "RolledOut").await;
}

/// The last update has ended, whatever happened since.
async fn is_complete(world: &World) {
    let found = world.federation.get(DEPLOY).await.unwrap();
    let conditions = found["status"]["conditions"].as_array().unwrap();
    let progressing = conditions.iter().find(|one| one["type"] == "Progressing").unwrap();
    assert_eq!(progressing["reason"], "NewReplicaSetAvailable", "{progressing}");
}

async fn told_once(world: &World, reason: &str) {
    let list = world.federation.get("/api/v1/namespaces/default/events").await.unwrap();
    let told = list["items"].as_array().unwrap().iter().filter(|event| event["reason"] == reason);
    let counts: Vec<i64> = told.map(|event| event["count"].as_i64().unwrap_or(1)).collect();
    assert_eq!(counts, [1]);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_comes_back_keeps_what_it_runs() {
    let world = World::new(&[("a", 110), ("b", 110)]).await;
    world.create_set(20, None).await;
    world.until_layout(WEB, "a=10 b=10").await;
    world.members["b"].wire.cut();
    world.until_layout(WEB, "a=20 b=10").await;
    world.members["b"].wire.heal();
    sampled_until(&world, "a=10 b=10", 20, 30).await;
    world.until_event("ClusterBack: cluster b is back, with 10 replicas").await;
    world.rest().await;
}
