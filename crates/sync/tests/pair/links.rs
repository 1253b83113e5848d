//! Links that fail, and clusters that share a name.

use std::time::Duration;

use koinon_simulation::{Fault, Requests};
use serde_json::json;

use crate::world::{TOYS, Toys, World, made, toy};

const UNKNOWN: Fault = Fault::Refuse { what: Requests::Any, code: 401, one_in: 1 };

/// Edits on both sides during the faults; both arrive afterwards, without a restart.
async fn passes(cloud: &[Fault], robot: &[Fault]) {
    let world = World::running(&Toys::plain()).await;
    world.cloud.create(TOYS, made("ball", json!({}), json!({"size": 1}))).await;
    world.cloud.create(TOYS, made("cube", json!({}), json!({"size": 1}))).await;
    world.robot.until_there(&toy("ball")).await;
    world.robot.until_there(&toy("cube")).await;
    world.cloud.turn(cloud);
    world.robot.turn(robot);
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
    passes(&[Fault::Cut], &[]).await;
    passes(&[Fault::Hang], &[]).await;
    passes(&[], &[Fault::Cut]).await;
}

#[tokio::test(start_paused = true)]
async fn watches_that_stall_while_writes_work() {
    passes(&[Fault::StallWatches], &[]).await;
    passes(&[], &[Fault::StallWatches]).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_know_us_for_a_while() {
    passes(&[UNKNOWN], &[]).await;
    passes(&[], &[UNKNOWN]).await;
}

#[tokio::test(start_paused = true)]
async fn conflicts_losses_and_failures() {
    let writes = |code| Fault::Refuse { what: Requests::Writes, code, one_in: 2 };
    let any = |code| Fault::Refuse { what: Requests::Any, code, one_in: 6 };
    for faults in [
        &[writes(409)][..],
        &[Fault::Lose { one_in: 2 }],
        &[any(500), any(503), any(429), any(504)],
        &[Fault::Delay(Duration::from_secs(4)), writes(409)],
    ] {
        passes(faults, faults).await;
    }
}

#[tokio::test(start_paused = true)]
async fn watches_that_break_are_late_or_lose_what_they_should_show() {
    for faults in [
        &[Fault::CutWatches { after: 1 }][..],
        &[Fault::MissEvents { after: 1 }],
        &[Fault::Stale(Duration::from_secs(40))],
        &[Fault::Refuse { what: Requests::Watches, code: 410, one_in: 1 }],
    ] {
        passes(faults, faults).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stalled_watch_is_noticed_and_resync_finds_what_it_missed() {
    let world = World::running(&Toys::plain()).await;
    world.cloud.create(TOYS, made("ball", json!({}), json!({"size": 1}))).await;
    world.robot.until_there(&toy("ball")).await;
    world.cloud.turn(&[Fault::StallWatches]);
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
    let mut second = first.beside(&Toys::plain()).await;
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
    let mut second = first.beside(&Toys::plain()).await;
    second.options.robot = "r2".into();
    second.start();
    first.cloud.create(TOYS, made("ball", json!({}), json!({}))).await;
    for (robot, phase) in [(&first.robot, "One"), (&second.robot, "Two")] {
        robot.until_there(&toy("ball")).await;
        robot.patch(&format!("{}/status", toy("ball")), json!({"status": {"phase": phase}})).await;
    }
    // Events go after an hour, so this is looked for first.
    first.robot.until_told("StatusContested").await;
    tokio::time::sleep(Duration::from_secs(8 * 3600)).await;
    let writes = first.cloud.writes().len();
    assert!(writes < 60, "{writes} writes in a working day");
}

#[tokio::test(start_paused = true)]
async fn the_cloud_sees_how_a_robot_is_whatever_its_clock_says() {
    let mut world = World::with(&Toys::plain()).await;
    world.skew = jiff::SignedDuration::from_hours(-50_000);
    world.start();
    world.cloud.create(TOYS, made("ball", json!({}), json!({"size": 1}))).await;
    world.robot.until_there(&toy("ball")).await;
    world.rest().await;
    let seen = async || {
        let path = "/apis/coordination.k8s.io/v1/namespaces/koinon-system/leases";
        let leases: Vec<_> = world
            .cloud
            .items(path)
            .await
            .into_iter()
            .map(|item| serde_json::from_value(item).unwrap())
            .collect();
        let now = world.cloud.clock().now();
        let robots = koinon_sync::seen_from_cloud(now, &leases);
        assert_eq!(robots.len(), 1, "{robots:#?}");
        robots[0].cells(now)
    };
    let cells = seen().await;
    assert_eq!(cells[..2], ["r1", "Connected"]);
    assert_eq!(cells[3..], ["1", "0", "-", "0", "0"], "{cells:?}");
    // What is stuck beside the robot is seen from the cloud.
    world.robot.turn(&[Fault::Refuse { what: Requests::Writes, code: 503, one_in: 1 }]);
    world.cloud.patch(&toy("ball"), json!({"spec": {"size": 2}})).await;
    tokio::time::sleep(Duration::from_secs(90)).await;
    let cells = seen().await;
    assert_eq!((&cells[4][..], &cells[6][..]), ("1", "1"), "{cells:?}");
    assert_ne!(cells[5], "-", "{cells:?}");
    // And then it falls silent.
    world.cloud.turn(&[Fault::Hang]);
    tokio::time::sleep(Duration::from_secs(7300)).await;
    let cells = seen().await;
    assert_eq!((&cells[1][..], &cells[2][..]), ("Silent", "2h ago"), "{cells:?}");
}
