//! The layouts of the design: who gets how many, with real room and clusters that are really offline.

use koinon_api::preferences::Preferences;
use koinon_workloads::planner::{Candidate, Workload, plan};
use serde_json::json;

use crate::harness::{PREFERENCES, WEB, World, placement};

const EVEN: &str = r#"{"rebalance":true,"clusters":{"*":{"weight":1}}}"#;
const KEEP: &str = r#"{"clusters":{"*":{"weight":1}}}"#;

/// What the planner says of clusters with room for everything.
fn predicted(replicas: i64, preferences: &str, clusters: &[&str]) -> String {
    let preferences = Preferences::parse(preferences).unwrap();
    let workload = Workload { key: "default/web", replicas, preferences: &preferences };
    let candidates = clusters.iter().map(|name| ((*name).to_owned(), Candidate::default())).collect();
    let plan = plan(&workload, &candidates);
    plan.clusters
        .iter()
        .map(|(name, share)| format!("{name}={}", share.replicas))
        .collect::<Vec<_>>()
        .join(" ")
}

#[tokio::test(start_paused = true)]
async fn evenly_around_a_full_cluster_and_without_those_that_are_offline() {
    let world = World::new(&[("a", 110), ("b", 110), ("c", 6)]).await;
    world.create_set(50, Some(EVEN)).await;
    world.until_layout(WEB, "a=22 b=22 c=6/8").await;
    let web = world.until(WEB, "the status adds up", |web| web["status"]["availableReplicas"] == 50).await;
    assert_eq!(web["status"]["replicas"], 50);
    assert_eq!(web["status"]["readyReplicas"], 50);
    assert_eq!(web["status"]["fullyLabeledReplicas"], 50);
    assert_eq!(web["status"]["observedGeneration"], web["metadata"]["generation"]);
    let placed = placement(&web);
    assert_eq!(placed["clusters"]["c"]["desired"], 6);
    assert_eq!(placed["clusters"]["c"]["unschedulable"], 2);
    assert!(placed["clusters"]["c"]["why"].as_str().unwrap().contains("it has room for 6"), "{placed}");
    world.rest().await;
    let events = world.federation.events("web").await;
    assert!(events.iter().any(|event| event.starts_with("Moved: a=22 b=22 c=6 (c: ")), "{events:#?}");

    world.members["b"].wire.cut();
    world.members["c"].wire.cut();
    world.until_layout(WEB, "a=50 b=22 c=6/8").await;
    world.until_event("ClusterOffline: cluster b is offline: its ").await;
    let web = world.until(WEB, "only a is counted", |web| web["status"]["availableReplicas"] == 50).await;
    assert_eq!(placement(&web)["clusters"]["b"]["state"], "Offline");
    assert_eq!(placement(&web)["clusters"]["b"]["replicas"], 22, "what was known last");
    world.members["b"].wire.heal();
    world.members["c"].wire.heal();
    world.until_layout(WEB, "a=22 b=22 c=6/8").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn what_the_planner_says_is_what_happens() {
    let world = World::new(&[("a", 110), ("b", 110), ("c", 110)]).await;
    world.create_set(50, Some(EVEN)).await;
    for preferences in [
        EVEN,
        r#"{"rebalance":true,"clusters":{"*":{"maxReplicas":2,"weight":1}}}"#,
        r#"{"rebalance":true,"clusters":{"*":{"minReplicas":2}}}"#,
        r#"{"rebalance":true,"clusters":{"*":{"minReplicas":2,"maxReplicas":2}}}"#,
        r#"{"rebalance":true,"clusters":{"*":{"minReplicas":20}}}"#,
        r#"{"rebalance":true,"clusters":{"*":{"weight":1},"c":{"maxReplicas":20,"weight":1}}}"#,
        r#"{"rebalance":true,"clusters":{"a":{"weight":2},"b":{"weight":1},"c":{"weight":1}}}"#,
    ] {
        world.federation.patch(WEB, json!({"metadata": {"annotations": {PREFERENCES: preferences}}})).await;
        world.until_layout(WEB, &predicted(50, preferences, &["a", "b", "c"])).await;
    }
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_favourite_spills_over_and_what_runs_stays() {
    let world = World::new(&[("a", 40), ("b", 110), ("c", 110)]).await;
    let favourite = r#"{"clusters":{"a":{"weight":1000000},"b":{"weight":1},"c":{"weight":1}}}"#;
    world.create_set(50, Some(favourite)).await;
    world.until_layout(WEB, "a=40 b=5 c=5").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn what_runs_already_is_not_moved() {
    let world = World::new(&[("a", 110), ("b", 110), ("c", 6)]).await;
    world.create_set(20, Some(r#"{"clusters":{"a":{"weight":1}}}"#)).await;
    world.until_layout(WEB, "a=20").await;
    let change = json!({"metadata": {"annotations": {PREFERENCES: KEEP}}, "spec": {"replicas": 50}});
    world.federation.patch(WEB, change).await;
    world.until_layout(WEB, "a=20 b=15 c=6/15").await;
    // By their hashes b comes before a, and shares are rounded up.
    world.until_layout(WEB, "a=21 b=23 c=6").await;
    world.rest().await;
}
