//! How copies end, and when they do not.

use std::time::Duration;

use koinon_simulation::{Fault, Requests};
use serde_json::{Value, json};

use crate::world::{CRD, Cluster, TOYS, Toys, World, made, toy};

const CONFIRM: &str = "koinon.dev/confirm-deletes";

async fn fill(cluster: &Cluster, count: usize) {
    for number in 0..count {
        cluster.create(TOYS, made(&format!("toy-{number:02}"), json!({}), json!({}))).await;
    }
}

async fn until_count(cluster: &Cluster, count: usize) {
    cluster
        .until(TOYS, |list| {
            list.is_some_and(|list| list["items"].as_array().is_some_and(|all| all.len() == count))
        })
        .await;
}

fn toys(world: &World) -> koinon_sync::CrdView {
    world.handle.as_ref().unwrap().view().crds["toys.play.io"].clone()
}

#[track_caller]
fn nothing_is_held(world: &World) {
    let view = toys(world);
    assert!(view.held == 0 && view.problems.is_empty(), "{view:#?}");
}

#[tokio::test(start_paused = true)]
async fn originals_take_their_copies_with_them_and_wait_for_nobody() {
    let mut world = World::running(&Toys::plain()).await;
    fill(&world.cloud, 4).await;
    until_count(&world.robot, 4).await;
    world.cloud.delete(&toy("toy-00")).await;
    world.robot.until_gone(&toy("toy-00")).await;
    // One that is held upstream is already going downstream.
    world.cloud.patch(&toy("toy-01"), json!({"metadata": {"finalizers": ["play.io/wait"]}})).await;
    world.cloud.delete(&toy("toy-01")).await;
    world.robot.until_gone(&toy("toy-01")).await;
    assert!(world.cloud.get(&toy("toy-01")).await.is_some());
    // What is deleted while nobody looks is an orphan afterwards.
    world.stop().await;
    world.cloud.delete(&toy("toy-02")).await;
    world.robot.create(TOYS, made("made-here", json!({}), json!({}))).await;
    world.start();
    world.robot.until_gone(&toy("toy-02")).await;
    world.robot.until_gone(&toy("made-here")).await;
    // What is deleted downstream comes back.
    let first = world.robot.get(&toy("toy-03")).await.unwrap();
    world.robot.delete(&toy("toy-03")).await;
    let again =
        |copy: Option<&Value>| copy.is_some_and(|copy| copy["metadata"]["uid"] != first["metadata"]["uid"]);
    world.robot.until(&toy("toy-03"), again).await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_dying_copy_keeps_its_status_to_itself() {
    let world = World::running(&Toys::plain()).await;
    world.cloud.create(TOYS, made("ball", json!({}), json!({"size": 1}))).await;
    world.robot.until_there(&toy("ball")).await;
    let status = format!("{}/status", toy("ball"));
    world.robot.patch(&status, json!({"status": {"phase": "Old"}})).await;
    world.robot.patch(&toy("ball"), json!({"metadata": {"finalizers": ["play.io/slow"]}})).await;
    world.cloud.until(&toy("ball"), |ball| ball.is_some_and(|ball| ball["status"]["phase"] == "Old")).await;
    world.cloud.delete(&toy("ball")).await;
    world
        .robot
        .until(&toy("ball"), |ball| {
            ball.is_some_and(|ball| ball["metadata"].get("deletionTimestamp").is_some())
        })
        .await;
    world.cloud.create(TOYS, made("ball", json!({}), json!({"size": 2}))).await;
    world.robot.patch(&status, json!({"status": {"phase": "Dying"}})).await;
    world.rest().await;
    assert_eq!(world.cloud.get(&toy("ball")).await.unwrap().get("status"), None);
    assert_eq!(world.robot.get(&toy("ball")).await.unwrap()["spec"]["size"], 1);
    world.robot.patch(&toy("ball"), json!({"metadata": {"finalizers": null}})).await;
    world.robot.until(&toy("ball"), |ball| ball.is_some_and(|ball| ball["spec"]["size"] == 2)).await;
    world.robot.patch(&status, json!({"status": {"phase": "New"}})).await;
    world.cloud.until(&toy("ball"), |ball| ball.is_some_and(|ball| ball["status"]["phase"] == "New")).await;
}

#[tokio::test(start_paused = true)]
async fn deleted_and_made_again_while_nobody_looked() {
    let mut world = World::running(&Toys::plain()).await;
    world.cloud.create(TOYS, made("ball", json!({"labels": {"a": "1"}}), json!({"size": 1}))).await;
    let copy = world.robot.until_there(&toy("ball")).await;
    world.stop().await;
    world.cloud.delete(&toy("ball")).await;
    world.cloud.create(TOYS, made("ball", json!({"labels": {"b": "2"}}), json!({"size": 2}))).await;
    world.start();
    let after = world
        .robot
        .until(&toy("ball"), |ball| ball.is_some_and(|ball| ball["spec"]["size"] == 2))
        .await
        .unwrap();
    assert_eq!(after["metadata"]["labels"], json!({"b": "2"}));
    assert_eq!(after["metadata"]["uid"], copy["metadata"]["uid"], "it goes on as the new one's copy");
}

#[tokio::test(start_paused = true)]
async fn a_mass_is_held_until_it_is_confirmed() {
    let mut world = World::running(&Toys::plain()).await;
    fill(&world.cloud, 24).await;
    until_count(&world.robot, 24).await;
    for number in 0..20 {
        world.cloud.delete(&toy(&format!("toy-{number:02}"))).await;
    }
    let told = world.robot.until_told("DeletionsHeld").await;
    assert!(told.contains("20 of 24 copies are to go at once, more than 12"), "{told}");
    assert!(told.contains("koinon.dev/confirm-deletes=20"), "{told}");
    world.rest().await;
    until_count(&world.robot, 24).await;
    assert_eq!(world.handle.as_ref().unwrap().view().crds["toys.play.io"].held, 20);
    // Nor does a restart forget it.
    world.stop().await;
    world.start();
    world.rest().await;
    until_count(&world.robot, 24).await;
    world.robot.patch(CRD, json!({"metadata": {"annotations": {CONFIRM: "5"}}})).await;
    until_count(&world.robot, 19).await;
    world.rest().await;
    until_count(&world.robot, 19).await;
    let crd = world.robot.get(CRD).await.unwrap();
    assert_eq!(crd["metadata"]["annotations"].get(CONFIRM), None, "it is good for one time");
    world.robot.patch(CRD, json!({"metadata": {"annotations": {CONFIRM: "15"}}})).await;
    until_count(&world.robot, 4).await;
    // What a human confirmed does not count against what follows.
    world.cloud.delete(&toy("toy-20")).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(world.robot.get(&toy("toy-20")).await.is_none(), "one is no mass");
    nothing_is_held(&world);
}

#[tokio::test(start_paused = true)]
async fn what_comes_back_need_not_be_confirmed() {
    let world = World::running(&Toys::plain()).await;
    fill(&world.cloud, 12).await;
    until_count(&world.robot, 12).await;
    for number in 0..12 {
        world.cloud.delete(&toy(&format!("toy-{number:02}"))).await;
    }
    world.robot.until_told("DeletionsHeld").await;
    assert!(toys(&world).problems.contains_key("DeletionsHeld"));
    fill(&world.cloud, 12).await;
    world.rest().await;
    until_count(&world.robot, 12).await;
    nothing_is_held(&world);
    // The Lease in the cloud says the same.
    let lease = "/apis/coordination.k8s.io/v1/namespaces/koinon-system/leases/sync-r1";
    let lease = world.cloud.get(lease).await.unwrap();
    let progress = lease["metadata"]["annotations"]["koinon.dev/sync"].as_str().unwrap();
    assert!(!progress.contains("DeletionsHeld"), "{progress}");
    world.cloud.delete(&toy("toy-00")).await;
    world.robot.until_gone(&toy("toy-00")).await;
}

#[tokio::test(start_paused = true)]
async fn what_comes_back_while_the_confirmed_ones_go_is_not_held_any_more() {
    let world = World::running(&Toys::plain()).await;
    fill(&world.cloud, 12).await;
    until_count(&world.robot, 12).await;
    for number in 0..12 {
        world.cloud.delete(&toy(&format!("toy-{number:02}"))).await;
    }
    world.robot.until_told("DeletionsHeld").await;
    // Those that are confirmed cannot go for a while.
    let slow = |request: &koinon_simulation::Write| {
        (request.method == "DELETE").then_some(Fault::Delay(Duration::from_secs(20)))
    };
    world.network.single_out(crate::world::SYNCER, "robot", slow);
    world.robot.patch(CRD, json!({"metadata": {"annotations": {CONFIRM: "4"}}})).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    for number in 4..12 {
        world.cloud.create(TOYS, made(&format!("toy-{number:02}"), json!({}), json!({}))).await;
    }
    until_count(&world.robot, 8).await;
    world.clear();
    world.rest().await;
    nothing_is_held(&world);
    world.cloud.delete(&toy("toy-11")).await;
    world.robot.until_gone(&toy("toy-11")).await;
}

#[tokio::test(start_paused = true)]
async fn another_cloud_behind_the_same_address_deletes_nothing() {
    let mut world = World::running(&Toys::plain()).await;
    fill(&world.cloud, 2).await;
    until_count(&world.robot, 2).await;
    world.rest().await;
    world.stop().await;
    world.cloud = Cluster::open(&world.network, "cloud", 7).await;
    world.cloud.define(&Toys::plain()).await;
    world.start();
    let told = world.robot.until_told("DeletionsHeld").await;
    assert!(told.contains("another cluster answers than before"), "{told}");
    world.rest().await;
    until_count(&world.robot, 2).await;
    // What it has is synced, and once nothing is missing there it is the cloud.
    fill(&world.cloud, 3).await;
    until_count(&world.robot, 3).await;
    world.rest().await;
    world.cloud.delete(&toy("toy-00")).await;
    until_count(&world.robot, 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_crd_that_vanishes_upstream_takes_no_copies_with_it() {
    let world = World::running(&Toys::plain()).await;
    fill(&world.cloud, 3).await;
    until_count(&world.robot, 3).await;
    world.cloud.delete(CRD).await;
    world.cloud.until_gone(CRD).await;
    world.rest().await;
    until_count(&world.robot, 3).await;
    // Made anew it is empty, which says nothing either.
    world.cloud.define(&Toys::plain()).await;
    let told = world.robot.until_told("DeletionsHeld").await;
    world.rest().await;
    until_count(&world.robot, 3).await;
    assert!(told.contains("where the originals are"), "{told}");
    fill(&world.cloud, 3).await;
    world.rest().await;
    world.cloud.delete(&toy("toy-00")).await;
    until_count(&world.robot, 2).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_before_the_cloud_was_listed() {
    let mut world = World::with(&Toys::plain()).await;
    fill(&world.robot, 3).await;
    let unknown = Fault::Refuse { what: Requests::Any, code: 401, one_in: 1 };
    for fault in [Fault::Cut, Fault::Hang, unknown] {
        world.cloud.turn(&[fault]);
        world.start();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        until_count(&world.robot, 3).await;
        world.stop().await;
    }
    world.clear();
    world.start();
    until_count(&world.robot, 0).await;
}
