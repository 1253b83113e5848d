//! Pauses: what never ran does not start, and what was only thought of meanwhile is no revision.

use serde_json::{Value, json};

use crate::harness::{DEPLOY, Deploy, World};
use crate::rolling::{images, progressing, set_image, shadows, undo, until_images, until_rolled_out, world};

async fn pause(world: &World, paused: bool) {
    world.federation.patch(DEPLOY, json!({"spec": {"paused": paused}})).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_made_paused_does_not_start() {
    let world = World::new(&[("a", 110), ("b", 110)]).await;
    world.create_deployment(Deploy { replicas: 4, paused: true, ..Deploy::default() }).await;
    world.rest().await;
    assert_eq!(world.layout(DEPLOY).await, "", "as in one cluster");
    assert_eq!(shadows(&world).await, [""; 0]);
    let deployment = world.federation.get(DEPLOY).await.unwrap();
    assert_eq!(progressing(&deployment)["reason"], "DeploymentPaused");
    pause(&world, false).await;
    until_rolled_out(&world).await;
    assert_eq!(world.layout(DEPLOY).await, "a=2 b=2");
    world.rest().await;
    assert_eq!(shadows(&world).await, ["1 web:1 4/4"]);
}

#[tokio::test(start_paused = true)]
async fn only_what_ran_is_a_revision() {
    let world = world(&["a", "b"], Deploy { replicas: 4, ..Deploy::default() }).await;
    set_image(&world, "web:2").await;
    until_rolled_out(&world).await;
    pause(&world, true).await;
    for image in ["web:3", "web:4"] {
        set_image(&world, image).await;
        world.rest().await;
    }
    assert_eq!(shadows(&world).await, ["1 web:1 0/0", "2 web:2 4/4"]);
    pause(&world, false).await;
    until_rolled_out(&world).await;
    until_images(&world, "a=web:4 b=web:4").await;
    assert_eq!(shadows(&world).await.len(), 3, "{:?}", shadows(&world).await);
    undo(&world, "2").await;
    until_images(&world, "a=web:2 b=web:2").await;
    until_rolled_out(&world).await;
    world.rest().await;
    assert_eq!(shadows(&world).await, ["1 web:1 0/0", "3 web:4 0/0", "4 web:2 4/4"]);
}

#[tokio::test(start_paused = true)]
async fn who_joins_meanwhile_gets_what_the_others_run() {
    let mut world = World::bare(&[("a", 110), ("b", 110)]).await;
    world.start().await;
    world.join(&["a"]).await;
    let even = json!({"federation.kubernetes.io/deployment-preferences": r#"{"rebalance":true}"#});
    world.create_deployment(Deploy { replicas: 4, annotations: even, ..Deploy::default() }).await;
    until_rolled_out(&world).await;
    pause(&world, true).await;
    set_image(&world, "web:2").await;
    world.rest().await;
    world.join(&["a", "b"]).await;
    world.until_layout(DEPLOY, "a=2 b=2").await;
    assert_eq!(images(&world).await, "a=web:1 b=web:1");
    pause(&world, false).await;
    until_images(&world, "a=web:2 b=web:2").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn an_update_that_was_stopped_can_be_paused() {
    let world = world(&["a", "b"], Deploy { replicas: 4, deadline: 60, ..Deploy::default() }).await;
    let broken = json!({"spec": {"template": {
        "metadata": {"annotations": {"sim.koinon.dev/ready": "never"}},
        "spec": {"containers": [{"name": "web", "image": "web:broken"}]},
    }}});
    world.federation.patch(DEPLOY, broken).await;
    let failed = |one: &Value| progressing(one)["reason"] == "ProgressDeadlineExceeded";
    world.until(DEPLOY, "it has failed", failed).await;
    pause(&world, true).await;
    world.rest().await;
    let there = world.members["a"].get(DEPLOY).await.unwrap();
    assert_eq!(there["spec"]["paused"], true);
    let found = world.federation.get(DEPLOY).await.unwrap();
    assert_eq!(progressing(&found)["reason"], "ProgressDeadlineExceeded", "as in one cluster");
    pause(&world, false).await;
    world.rest().await;
    let there = world.members["a"].get(DEPLOY).await.unwrap();
    assert_eq!(there["spec"]["paused"], Value::Null);
}
