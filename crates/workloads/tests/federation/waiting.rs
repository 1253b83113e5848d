//! Workloads whose replicas wait for a cluster that does not answer, because their user says so.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{DEPLOY, Deploy, SETS, WEB, World, placement, set};

const MINUTE: Duration = Duration::from_secs(60);
const THREE: [(&str, u32); 3] = [("a", 110), ("b", 110), ("c", 110)];

fn deploy(replicas: i64, failover: &str) -> Deploy<'static> {
    Deploy { replicas, annotations: json!({"koinon.dev/failover": failover}), ..Deploy::default() }
}

/// The member that runs the only replica.
async fn home(world: &World, path: &str) -> String {
    let layout = world.layout(path).await;
    layout.split('=').next().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_singleton_waits_for_its_cluster() {
    let mut world = World::new(&THREE).await;
    world.create_deployment(deploy(1, "never")).await;
    let mut one = set("web", 1, None);
    one["metadata"]["annotations"]["koinon.dev/failover"] = "never".into();
    world.federation.create(SETS, one).await;
    for path in [DEPLOY, WEB] {
        world.until(path, "it runs", |one| one["status"]["availableReplicas"] == 1).await;
    }
    let homes = [home(&world, DEPLOY).await, home(&world, WEB).await];
    let before = [world.layout(DEPLOY).await, world.layout(WEB).await];
    for name in homes.iter().collect::<std::collections::BTreeSet<_>>() {
        world.members[name].wire.cut();
    }
    for (path, home) in [DEPLOY, WEB].into_iter().zip(&homes) {
        let waits = |one: &Value| {
            let there = &placement(one)["clusters"][home];
            there["state"] == "Offline" && there["desired"] == 1
        };
        let there = world.until(path, "its replica waits for it", waits).await;
        let why = placement(&there)["clusters"][home]["why"].as_str().unwrap().to_owned();
        assert!(why.starts_with("its replicas wait for it (koinon.dev/failover); it is offline"), "{why}");
    }
    let told = format!("ClusterOffline: cluster {} is offline: its 1 replicas wait for it", homes[0]);
    world.until_event(&told).await;
    world.rest().await;
    // Whoever comes next knows as much.
    world.kill().await;
    world.start().await;
    tokio::time::sleep(20 * MINUTE).await;
    assert_eq!([world.layout(DEPLOY).await, world.layout(WEB).await], before, "it runs once");
    for name in &homes {
        world.members[name].wire.heal();
    }
    for path in [DEPLOY, WEB] {
        world.until(path, "it is counted again", |one| one["status"]["availableReplicas"] == 1).await;
    }
    world.rest().await;
    assert_eq!([world.layout(DEPLOY).await, world.layout(WEB).await], before);
}

#[tokio::test(start_paused = true)]
async fn others_are_updated_and_scaled_while_replicas_wait() {
    let world = World::new(&THREE).await;
    world.create_deployment(deploy(6, "never")).await;
    world.until_layout(DEPLOY, "a=2 b=2 c=2").await;
    world.rest().await;
    world.members["c"].wire.cut();
    let offline = |one: &Value| placement(one)["clusters"]["c"]["state"] == "Offline";
    world.until(DEPLOY, "it is offline", offline).await;
    let containers = json!([{"name": "web", "image": "web:2"}]);
    let change = json!({"spec": {"replicas": 10, "template": {"spec": {"containers": containers}}}});
    world.federation.patch(DEPLOY, change).await;
    world.until_layout(DEPLOY, "a=4 b=4 c=2").await;
    let updated = |one: &Value| one["status"]["updatedReplicas"] == 8;
    world.until(DEPLOY, "the others are updated", updated).await;
    world.rest().await;
    world.members["c"].wire.heal();
    world.until(DEPLOY, "it is, too", |one| one["status"]["updatedReplicas"] == 10).await;
    world.until_layout(DEPLOY, "a=4 b=4 c=2").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn replicas_wait_for_as_long_as_is_said() {
    let world = World::new(&THREE).await;
    world.create_deployment(deploy(1, "after=10m")).await;
    world.until(DEPLOY, "it runs", |one| one["status"]["availableReplicas"] == 1).await;
    let home = home(&world, DEPLOY).await;
    let before = world.layout(DEPLOY).await;
    world.members[&home].wire.cut();
    tokio::time::sleep(9 * MINUTE + MINUTE / 2).await;
    assert_eq!(world.layout(DEPLOY).await, before);
    tokio::time::sleep(MINUTE).await;
    assert_eq!(world.available(DEPLOY).await, 2, "it goes elsewhere: {}", world.layout(DEPLOY).await);
    world.until_event("Moved: ").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_told_and_runs_nothing_twice() {
    let world = World::new(&THREE).await;
    world.create_deployment(deploy(1, "sometimes")).await;
    let told =
        world.until_event("RolloutMalformed: the annotation koinon.dev/failover cannot be used: ").await;
    assert!(told.contains("after=10m"), "{told}");
    world.until(DEPLOY, "it runs", |one| one["status"]["availableReplicas"] == 1).await;
    let before = world.layout(DEPLOY).await;
    world.members[&home(&world, DEPLOY).await].wire.cut();
    world.rest().await;
    assert_eq!(world.layout(DEPLOY).await, before);
}
