//! Away and back: controllers that are down, partitions, members that leave and return, members with terms of their own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use koinon_simulation::{Fault, Requests};
use serde_json::json;

use crate::harness::{ACNPS, ANPS, FEDERATIONS, World, acnp, anp};

const WEB: &str = "/apis/crd.antrea.io/v1beta1/clusternetworkpolicies/web";
const SHOP: &str = "/apis/crd.antrea.io/v1beta1/namespaces/prod/networkpolicies/shop";
const ACCEPT: &str = "koinon.dev/accept-policies";

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn removed_while_every_controller_is_down() {
    let mut world = World::new(&["a", "b", "c"]).await;
    world.at("a").create(ACNPS, acnp("web", 1)).await;
    world.at("a").create(ANPS, anp("shop", 1)).await;
    world.until_shows(WEB, "a=1 b=1 c=1").await;
    world.until_shows(SHOP, "a=1 b=1 c=1").await;
    world.rest().await;
    world.kill("a").await;
    world.at("c").delete(WEB).await;
    // A namespace that is made anew took its policies with it, and no user did that.
    world.at("c").delete_namespace("prod").await;
    world.at("c").create_namespace("prod").await;
    world.at("b").patch(SHOP, json!({"spec": {"priority": 2}})).await;
    world.start("b").await;
    world.until_shows(WEB, "a=- b=- c=-").await;
    world.until_shows(SHOP, "a=2 b=2 c=2").await;
    world.until_forgotten().await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_was_made_anew_removes_nothing_elsewhere() {
    let mut world = World::new(&["a", "b"]).await;
    world.at("a").create(ACNPS, acnp("web", 1)).await;
    world.until_shows(WEB, "a=1 b=1").await;
    world.rest().await;
    world.kill("a").await;
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let path = format!("{crds}/clusternetworkpolicies.crd.antrea.io");
    let definition = world.at("b").get(&path).await.unwrap();
    world.at("b").delete(&path).await;
    while world.at("b").get(&path).await.is_some() {
        pass(1).await;
    }
    let metadata = json!({"name": "clusternetworkpolicies.crd.antrea.io"});
    let again = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": metadata, "spec": definition["spec"],
    });
    world.at("b").create(crds, again).await;
    world.start("a").await;
    world.until_shows(WEB, "a=1 b=1").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_with_an_edit_on_one_side_and_a_removal_on_the_other() {
    let mut world = World::bare(&["a", "b", "c"]).await;
    world.at("a").create(ACNPS, acnp("web", 1)).await;
    world.at("a").create(ACNPS, acnp("old", 1)).await;
    world.start("a").await;
    world.until_shows(WEB, "a=1 b=1 c=1").await;
    world.start("c").await;
    world.rest().await;
    for (one, other) in [("a", "c"), ("c", "a"), ("c", "b")] {
        world.cut(one, other);
    }
    // C is led by nobody for a moment, then by its own supervisor.
    pass(120).await;
    world.at("b").patch(WEB, json!({"spec": {"priority": 2}})).await;
    world.at("c").delete(WEB).await;
    world.at("c").delete("/apis/crd.antrea.io/v1beta1/clusternetworkpolicies/old").await;
    world.until_shows(WEB, "a=2 b=2 c=-").await;
    pass(60).await;
    for (one, other) in [("a", "c"), ("c", "a"), ("c", "b")] {
        world.mend(one, other);
    }
    // What lives wins over what was removed at the same time; what nobody touched is removed.
    world.until_shows(WEB, "a=2 b=2 c=2").await;
    world.until_shows("/apis/crd.antrea.io/v1beta1/clusternetworkpolicies/old", "a=- b=- c=-").await;
    world.until_forgotten().await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_returns_brings_nothing_back_from_the_dead() {
    let world = World::new(&["a", "b", "c"]).await;
    world.at("a").create(ACNPS, acnp("web", 1)).await;
    world.at("c").create(ACNPS, acnp("mine", 1)).await;
    let mine = format!("{ACNPS}/mine");
    world.until_shows(WEB, "a=1 b=1 c=1").await;
    world.until_shows(&mine, "a=1 b=1 c=1").await;
    world.rest().await;
    // It leaves in both steps; its copies stay, and so do everybody else's.
    world.at("c").leave().await;
    pass(5).await;
    world.list("a", &["a", "b"]).await;
    pass(120).await;
    world.until_shows(WEB, "a=1 b=1 c=1").await;
    world.at("a").delete(WEB).await;
    world.at("a").delete(&mine).await;
    world.until_shows(WEB, "a=- b=- c=1").await;
    world.until_forgotten_in(&["a", "b"]).await;
    world.rest().await;
    world.at("c").join(&json!({})).await;
    world.list("a", &["a", "b", "c"]).await;
    world.until_shows(WEB, "a=- b=- c=-").await;
    // What a user of the member itself made is its own to bring along.
    world.until_shows(&mine, "a=1 b=1 c=1").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_removal_waits_for_a_member_that_is_away() {
    let world = World::new(&["a", "b", "c"]).await;
    world.at("a").create(ACNPS, acnp("web", 1)).await;
    world.until_shows(WEB, "a=1 b=1 c=1").await;
    world.rest().await;
    world.cut("a", "c");
    world.at("b").delete(WEB).await;
    world.until_shows(WEB, "a=- b=- c=1").await;
    pass(3600).await;
    assert!(world.at("a").ledger().await.contains("removed"));
    world.mend("a", "c");
    world.until_shows(WEB, "a=- b=- c=-").await;
    world.until_forgotten().await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_member_can_stay_out_or_trust_only_some() {
    let world = World::new(&["a", "b", "c"]).await;
    world.at("b").annotate_federation(json!({ACCEPT: "none"})).await;
    world.at("c").annotate_federation(json!({ACCEPT: "b"})).await;
    pass(5).await;
    world.at("a").create(ACNPS, acnp("web", 1)).await;
    let own = format!("{ACNPS}/own");
    world.at("b").create(ACNPS, acnp("own", 1)).await;
    world.rest().await;
    world.until_shows(WEB, "a=1 b=- c=-").await;
    world.until_shows(&own, "a=- b=1 c=-").await;
    world.at("c").annotate_federation(json!({ACCEPT: "a"})).await;
    world.until_shows(WEB, "a=1 b=- c=1").await;
    world.at("c").annotate_federation(json!({ACCEPT: "b"})).await;
    pass(5).await;
    // Somebody whose word does not count removes it: it stays, and that is no reason to spread it again.
    world.at("a").delete(WEB).await;
    world.rest().await;
    world.until_shows(WEB, "a=- b=- c=1").await;
    for name in ["b", "c"] {
        world.at(name).annotate_federation(json!({ACCEPT: null})).await;
    }
    world.until_shows(&own, "a=1 b=1 c=1").await;
    world.rest().await;
}

/// Elections see the Federations of a cluster; whoever asks after them is refused.
fn hold_back_terms(world: &World, process: &str, cluster: &str) {
    // Twice for each request: before and after whatever delays it.
    let asked = AtomicUsize::new(0);
    world.network.single_out(process, cluster, move |request| {
        let refused = Fault::Refuse { what: Requests::Any, code: 500, one_in: 1 };
        (request.path == FEDERATIONS && asked.fetch_add(1, Ordering::Relaxed) >= 2).then_some(refused)
    });
}

#[tokio::test(start_paused = true)]
async fn a_member_whose_terms_are_not_known_yet_takes_nothing() {
    let mut world = World::bare(&["a", "b", "c"]).await;
    world.at("b").annotate_federation(json!({ACCEPT: "c"})).await;
    world.at("c").annotate_federation(json!({ACCEPT: "none"})).await;
    world.at("a").create(ACNPS, acnp("web", 1)).await;
    for name in ["b", "c"] {
        hold_back_terms(&world, "a", name);
    }
    world.start("a").await;
    pass(35).await;
    for name in ["b", "c"] {
        let lease = format!("/apis/coordination.k8s.io/v1/namespaces/antrea-plus-system/leases/{name}");
        let held = world.at(name).get(&lease).await.expect("it is led")["spec"]["holderIdentity"].clone();
        assert!(held.as_str().is_some_and(|holder| holder.starts_with('a')), "{held}");
    }
    world.until_shows(WEB, "a=1 b=- c=-").await;
    world.network.heal();
    world.rest().await;
    world.until_shows(WEB, "a=1 b=- c=-").await;
    // Who takes no part was never one of those that are waited for.
    assert!(!world.at("a").roster().await.contains("\"c\""), "{}", world.at("a").roster().await);
    world.at("b").annotate_federation(json!({ACCEPT: "a"})).await;
    world.until_shows(WEB, "a=1 b=1 c=-").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_member_whose_terms_are_not_known_has_not_left() {
    let mut world = World::new(&["a", "b", "c"]).await;
    world.at("a").create(ACNPS, acnp("web", 1)).await;
    world.until_shows(WEB, "a=1 b=1 c=1").await;
    world.rest().await;
    world.kill("a").await;
    hold_back_terms(&world, "a", "c");
    world.start("a").await;
    pass(300).await;
    world.at("b").delete(WEB).await;
    world.until_shows(WEB, "a=- b=- c=1").await;
    pass(60).await;
    assert!(world.at("a").ledger().await.contains("removed"), "c has not heard of it");
    assert!(!world.at("a").roster().await.contains("departed"), "{}", world.at("a").roster().await);
    world.network.heal();
    world.until_shows(WEB, "a=- b=- c=-").await;
    world.until_forgotten().await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn the_oldest_federation_says_whose_policies_are_taken() {
    let world = World::new(&["a", "b"]).await;
    world.at("b").annotate_federation(json!({ACCEPT: "none"})).await;
    pass(5).await;
    let second = json!({
        "apiVersion": "federation.antreaplus.tanzu.vmware.com/v1alpha1", "kind": "Federation",
        "metadata": {"name": "a-second"}, "spec": {},
    });
    world.at("b").create(FEDERATIONS, second).await;
    world.at("a").create(ACNPS, acnp("web", 1)).await;
    world.rest().await;
    world.until_shows(WEB, "a=1 b=-").await;
}
