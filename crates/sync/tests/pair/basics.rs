//! The acceptance list of the cr-syncer, from outside.

use serde_json::json;

use crate::world::{ALL_TOYS, ROBOT, SOURCE, SUBTREE, TOYS, Toys, World, made, toy};

#[tokio::test(start_paused = true)]
async fn spec_labels_and_annotations_go_down_and_status_goes_up() {
    let world = World::running(&Toys::plain()).await;
    let metadata = json!({"labels": {"a": "1"}, "annotations": {"n": "1"}, "finalizers": ["play.io/keep"]});
    world.cloud.create(TOYS, made("ball", metadata, json!({"size": 1}))).await;
    let copy = world.robot.until_there(&toy("ball")).await;
    assert_eq!(copy["spec"], json!({"size": 1}));
    assert_eq!(copy["metadata"]["labels"], json!({"a": "1"}));
    assert_eq!(copy["metadata"]["annotations"]["n"], "1");
    assert_eq!(copy["metadata"].get("finalizers"), None, "finalizers are the original's own");
    world
        .robot
        .patch(
            &format!("{}/status", toy("ball")),
            json!({"status": {"phase": "Up", "observedGeneration": 1}}),
        )
        .await;
    let original = world
        .cloud
        .until(&toy("ball"), |ball| ball.is_some_and(|ball| ball["status"]["phase"] == "Up"))
        .await;
    assert_eq!(original.unwrap()["status"]["observedGeneration"], 1);
    world
        .cloud
        .patch(&toy("ball"), json!({"spec": {"size": 2}, "metadata": {"labels": {"a": null, "b": "2"}}}))
        .await;
    let copy = world
        .robot
        .until(&toy("ball"), |ball| ball.is_some_and(|ball| ball["spec"]["size"] == 2))
        .await
        .unwrap();
    assert_eq!(copy["metadata"]["labels"], json!({"b": "2"}));
    assert_eq!(copy["status"]["phase"], "Up", "the copy's status is its own");
    world.rest().await;
    let (down, up) = (world.robot.writes(), world.cloud.writes());
    assert_eq!((down.len(), up.len()), (2, 1), "{down:#?} {up:#?}");
}

#[tokio::test(start_paused = true)]
async fn what_others_put_on_a_copy_stays() {
    let world = World::running(&Toys::plain()).await;
    world.cloud.create(TOYS, made("ball", json!({"labels": {"a": "1"}}), json!({"size": 1}))).await;
    world.robot.until_there(&toy("ball")).await;
    let theirs = json!({"metadata": {"labels": {"theirs": "x"}, "annotations": {"theirs": "x"}, "finalizers": ["play.io/theirs"]}});
    world.robot.patch(&toy("ball"), theirs).await;
    world.cloud.patch(&toy("ball"), json!({"spec": {"size": 2}, "metadata": {"labels": {"a": null}}})).await;
    let copy = world
        .robot
        .until(&toy("ball"), |ball| ball.is_some_and(|ball| ball["spec"]["size"] == 2))
        .await
        .unwrap();
    assert_eq!(copy["metadata"]["labels"], json!({"theirs": "x"}));
    assert_eq!(copy["metadata"]["annotations"]["theirs"], "x");
    assert_eq!(copy["metadata"]["finalizers"], json!(["play.io/theirs"]));
}

#[tokio::test(start_paused = true)]
async fn cluster_scope_and_no_status_subresource() {
    let toys = Toys { namespaced: false, status: false, ..Toys::plain() };
    let world = World::running(&toys).await;
    let mut ball = made("ball", json!({}), json!({"size": 1}));
    ball["status"] = json!({"phase": "New"});
    world.cloud.create(ALL_TOYS, ball).await;
    let path = format!("{ALL_TOYS}/ball");
    let copy = world.robot.until_there(&path).await;
    assert_eq!(copy["status"], json!({"phase": "New"}), "the first status goes down");
    world.robot.patch(&path, json!({"status": {"phase": "Up"}})).await;
    let original =
        world.cloud.until(&path, |ball| ball.is_some_and(|ball| ball["status"]["phase"] == "Up")).await;
    assert_eq!(original.unwrap()["spec"], json!({"size": 1}));
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn every_namespace_and_those_that_are_missing() {
    let world = World::running(&Toys::plain()).await;
    world.cloud.create("/api/v1/namespaces", json!({"metadata": {"name": "attic"}})).await;
    let path = "/apis/play.io/v1/namespaces/attic/toys";
    for name in ["a", "b", "c"] {
        world.cloud.create(path, made(name, json!({}), json!({}))).await;
    }
    for name in ["a", "b", "c"] {
        world.robot.until_there(&format!("{path}/{name}")).await;
    }
    world.cloud.delete(&format!("{path}/a")).await;
    world.robot.until_gone(&format!("{path}/a")).await;
    assert!(world.robot.get("/api/v1/namespaces/attic").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn only_a_subtree_of_the_status_goes_up() {
    let world = World::running(&Toys::new(json!({SOURCE: "cloud", SUBTREE: "robot"}))).await;
    world.cloud.create(TOYS, made("ball", json!({}), json!({}))).await;
    let status = format!("{}/status", toy("ball"));
    world.cloud.patch(&status, json!({"status": {"cloud": {"x": 1}}})).await;
    world.robot.until_there(&toy("ball")).await;
    world.robot.patch(&status, json!({"status": {"cloud": 9, "robot": {"y": 1}}})).await;
    let both = json!({"cloud": {"x": 1}, "robot": {"y": 1}});
    world.cloud.until(&toy("ball"), |ball| ball.is_some_and(|ball| ball["status"] == both)).await;
    world.robot.patch(&status, json!({"status": {"robot": null}})).await;
    let cloud = json!({"cloud": {"x": 1}});
    world.cloud.until(&toy("ball"), |ball| ball.is_some_and(|ball| ball["status"] == cloud)).await;
}

#[tokio::test(start_paused = true)]
async fn only_what_carries_the_robots_name() {
    let world = World::running(&Toys::filtered()).await;
    let label = |name: &str| json!({"labels": {ROBOT: name}});
    world.robot.create(TOYS, made("local", json!({}), json!({"size": 9}))).await;
    world.cloud.create(TOYS, made("other", label("r2"), json!({}))).await;
    world.cloud.create(TOYS, made("none", json!({}), json!({}))).await;
    world.cloud.create(TOYS, made("own", label("r1"), json!({}))).await;
    world.robot.until_there(&toy("own")).await;
    world.rest().await;
    let names: Vec<_> =
        world.robot.items(TOYS).await.iter().map(|toy| toy["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["local", "own"]);
    // A stripped label is put back.
    world.robot.patch(&toy("own"), json!({"metadata": {"labels": {ROBOT: null}}})).await;
    world
        .robot
        .until(&toy("own"), |own| own.is_some_and(|own| own["metadata"]["labels"][ROBOT] == "r1"))
        .await;
    // A local object keeps its name.
    world.cloud.create(TOYS, made("local", label("r1"), json!({"size": 1}))).await;
    let told = world.robot.until_told("NameTaken").await;
    assert!(told.starts_with("default/local: "), "{told}");
    assert_eq!(world.robot.get(&toy("local")).await.unwrap()["spec"]["size"], 9);
    // Handed over to another robot.
    world.cloud.patch(&toy("own"), json!({"metadata": {"labels": {ROBOT: "r2"}}})).await;
    world.robot.until_gone(&toy("own")).await;
}

#[tokio::test(start_paused = true)]
async fn from_the_robot_to_the_cloud() {
    let world = World::running(&Toys::robots()).await;
    world.cloud.create(TOYS, made("taken", json!({"labels": {ROBOT: "r2"}}), json!({"size": 7}))).await;
    world.robot.create(TOYS, made("ball", json!({"labels": {"a": "1"}}), json!({"size": 1}))).await;
    world.robot.create(TOYS, made("taken", json!({}), json!({"size": 1}))).await;
    let copy = world.cloud.until_there(&toy("ball")).await;
    assert_eq!(copy["metadata"]["labels"], json!({"a": "1", ROBOT: "r1"}));
    world.cloud.patch(&format!("{}/status", toy("ball")), json!({"status": {"approved": true}})).await;
    world.robot.until(&toy("ball"), |ball| ball.is_some_and(|ball| ball["status"]["approved"] == true)).await;
    world.robot.until_told("NameTaken").await;
    assert_eq!(world.cloud.get(&toy("taken")).await.unwrap()["spec"]["size"], 7);
    world.robot.delete(&toy("ball")).await;
    world.cloud.until_gone(&toy("ball")).await;
    world.robot.delete(&toy("taken")).await;
    world.rest().await;
    assert!(world.cloud.get(&toy("taken")).await.is_some(), "it is another robot's");
}

#[tokio::test(start_paused = true)]
async fn a_translated_generation_can_be_waited_for_in_the_cloud() {
    let world =
        World::running(&Toys::new(json!({SOURCE: "cloud", "koinon.dev/observed-generation": "translate"})))
            .await;
    world.cloud.create(TOYS, made("ball", json!({}), json!({"size": 1}))).await;
    for size in 2..5 {
        world.cloud.patch(&toy("ball"), json!({"spec": {"size": size}})).await;
    }
    let copy = world
        .robot
        .until(&toy("ball"), |ball| ball.is_some_and(|ball| ball["spec"]["size"] == 4))
        .await
        .unwrap();
    let seen = copy["metadata"]["generation"].clone();
    world
        .robot
        .patch(&format!("{}/status", toy("ball")), json!({"status": {"observedGeneration": seen}}))
        .await;
    let current =
        |ball: &serde_json::Value| ball["status"]["observedGeneration"] == ball["metadata"]["generation"];
    world.cloud.until(&toy("ball"), |ball| ball.is_some_and(current)).await;
    world.cloud.patch(&toy("ball"), json!({"spec": {"size": 9}})).await;
    world.robot.until(&toy("ball"), |ball| ball.is_some_and(|ball| ball["spec"]["size"] == 9)).await;
    world.rest().await;
    let ball = world.cloud.get(&toy("ball")).await.unwrap();
    assert!(!current(&ball), "nobody observed that yet: {ball:#}");
}

#[tokio::test(start_paused = true)]
async fn what_a_server_makes_of_a_copy_is_not_fought() {
    let world = World::with(&Toys::plain()).await;
    // The robot's CRD knows no colours and has a default of its own.
    let spec = json!({"type": "object", "properties": {"size": {"type": "integer"}, "shape": {"type": "string", "default": "round"}}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}}});
    world.robot.patch(crate::world::CRD, json!({"spec": {"versions": [version]}})).await;
    let mut world = world;
    world.start();
    world.cloud.create(TOYS, made("ball", json!({}), json!({"size": 1, "colour": "red"}))).await;
    let copy = world.robot.until_there(&toy("ball")).await;
    assert_eq!(copy["spec"], json!({"size": 1, "shape": "round"}));
    world.rest().await;
    assert_eq!(world.robot.writes().len(), 1, "{:#?}", world.robot.writes());
    // What somebody changes there is still put right.
    world.robot.patch(&toy("ball"), json!({"spec": {"size": 5}})).await;
    world.robot.until(&toy("ball"), |ball| ball.is_some_and(|ball| ball["spec"]["size"] == 1)).await;
    world.rest().await;
}
