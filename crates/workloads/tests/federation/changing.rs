//! What users go back to and what they may not change: revisions from before a member came, and what a Deployment selects.

use serde_json::{Value, json};

use crate::harness::{DEPLOY, Deploy, SETS, World};
use crate::rolling::{images, set_image, shadows, undo, until_images, until_rolled_out, world};

#[tokio::test(start_paused = true)]
async fn back_to_a_revision_from_before_a_member_came() {
    let mut world = World::bare(&[("a", 110), ("b", 110)]).await;
    world.start().await;
    world.join(&["a"]).await;
    let even = json!({"federation.kubernetes.io/deployment-preferences": r#"{"rebalance":true}"#});
    world.create_deployment(Deploy { replicas: 4, annotations: even, ..Deploy::default() }).await;
    until_rolled_out(&world).await;
    set_image(&world, "web:2").await;
    until_rolled_out(&world).await;
    world.join(&["a", "b"]).await;
    world.until_layout(DEPLOY, "a=2 b=2").await;
    set_image(&world, "web:3").await;
    until_images(&world, "a=web:3 b=web:3").await;
    until_rolled_out(&world).await;
    undo(&world, "1").await;
    until_images(&world, "a=web:1 b=web:1").await;
    until_rolled_out(&world).await;
    world.rest().await;
    assert_eq!(shadows(&world).await, ["2 web:2 0/0", "3 web:3 0/0", "4 web:1 4/4"]);
}

/// The history is the Deployment's, whoever takes a part of it away: as in one cluster, what it selects is its own.
#[tokio::test(start_paused = true)]
async fn shadows_without_an_owner_are_taken_back() {
    let deploy = || Deploy { replicas: 4, ..Deploy::default() };
    let world = world(&["a", "b"], deploy()).await;
    set_image(&world, "web:2").await;
    until_rolled_out(&world).await;
    let names = async || -> Vec<String> {
        let list = world.federation.get(SETS).await.unwrap();
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|set| set["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    for name in names().await {
        let orphan = json!({"metadata": {"ownerReferences": null}});
        world.federation.patch(&format!("{SETS}/{name}"), orphan).await;
    }
    world.rest().await;
    assert_eq!(shadows(&world).await, ["1 web:1 0/0", "2 web:2 4/4"]);

    world.federation.delete(DEPLOY, "Orphan").await;
    world.rest().await;
    assert_eq!(names().await.len(), 2, "the history outlives what was deleted without it");
    world.create_deployment(deploy()).await;
    until_rolled_out(&world).await;
    world.rest().await;
    assert_eq!(shadows(&world).await, ["2 web:2 0/0", "3 web:1 4/4"]);
    world.federation.delete(DEPLOY, "Background").await;
    world.rest().await;
    assert_eq!(names().await, [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn another_selector_is_another_deployment() {
    let world = World::new(&[("a", 110), ("b", 110)]).await;
    world.create_deployment(Deploy { replicas: 4, ..Deploy::default() }).await;
    until_rolled_out(&world).await;
    let labels = json!({"app": "other"});
    let changed =
        json!({"spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}});
    let said = world.federation.send("PATCH", DEPLOY, "application/merge-patch+json", changed).await;
    assert_eq!(said.unwrap_err(), 422, "as in one cluster");
    world.federation.delete(DEPLOY, "Background").await;
    world.until(DEPLOY, "it is gone", Value::is_null).await;
    let body = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 4,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:2"}]}},
        },
    });
    world.federation.create("/apis/apps/v1/namespaces/default/deployments", body).await;
    for member in ["a", "b"] {
        let told =
            format!("Overwritten: cluster {member} had another Deployment of this name that selects other");
        world.until_event(&told).await;
    }
    until_images(&world, "a=web:2 b=web:2").await;
    until_rolled_out(&world).await;
    assert_eq!(images(&world).await, "a=web:2 b=web:2");
    world.rest().await;
    let pods = world.members["a"].get("/api/v1/namespaces/default/pods?labelSelector=app=web").await.unwrap();
    assert_eq!(
        pods["items"].as_array().unwrap().len(),
        2,
        "those that it selected before are left to themselves"
    );
}
