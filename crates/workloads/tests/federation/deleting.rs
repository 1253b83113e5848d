//! Deletions: members' objects stay, unless it is said that they go too.

use std::time::Duration;

use koinon_simulation::{Fault, Requests, Write};
use serde_json::json;

use crate::harness::{DEPLOY, Deploy, WEB, World};
use crate::wire::ROLE;

const RECORDS: &str = "/api/v1/namespaces/koinon-system/configmaps";
const ANCHORS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";

async fn world() -> World {
    let world = World::new(&[("a", 110), ("b", 110)]).await;
    world.create_set(8, Some(r#"{"rebalance":true}"#)).await;
    world.until_layout(WEB, "a=4 b=4").await;
    world
}

async fn until_no_records(world: &World) {
    let gone = |list: &serde_json::Value| {
        let mut items = list["items"].as_array().into_iter().flatten();
        !items.any(|one| one["metadata"]["name"].as_str().unwrap().starts_with("deletion-"))
    };
    world.until(RECORDS, "nothing is left to delete", gone).await;
}

async fn until_anchors(world: &World, count: usize) {
    let so_many = |list: &serde_json::Value| list["items"].as_array().is_some_and(|all| all.len() == count);
    world.until(ANCHORS, &format!("there are {count} anchors"), so_many).await;
}

#[tokio::test(start_paused = true)]
async fn members_objects_stay_and_are_taken_over_again() {
    let world = world().await;
    for propagation in ["Background", "Orphan"] {
        world.federation.delete(WEB, propagation).await;
        world.until(WEB, "it is gone", |web| web.is_null()).await;
        world.rest().await;
        world.until_layout(WEB, "a=4 b=4").await;
        world.create_set(10, Some(r#"{"rebalance":true}"#)).await;
        world.until_layout(WEB, "a=5 b=5").await;
        world.federation.patch(WEB, json!({"spec": {"replicas": 8}})).await;
        world.until_layout(WEB, "a=4 b=4").await;
    }
}

#[tokio::test(start_paused = true)]
async fn in_the_foreground_they_go_too_also_where_a_member_is_away() {
    let mut world = world().await;
    world.members["b"].wire.cut();
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.federation.delete(WEB, "Foreground").await;
    world.until(WEB, "it is gone", |web| web.is_null()).await;
    world.until_layout(WEB, "b=4").await;
    // Long after, and by somebody who never saw it.
    tokio::time::sleep(Duration::from_secs(300)).await;
    world.kill().await;
    world.start().await;
    world.members["b"].wire.heal();
    world.until_layout(WEB, "").await;
    until_no_records(&world).await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn by_annotation_they_go_too_even_if_nobody_was_there_to_see_it() {
    let mut world = world().await;
    world
        .federation
        .patch(WEB, json!({"metadata": {"annotations": {"koinon.dev/cascade": "members"}}}))
        .await;
    world
        .until(WEB, "it is kept until that is written down", |web| !web["metadata"]["finalizers"].is_null())
        .await;
    world.kill().await;
    world.federation.delete(WEB, "Background").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.start().await;
    world.until_layout(WEB, "").await;
    world.until(WEB, "it is gone", |web| web.is_null()).await;
    until_no_records(&world).await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn in_the_foreground_they_go_too_even_if_nobody_was_there_to_see_it() {
    let mut world = world().await;
    world.create_deployment(Deploy { replicas: 4, ..Deploy::default() }).await;
    world.until_layout(DEPLOY, "a=2 b=2").await;
    until_anchors(&world, 2).await;
    world.rest().await;
    world.kill().await;
    for path in [WEB, DEPLOY] {
        world.federation.delete(path, "Foreground").await;
    }
    // A garbage collector has had all the time it needs.
    tokio::time::sleep(Duration::from_secs(120)).await;
    world.start().await;
    for path in [WEB, DEPLOY] {
        world.until(path, "it is gone", |one| one.is_null()).await;
        world.until_layout(path, "").await;
    }
    until_no_records(&world).await;
    until_anchors(&world, 0).await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn no_other_deletion_waits_for_us_and_nothing_of_ours_is_left() {
    for propagation in ["Background", "Orphan"] {
        let mut world = world().await;
        until_anchors(&world, 1).await;
        world.kill().await;
        world.federation.delete(WEB, propagation).await;
        world.until(WEB, "it is gone", |web| web.is_null()).await;
        world.start().await;
        until_anchors(&world, 0).await;
        world.rest().await;
        world.until_layout(WEB, "a=4 b=4").await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_anchor_that_somebody_deletes_is_made_again() {
    let world = world().await;
    until_anchors(&world, 1).await;
    let list = world.federation.get(ANCHORS).await.unwrap();
    let anchor = &list["items"][0]["metadata"];
    let (name, uid) = (anchor["name"].as_str().unwrap(), anchor["uid"].as_str().unwrap());
    world.federation.delete(&format!("{ANCHORS}/{name}"), "Background").await;
    let another = |list: &serde_json::Value| {
        let all = list["items"].as_array().unwrap();
        all.len() == 1 && all[0]["metadata"]["uid"] != uid
    };
    world.until(ANCHORS, "there is another", another).await;
    world.rest().await;
    world.until_layout(WEB, "a=4 b=4").await;
}

#[tokio::test(start_paused = true)]
async fn who_is_made_again_takes_over_what_was_to_go() {
    let world = world().await;
    world.members["b"].wire.cut();
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.federation.delete(WEB, "Foreground").await;
    world.until_layout(WEB, "b=4").await;
    world.create_set(8, Some(r#"{"rebalance":true}"#)).await;
    until_no_records(&world).await;
    world.members["b"].wire.heal();
    world.until_layout(WEB, "a=4 b=4").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn an_old_view_of_what_is_going_does_not_keep_its_members() {
    let mut world = world().await;
    until_anchors(&world, 1).await;
    world.kill().await;
    // Whoever comes next knows the ReplicaSets as they are now, and of everything else also what becomes of it.
    let refuse = |what| Fault::Refuse { what, code: 500, one_in: 1 };
    world.federation.wire.set(&[refuse(Requests::Streams)]);
    let watches = refuse(Requests::Watches);
    let sets = move |request: &Write| request.path.ends_with("/replicasets").then_some(watches);
    world.network.single_out(ROLE, "federation", sets);
    world.start().await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    world.federation.delete(WEB, "Foreground").await;
    world.until(WEB, "it is gone", |web| web.is_null()).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.federation.wire.heal();
    world.federation.wire.accept();
    world.until_layout(WEB, "").await;
    until_no_records(&world).await;
    world.rest().await;
}
