//! CRDs that come, change and go while the syncer runs, and CRDs that it cannot use.

use serde_json::json;

use crate::world::{CRD, FILTER, SOURCE, TOYS, Toys, World, made, toy};

const TRANSLATE: &str = "koinon.dev/observed-generation";

#[tokio::test(start_paused = true)]
async fn a_crd_is_annotated_changed_unannotated_and_deleted() {
    let mut world = World::empty().await;
    world.start();
    let toys = Toys::new(json!({}));
    world.cloud.define(&toys).await;
    world.robot.define(&toys).await;
    world.cloud.create(TOYS, made("ball", json!({}), json!({}))).await;
    world.rest().await;
    assert!(world.robot.get(&toy("ball")).await.is_none());
    world.robot.patch(CRD, json!({"metadata": {"annotations": {SOURCE: "cloud"}}})).await;
    world.robot.until_there(&toy("ball")).await;
    // Now only what carries the robot's name: what is there without it is none of its business any more.
    world.robot.patch(CRD, json!({"metadata": {"annotations": {FILTER: "True"}}})).await;
    world.rest().await;
    world.cloud.delete(&toy("ball")).await;
    world.rest().await;
    assert!(world.robot.get(&toy("ball")).await.is_some());
    world.robot.patch(CRD, json!({"metadata": {"annotations": {FILTER: "false"}}})).await;
    world.robot.until_gone(&toy("ball")).await;
    world.cloud.create(TOYS, made("cube", json!({}), json!({}))).await;
    world.robot.until_there(&toy("cube")).await;
    world.robot.patch(CRD, json!({"metadata": {"annotations": {SOURCE: null}}})).await;
    world.rest().await;
    world.cloud.delete(&toy("cube")).await;
    world.rest().await;
    assert!(world.robot.get(&toy("cube")).await.is_some(), "nobody asked for its end");
    world.robot.patch(CRD, json!({"metadata": {"annotations": {SOURCE: "cloud"}}})).await;
    world.robot.until_gone(&toy("cube")).await;
    world.robot.delete(CRD).await;
    world.rest().await;
    assert!(world.handle.as_ref().unwrap().view().crds.is_empty());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn settings_that_are_not_understood_are_told_and_nothing_happens() {
    for (annotations, robot, reason) in [
        (json!({SOURCE: "moon"}), "r1", "InvalidSpecSource"),
        (json!({SOURCE: "cloud", FILTER: "maybe"}), "r1", "InvalidFilter"),
        (json!({SOURCE: "cloud", FILTER: "true"}), "", "NoRobotName"),
        (json!({SOURCE: "robot"}), "", "NoRobotName"),
    ] {
        let mut world = World::with(&Toys::new(annotations)).await;
        world.options.robot = robot.into();
        world.cloud.create(TOYS, made("above", json!({}), json!({}))).await;
        world.robot.create(TOYS, made("below", json!({}), json!({}))).await;
        world.start();
        let told = world.robot.until_told(reason).await;
        assert!(told.starts_with("toys.play.io is not synced: "), "{told}");
        world.rest().await;
        assert!(
            world.robot.get(&toy("above")).await.is_none() && world.robot.get(&toy("below")).await.is_some()
        );
        assert!(
            world.cloud.get(&toy("above")).await.is_some() && world.cloud.get(&toy("below")).await.is_none()
        );
        let view = world.handle.as_ref().unwrap().view();
        assert!(view.crds["toys.play.io"].problems.contains_key(reason), "{view:#?}");
        // Once it is put right, it works.
        let right = json!({"metadata": {"annotations": {SOURCE: "cloud", FILTER: "false"}}});
        world.robot.patch(CRD, right).await;
        world.robot.until_there(&toy("above")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_that_both_have() {
    let mut world = World::empty().await;
    world.cloud.define(&Toys { versions: vec!["v1", "v1beta1"], ..Toys::plain() }).await;
    world.robot.define(&Toys { versions: vec!["v2", "v1beta1"], ..Toys::plain() }).await;
    world.start();
    let path = "/apis/play.io/v1beta1/namespaces/default/toys";
    let mut ball = made("ball", json!({}), json!({"size": 1}));
    ball["apiVersion"] = "play.io/v1beta1".into();
    world.cloud.create(path, ball).await;
    world.robot.until_there(&format!("{path}/ball")).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_the_cloud_lacks_is_told_until_it_is_there() {
    let mut world = World::empty().await;
    world.robot.define(&Toys::plain()).await;
    world.robot.create(TOYS, made("below", json!({}), json!({}))).await;
    world.start();
    let told = world.robot.until_told("NotInCloud").await;
    assert_eq!(
        told,
        "toys.play.io is not synced: the cloud does not have toys.play.io; create the CRD there"
    );
    assert!(world.robot.get(&toy("below")).await.is_some());
    world.cloud.define(&Toys::plain()).await;
    world.robot.until_gone(&toy("below")).await;
    assert!(world.handle.as_ref().unwrap().view().crds["toys.play.io"].problems.is_empty());
    let mut world = World::empty().await;
    world.cloud.define(&Toys { versions: vec!["v1"], ..Toys::plain() }).await;
    world.robot.define(&Toys { versions: vec!["v2"], ..Toys::plain() }).await;
    world.start();
    let told = world.robot.until_told("NoCommonVersion").await;
    assert!(told.ends_with("no version is served by both: the robot has v2, the cloud has v1"), "{told}");
}

/// In the cloud the status becomes a subresource or ceases to be one, while the syncer runs.
async fn the_clouds_status_changes(before: bool) {
    let mut world = World::empty().await;
    let in_cloud = |status| Toys { status, ..Toys::plain() };
    world.cloud.define(&in_cloud(before)).await;
    world.robot.define(&Toys::plain()).await;
    world.start();
    for name in ["ball", "cube"] {
        world.cloud.create(TOYS, made(name, json!({}), json!({"size": 1}))).await;
        world.robot.until_there(&toy(name)).await;
    }
    for (round, status) in [before, !before, before].into_iter().enumerate() {
        let versions = in_cloud(status).crd()["spec"]["versions"].clone();
        world.cloud.patch(CRD, json!({"spec": {"versions": versions}})).await;
        for name in ["ball", "cube"] {
            let reported = json!({"status": {"round": round}});
            world.robot.patch(&format!("{}/status", toy(name)), reported).await;
            let up = |toy: Option<&serde_json::Value>| toy.is_some_and(|toy| toy["status"]["round"] == round);
            world.cloud.until(&toy(name), up).await;
        }
        world.rest().await;
        let view = world.handle.as_ref().unwrap().view().crds["toys.play.io"].clone();
        assert_eq!((view.running, view.pending, view.errors), (true, 0, 0), "{view:#?}");
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_clouds_status_becomes_a_subresource() {
    the_clouds_status_changes(false).await;
}

#[tokio::test(start_paused = true)]
async fn the_clouds_status_is_no_subresource_any_more() {
    the_clouds_status_changes(true).await;
}

#[tokio::test(start_paused = true)]
async fn what_the_cloud_serves_is_looked_at_again_even_if_nothing_fails() {
    let world = World::running(&Toys::new(json!({SOURCE: "cloud", TRANSLATE: "translate"}))).await;
    world.cloud.create(TOYS, made("ball", json!({}), json!({}))).await;
    world.robot.until_there(&toy("ball")).await;
    // Nothing is written any more, so nothing is refused; but what is asked for cannot be done now.
    let versions = Toys { status: false, ..Toys::plain() }.crd()["spec"]["versions"].clone();
    world.cloud.patch(CRD, json!({"spec": {"versions": versions}})).await;
    world.robot.until_told("NoStatusToTranslate").await;
    let versions = Toys::plain().crd()["spec"]["versions"].clone();
    world.cloud.patch(CRD, json!({"spec": {"versions": versions}})).await;
    world.rest().await;
    let view = world.handle.as_ref().unwrap().view().crds["toys.play.io"].clone();
    assert!(view.running && view.problems.is_empty(), "{view:#?}");
}
