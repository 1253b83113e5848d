//! Members that leave and return: what happens in a cluster while it is no member is nobody's removal.

use std::time::Duration;

use serde_json::json;

use crate::harness::{ACNPS, World, acnp};

const WEB: &str = "/apis/crd.antrea.io/v1beta1/clusternetworkpolicies/web";
const MINE: &str = "/apis/crd.antrea.io/v1beta1/clusternetworkpolicies/mine";
const ANEW: &str = "/apis/crd.antrea.io/v1beta1/clusternetworkpolicies/anew";
const ACCEPT: &str = "koinon.dev/accept-policies";

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// `web`, made in a, and `mine`, made in c, everywhere and at rest.
async fn world() -> World {
    let world = World::new(&["a", "b", "c"]).await;
    world.at("a").create(ACNPS, acnp("web", 1)).await;
    world.at("c").create(ACNPS, acnp("mine", 1)).await;
    world.until_shows(WEB, "a=1 b=1 c=1").await;
    world.until_shows(MINE, "a=1 b=1 c=1").await;
    world.rest().await;
    world
}

/// What the administrator of c does while it is no member.
async fn clear_out(world: &World) {
    world.at("c").delete(WEB).await;
    world.at("c").delete(MINE).await;
    world.at("c").create(ACNPS, acnp("anew", 1)).await;
}

/// All that was there is everywhere again, and with it what was made meanwhile.
async fn check_nothing_is_lost(world: &World) {
    for path in [WEB, MINE, ANEW] {
        world.until_shows(path, "a=1 b=1 c=1").await;
    }
    world.rest().await;
    for path in [WEB, MINE, ANEW] {
        world.until_shows(path, "a=1 b=1 c=1").await;
    }
    for (cluster, policy) in [("a", "web"), ("b", "web"), ("a", "mine"), ("b", "mine")] {
        let events = world.at(cluster).events("default", policy).await;
        assert!(!events.iter().any(|event| event.starts_with("FederatedPolicyRemoved")), "{events:#?}");
    }
    // And it takes part as before: what is removed now is removed.
    world.at("c").delete(WEB).await;
    world.until_shows(WEB, "a=- b=- c=-").await;
    world.until_forgotten().await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_deleted_in_a_cluster_that_left_is_nobodys_removal() {
    let world = world().await;
    world.at("c").leave().await;
    world.list("a", &["a", "b"]).await;
    pass(2).await;
    clear_out(&world).await;
    pass(10).await;
    world.at("c").join(&json!({})).await;
    world.list("a", &["a", "b", "c"]).await;
    check_nothing_is_lost(&world).await;
}

#[tokio::test(start_paused = true)]
async fn nor_where_every_controller_was_down_throughout() {
    let mut world = world().await;
    world.kill("a").await;
    world.at("c").leave().await;
    clear_out(&world).await;
    world.at("c").join(&json!({})).await;
    world.start("b").await;
    check_nothing_is_lost(&world).await;
}

#[tokio::test(start_paused = true)]
async fn nor_where_leaving_and_deleting_is_one_moment() {
    let world = world().await;
    // Whoever leads hears of one before the other.
    world.at("c").leave().await;
    clear_out(&world).await;
    pass(12).await;
    world.at("c").join(&json!({})).await;
    check_nothing_is_lost(&world).await;
}

#[tokio::test(start_paused = true)]
async fn nor_where_only_the_supervisors_took_it_from_their_lists() {
    let mut world = world().await;
    world.list("a", &["a", "b"]).await;
    pass(5).await;
    clear_out(&world).await;
    // Nobody who saw it go is there when it returns.
    world.kill("a").await;
    world.start("b").await;
    check_nothing_is_lost(&world).await;
}

#[tokio::test(start_paused = true)]
async fn nor_where_it_took_no_part_for_a_while() {
    let world = world().await;
    world.at("c").annotate_federation(json!({ACCEPT: "none"})).await;
    pass(5).await;
    clear_out(&world).await;
    pass(5).await;
    world.at("c").annotate_federation(json!({ACCEPT: null})).await;
    check_nothing_is_lost(&world).await;
}

#[tokio::test(start_paused = true)]
async fn nor_where_another_cluster_returns_under_its_id() {
    // With nothing of what the old one had, or with its ledger from a backup.
    for (down, restored) in [(false, false), (false, true), (true, true)] {
        let mut world = world().await;
        if down {
            world.kill("a").await;
        } else {
            world.list("a", &["a", "b"]).await;
            pass(5).await;
        }
        let ledger = world.at("c").ledger_documents().await;
        world.replace("c").await;
        world.at("c").create(ACNPS, acnp("anew", 1)).await;
        if restored {
            world.at("c").restore(ledger).await;
        }
        if down {
            world.start("a").await;
        } else {
            world.list("a", &["a", "b", "c"]).await;
        }
        check_nothing_is_lost(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_was_changed_meanwhile_is_overruled() {
    let world = world().await;
    world.at("c").leave().await;
    world.list("a", &["a", "b"]).await;
    pass(5).await;
    world.at("c").patch(WEB, json!({"spec": {"priority": 7}})).await;
    pass(5).await;
    world.at("c").join(&json!({})).await;
    world.list("a", &["a", "b", "c"]).await;
    world.until_event("c", "default", "web", "FederatedPolicyConflict: it was changed here while").await;
    world.until_shows(WEB, "a=1 b=1 c=1").await;
    world.rest().await;
    world.until_shows(WEB, "a=1 b=1 c=1").await;
}

#[tokio::test(start_paused = true)]
async fn a_federation_that_is_formed_anew_keeps_what_all_have() {
    let mut world = world().await;
    world.at("b").create(ACNPS, acnp("anew", 1)).await;
    world.until_shows(ANEW, "a=1 b=1 c=1").await;
    world.rest().await;
    world.kill("a").await;
    // All of them have copies of what others made, and all have to be put right.
    for name in ["a", "b", "c"] {
        world.at(name).leave().await;
        world.at(name).join(&json!({})).await;
    }
    world.at("b").delete(MINE).await;
    world.start("a").await;
    check_nothing_is_lost(&world).await;
}
