//! Members that refuse what they are sent: tried again, their replicas elsewhere meanwhile, and never shut out.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::harness::{DEPLOY, Deploy, WEB, World, placement};

const THREE: [(&str, u32); 3] = [("a", 110), ("b", 110), ("c", 110)];
const EVEN: &str = r#"{"rebalance":true}"#;

fn even() -> Value {
    json!({"federation.kubernetes.io/deployment-preferences": EVEN})
}

/// From now on a member answers writes of this kind so.
fn answer(world: &World, member: &str, kind: &'static str, code: u16) {
    let fault =
        move |method: &Method, path: &str| (method == Method::PATCH && path.contains(kind)).then_some(code);
    world.members[member].wire.refuse(fault);
}

fn condition<'a>(found: &'a Value, kind: &str) -> Option<&'a Value> {
    found["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}

fn is_failing(found: &Value) -> bool {
    condition(found, "ReplicaFailure").is_some_and(|one| one["status"] == "True")
}

fn reason<'a>(found: &'a Value, kind: &str) -> &'a str {
    condition(found, kind).and_then(|one| one["reason"].as_str()).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_was_refused_once_is_tried_again() {
    let world = World::new(&THREE).await;
    answer(&world, "c", "deployments", 403);
    world.create_deployment(Deploy { replicas: 12, ..Deploy::default() }).await;
    world.until_event("Refused: cluster c: ").await;
    world.members["c"].wire.accept();
    // Nothing else happens that would have it looked at again.
    world.until_layout(DEPLOY, "a=4 b=4 c=4").await;
    world.until(DEPLOY, "it is complete", |one| reason(one, "Progressing") == "NewReplicaSetAvailable").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_deployments_replicas_go_elsewhere_and_come_back() {
    let world = World::new(&THREE).await;
    answer(&world, "c", "deployments", 422);
    world.create_deployment(Deploy { replicas: 12, annotations: even(), ..Deploy::default() }).await;
    world.until_layout(DEPLOY, "a=6 b=6").await;
    let found = world.until(DEPLOY, "all are there", |one| one["status"]["updatedReplicas"] == 12).await;
    assert!(placement(&found)["clusters"]["c"]["why"].as_str().unwrap().contains("a simulated fault"));
    let failing = world.until(DEPLOY, "the failure shows", is_failing).await;
    let message = condition(&failing, "ReplicaFailure").unwrap()["message"].as_str().unwrap();
    assert!(message.starts_with("c: refused: a simulated fault"), "{message}");
    // Whoever has nothing holds up nobody.
    let containers = json!([{"name": "web", "image": "web:2"}]);
    world.federation.patch(DEPLOY, json!({"spec": {"template": {"spec": {"containers": containers}}}})).await;
    let updated = |one: &Value| {
        one["status"]["observedGeneration"] == one["metadata"]["generation"]
            && one["status"]["updatedReplicas"] == 12
            && reason(one, "Progressing") == "NewReplicaSetAvailable"
    };
    world.until(DEPLOY, "the others are updated", updated).await;
    world.members["c"].wire.accept();
    world.until_layout(DEPLOY, "a=4 b=4 c=4").await;
    world.until(DEPLOY, "the failure is over", |one| condition(one, "ReplicaFailure").is_none()).await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn what_nobody_else_may_have_fails_and_names_who_refuses() {
    let world = World::new(&THREE).await;
    answer(&world, "c", "deployments", 403);
    let only =
        json!({"federation.kubernetes.io/deployment-preferences": r#"{"clusters":{"c":{"weight":1}}}"#});
    world.create_deployment(Deploy { replicas: 3, annotations: only, ..Deploy::default() }).await;
    let stopped = |one: &Value| reason(one, "Progressing") == "ProgressDeadlineExceeded";
    let found = world.until(DEPLOY, "it has failed", stopped).await;
    let progressing = condition(&found, "Progressing").unwrap();
    assert_eq!(progressing["status"], "False");
    let message = progressing["message"].as_str().unwrap();
    assert!(message.starts_with("c makes no progress: refused: a simulated fault"), "{message}");
    world.members["c"].wire.accept();
    world.until_layout(DEPLOY, "c=3").await;
    world.until(DEPLOY, "it is complete", |one| reason(one, "Progressing") == "NewReplicaSetAvailable").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn without_preferences_nobody_is_shut_out() {
    let world = World::new(&THREE).await;
    for kind in ["deployments", "replicasets"] {
        answer(&world, "c", kind, 403);
        let path = if kind == "deployments" {
            world.create_deployment(Deploy { replicas: 12, ..Deploy::default() }).await;
            DEPLOY
        } else {
            world.federation.delete(DEPLOY, "Background").await;
            world.create_set(12, None).await;
            WEB
        };
        world.until_layout(path, "a=6 b=6").await;
        // It goes on for long.
        tokio::time::sleep(Duration::from_secs(600)).await;
        world.members["c"].wire.accept();
        world.until(path, "the failure is over", |one| condition(one, "ReplicaFailure").is_none()).await;
        // Nothing that runs is moved for it; what comes goes there.
        world.federation.patch(path, json!({"spec": {"replicas": 18}})).await;
        world.until_layout(path, "a=6 b=6 c=6").await;
        world.rest().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_fails_for_long_without_being_refused_is_told_and_moved_too() {
    let world = World::new(&THREE).await;
    answer(&world, "c", "deployments", 500);
    world.create_deployment(Deploy { replicas: 12, annotations: even(), ..Deploy::default() }).await;
    world.until_event("Refused: cluster c: ").await;
    world.until_layout(DEPLOY, "a=6 b=6").await;
    world.members["c"].wire.accept();
    world.until_layout(DEPLOY, "a=4 b=4 c=4").await;
    answer(&world, "b", "replicasets", 503);
    world.create_set(12, None).await;
    world.until_layout(WEB, "a=6 c=6").await;
    world.members["b"].wire.accept();
    world.until(WEB, "the failure is over", |one| condition(one, "ReplicaFailure").is_none()).await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn what_failed_for_a_moment_is_no_refusal() {
    let world = World::new(&THREE).await;
    answer(&world, "c", "deployments", 500);
    world.create_deployment(Deploy { replicas: 12, ..Deploy::default() }).await;
    world.until_layout(DEPLOY, "a=4 b=4").await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    world.members["c"].wire.accept();
    world.until_layout(DEPLOY, "a=4 b=4 c=4").await;
    let events = world.federation.events("web").await;
    assert!(!events.iter().any(|event| event.starts_with("Refused")), "{events:#?}");
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_quarrel_over_a_deployment_ends_with_it_put_right() {
    let world = World::new(&[("a", 110), ("b", 110)]).await;
    world.create_deployment(Deploy { replicas: 4, ..Deploy::default() }).await;
    world.until_layout(DEPLOY, "a=2 b=2").await;
    for _ in 0..300 {
        world.members["b"].patch(DEPLOY, json!({"spec": {"revisionHistoryLimit": 7}})).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    tokio::time::sleep(Duration::from_secs(90)).await;
    let there = world.members["b"].get(DEPLOY).await.unwrap();
    assert_eq!(there["spec"]["revisionHistoryLimit"], 10, "once the other rests, it is put right");
    world.rest().await;
}
