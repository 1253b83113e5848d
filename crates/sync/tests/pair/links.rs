//! Links that fail, and clusters that share a name.

use std::time::Duration;

use serde_json::json;

use crate::weather::Sky;
use crate::world::{Cluster, TOYS, Toys, World, made, toy};

/// Edits on both sides during the weather; both arrive afterwards, without a restart.
async fn passes(cloud: Sky, robot: Sky) {
    let world = World::running(&Toys::plain()).await;
    world.cloud.create(TOYS, made("ball", json!({}), json!({"size": 1}))).await;
    world.cloud.create(TOYS, made("cube", json!({}), json!({"size": 1}))).await;
    world.robot.until_there(&toy("ball")).await;
    world.robot.until_there(&toy("cube")).await;
    world.cloud.weather.turn(cloud);
    world.robot.weather.turn(robot);
    tokio::time::sleep(Duration::from_secs(10)).await;
    world.cloud.patch(&toy("ball"), json!({"spec": {"size": 2}})).await;
    world.robot.patch(&format!("{}/status", toy("ball")), json!({"status": {"phase": "Alone"}})).await;
    world.cloud.delete(&toy("cube")).await;
    world.cloud.create(TOYS, made("cone", json!({}), json!({"size": 3}))).await;
    tokio::time::sleep(Duration::from_secs(4 * 3600)).await;
    let view = world.handle.as_ref().unwrap().view();
    assert_eq!(view.crds.len(), 1, "it runs on: {view:#?}");
    world.clear();
    world.robot.until(&toy("ball"), |ball| ball.is_some_and(|ball| ball["spec"]["size"] == 2)).await;
    world.cloud.until(&toy("ball"), |ball| ball.is_some_and(|ball| ball["status"]["phase"] == "Alone")).await;
    world.robot.until_gone(&toy("cube")).await;
    world.robot.until_there(&toy("cone")).await;
    world.rest().await;
    let view = world.handle.as_ref().unwrap().view();
    assert!(view.cloud.reachable && view.robot.reachable, "{view:#?}");
    assert_eq!((view.crds["toys.play.io"].pending, view.crds["toys.play.io"].errors), (0, 0), "{view:#?}");
}

#[tokio::test(start_paused = true)]
async fn hours_without_a_link() {
    passes(Sky::Cut, Sky::Clear).await;
    passes(Sky::Silent, Sky::Clear).await;
    passes(Sky::Clear, Sky::Cut).await;
}

#[tokio::test(start_paused = true)]
async fn watches_that_stall_while_writes_work() {
    passes(Sky::Stalled, Sky::Clear).await;
    passes(Sky::Clear, Sky::Stalled).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_know_us_for_a_while() {
    passes(Sky::Unknown, Sky::Clear).await;
    passes(Sky::Clear, Sky::Unknown).await;
}

#[tokio::test(start_paused = true)]
async fn conflicts_losses_and_failures() {
    passes(Sky::Conflicts, Sky::Conflicts).await;
    passes(Sky::Forgetful, Sky::Forgetful).await;
    passes(Sky::Flaky, Sky::Flaky).await;
}

#[tokio::test(start_paused = true)]
async fn a_stalled_watch_is_noticed_and_resync_finds_what_it_missed() {
    let world = World::running(&Toys::plain()).await;
    world.cloud.create(TOYS, made("ball", json!({}), json!({"size": 1}))).await;
    world.robot.until_there(&toy("ball")).await;
    world.cloud.weather.turn(Sky::Stalled);
    world.cloud.patch(&toy("ball"), json!({"spec": {"size": 2}})).await;
    // Watches stay dead, but lists work.
    world.robot.until(&toy("ball"), |ball| ball.is_some_and(|ball| ball["spec"]["size"] == 2)).await;
}

#[tokio::test(start_paused = true)]
async fn one_object_that_is_refused_holds_up_no_other() {
    let world = World::with(&Toys::plain()).await;
    let spec = json!({"type": "object", "properties": {"size": {"type": "integer", "maximum": 5}}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}}});
    world.robot.patch(crate::world::CRD, json!({"spec": {"versions": [version]}})).await;
    let mut world = world;
    world.start();
    world.cloud.create(TOYS, made("big", json!({}), json!({"size": 9}))).await;
    for number in 0..40 {
        world.cloud.create(TOYS, made(&format!("toy-{number}"), json!({}), json!({"size": 1}))).await;
    }
    for number in 0..40 {
        world.robot.until_there(&toy(&format!("toy-{number}"))).await;
    }
    let told = world.robot.until_told("WriteRefused").await;
    assert!(told.starts_with("default/big: a new copy in the robot was refused: "), "{told}");
    assert_eq!(world.handle.as_ref().unwrap().view().crds["toys.play.io"].errors, 1);
    world.cloud.patch(&toy("big"), json!({"spec": {"size": 5}})).await;
    world.robot.until_there(&toy("big")).await;
    assert_eq!(world.handle.as_ref().unwrap().view().crds["toys.play.io"].errors, 0);
}

#[tokio::test(start_paused = true)]
async fn two_clusters_with_one_name_notice_each_other() {
    let first = World::running(&Toys::plain()).await;
    first.cloud.create(TOYS, made("ball", json!({}), json!({"size": 1}))).await;
    first.robot.until_there(&toy("ball")).await;
    let lease = "/apis/coordination.k8s.io/v1/namespaces/koinon-system/leases/sync-r1";
    let progress = first.cloud.until_there(lease).await;
    let text = progress["metadata"]["annotations"]["koinon.dev/sync"].as_str().unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(text).unwrap()["pending"].is_number(), "{text}");
    let mut second = World::empty().await;
    second.cloud = first.cloud.clone();
    second.robot = Cluster::new(9).await;
    second.robot.define(&Toys::plain()).await;
    second.start();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(second.handle.as_ref().unwrap().view().rival.is_some(), "the newcomer waits");
    assert!(first.handle.as_ref().unwrap().view().rival.is_some(), "and is noticed");
    assert!(second.robot.get(&toy("ball")).await.is_none());
    second.robot.until_told("RobotNameTaken").await;
    // A restart of the first is no rival, and keeps the name.
    let mut first = first;
    first.kill().await;
    first.start();
    first.cloud.create(TOYS, made("cube", json!({}), json!({}))).await;
    first.robot.until_there(&toy("cube")).await;
    // Once the first is gone, the name is free.
    first.stop().await;
    second.robot.until_there(&toy("ball")).await;
    assert!(second.handle.as_ref().unwrap().view().rival.is_none());
}

#[tokio::test(start_paused = true)]
async fn two_robots_that_report_on_one_object_come_to_a_near_rest() {
    let first = World::running(&Toys::plain()).await;
    let mut second = World::empty().await;
    second.cloud = first.cloud.clone();
    second.robot = Cluster::new(9).await;
    second.robot.define(&Toys::plain()).await;
    second.options.robot = "r2".into();
    second.start();
    first.cloud.create(TOYS, made("ball", json!({}), json!({}))).await;
    for (robot, phase) in [(&first.robot, "One"), (&second.robot, "Two")] {
        robot.until_there(&toy("ball")).await;
        robot.patch(&format!("{}/status", toy("ball")), json!({"status": {"phase": phase}})).await;
    }
    tokio::time::sleep(Duration::from_secs(8 * 3600)).await;
    let writes = first.cloud.weather.writes().len();
    assert!(writes < 60, "{writes} writes in a working day");
    first.robot.until_told("StatusContested").await;
}
