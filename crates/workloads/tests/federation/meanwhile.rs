//! What changes in the middle of an update: counts, room, who is there, and for how long it is paused. An update is no reason to
//! leave any of that undone.

use std::time::Duration;

use serde_json::{Value, json};

use crate::budgets::rolling;
use crate::harness::{DEPLOY, Deploy, World, room};
use crate::rolling::{progressing, set_image, until_rolled_out, world};

const PREFERENCES: &str = "federation.kubernetes.io/deployment-preferences";

/// A template whose pods never get ready.
async fn break_it(world: &World) {
    let broken = json!({"spec": {"template": {
        "metadata": {"annotations": {"sim.koinon.dev/ready": "never"}},
        "spec": {"containers": [{"name": "web", "image": "web:broken"}]},
    }}});
    world.federation.patch(DEPLOY, broken).await;
}

async fn scale(world: &World, replicas: i64) {
    world.federation.patch(DEPLOY, json!({"spec": {"replicas": replicas}})).await;
}

#[tokio::test(start_paused = true)]
async fn room_that_goes_is_found_elsewhere() {
    for (unavailable, surge) in [(3, 0), (0, 1)] {
        let mut world = World::bare(&[("b", 110), ("c", 110)]).await;
        let nodes = koinon_cluster::kubelet::Settings { nodes: 3, pods_per_node: 5, ..room(5) };
        world.add("a", nodes).await;
        world.start().await;
        let strategy = rolling(unavailable, surge);
        world.create_deployment(Deploy { replicas: 30, strategy, ..Deploy::default() }).await;
        world.until_layout(DEPLOY, "a=10 b=10 c=10").await;
        set_image(&world, "web:2").await;
        let a = &world.members["a"];
        for node in ["node-1", "node-2"] {
            a.patch(&format!("/api/v1/nodes/{node}"), json!({"spec": {"unschedulable": true}})).await;
            let path = "/api/v1/namespaces/default/pods";
            let pods = a.get(&format!("{path}?fieldSelector=spec.nodeName={node}")).await.unwrap();
            for pod in pods["items"].as_array().unwrap() {
                a.delete(&format!("{path}/{}", pod["metadata"]["name"].as_str().unwrap()), "Background")
                    .await;
            }
        }
        until_rolled_out(&world).await;
        assert_eq!(world.available(DEPLOY).await, 30);
    }
}

#[tokio::test(start_paused = true)]
async fn who_makes_no_progress_is_scaled_to_nothing() {
    let annotations = json!({"koinon.dev/cluster-order": "c"});
    let deploy =
        Deploy { replicas: 3, deadline: 60, strategy: rolling(1, 0), annotations, ..Deploy::default() };
    let world = world(&["a", "b", "c"], deploy).await;
    break_it(&world).await;
    let failed = |one: &Value| progressing(one)["reason"] == "ProgressDeadlineExceeded";
    world.until(DEPLOY, "it has failed", failed).await;
    scale(&world, 0).await;
    world.until_layout(DEPLOY, "a=0 b=0 c=0").await;
}

#[tokio::test(start_paused = true)]
async fn where_all_make_no_progress_counts_still_change() {
    let annotations =
        json!({"koinon.dev/max-concurrent-clusters": "all", PREFERENCES: r#"{"rebalance":true}"#});
    let deploy =
        Deploy { replicas: 12, deadline: 60, strategy: rolling(4, 4), annotations, ..Deploy::default() };
    let world = world(&["a", "b", "c"], deploy).await;
    break_it(&world).await;
    let failed = |one: &Value| progressing(one)["reason"] == "ProgressDeadlineExceeded";
    world.until(DEPLOY, "it has failed", failed).await;
    for replicas in [14, 9, 8] {
        scale(&world, replicas).await;
        world.until_asked(DEPLOY, replicas).await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_offline_holds_up_no_move() {
    let weights = |a: u8, b: u8, c: u8| {
        format!(
            r#"{{"rebalance":true,"clusters":{{"a":{{"weight":{a}}},"b":{{"weight":{b}}},"c":{{"weight":{c}}}}}}}"#
        )
    };
    let annotations = json!({PREFERENCES: weights(1, 1, 1)});
    let deploy = Deploy { replicas: 9, strategy: rolling(1, 0), annotations, ..Deploy::default() };
    let world = world(&["a", "b", "c"], deploy).await;
    world.members["c"].wire.cut();
    world.until_asked(DEPLOY, 12).await;
    set_image(&world, "web:2").await;
    until_rolled_out(&world).await;
    let change = json!({"metadata": {"annotations": {PREFERENCES: weights(1, 8, 1)}}});
    world.federation.patch(DEPLOY, change).await;
    world.until_layout(DEPLOY, "a=1 b=8 c=3").await;
}

#[tokio::test(start_paused = true)]
async fn a_full_cluster_with_a_part_of_the_budget_is_updated() {
    let mut world = World::bare(&[("a", 110), ("b", 4), ("c", 110)]).await;
    world.options.unschedulable_after = Duration::from_secs(20);
    world.start().await;
    let annotations = json!({
        "koinon.dev/max-concurrent-clusters": "2", "koinon.dev/cluster-order": "b,a",
        PREFERENCES: r#"{"rebalance":true}"#,
    });
    world
        .create_deployment(Deploy { replicas: 18, strategy: rolling(2, 2), annotations, ..Deploy::default() })
        .await;
    world.until_layout(DEPLOY, "a=7 b=4/6 c=7").await;
    world.rest_for(Duration::from_secs(65)).await;
    set_image(&world, "web:2").await;
    until_rolled_out(&world).await;
    assert_eq!(world.available(DEPLOY).await, 18);
}

/// A member's controller has always not looked yet at what it was just sent: that is no failure, however long ago its update began.
#[tokio::test(start_paused = true)]
async fn what_is_sent_after_the_deadline_is_no_failure() {
    let mut world = World::bare(&[]).await;
    for name in ["a", "b"] {
        let mut slow = room(110);
        slow.ready_after = Duration::from_secs(5);
        world.add(name, slow).await;
    }
    world.start().await;
    let deploy = Deploy { replicas: 8, deadline: 12, strategy: rolling(1, 0), ..Deploy::default() };
    world.create_deployment(deploy).await;
    world.until_layout(DEPLOY, "a=4 b=4").await;
    set_image(&world, "web:2").await;
    let mut paused = 0;
    let mut rounds = 0;
    loop {
        let found = world.federation.get(DEPLOY).await.unwrap();
        assert_ne!(progressing(&found)["reason"], "ProgressDeadlineExceeded", "{found:#}");
        let done = crate::harness::updated(&found);
        if done == 1 && paused == 0 {
            paused = 1;
            world.federation.patch(DEPLOY, json!({"spec": {"paused": true}})).await;
            tokio::time::sleep(Duration::from_secs(36)).await;
            world.federation.patch(DEPLOY, json!({"spec": {"paused": false}})).await;
        } else if done == 3 && paused == 1 {
            paused = 2;
            scale(&world, 10).await;
        }
        if crate::rolling::rolled_out(&found) && paused == 2 {
            break;
        }
        rounds += 1;
        assert!(rounds < 100_000, "{found:#}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // What was said for less than a moment was said all the same.
    tokio::time::sleep(Duration::from_secs(30)).await;
    let events = world.federation.events("web").await;
    assert!(!events.iter().any(|event| event.starts_with("RolloutStopped")), "{events:#?}");
}
