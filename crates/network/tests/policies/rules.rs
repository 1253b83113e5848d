//! The rules one by one, on API servers.

use koinon_network::policies::content::Content;
use koinon_network::policies::key::PolicyKey;
use koinon_simulation::{Fault, Requests};
use serde_json::json;

use crate::harness::{ACNPS, ANPS, MARK, TIERS, World, acnp, anp};

const WEB: &str = "/apis/crd.antrea.io/v1beta1/clusternetworkpolicies/web";
const SHOP: &str = "/apis/crd.antrea.io/v1beta1/namespaces/prod/networkpolicies/shop";

#[tokio::test(start_paused = true)]
async fn created_edited_and_removed_from_any_member() {
    let world = World::new(&["a", "b", "c"]).await;
    world.at("b").create(ACNPS, acnp("web", 1)).await;
    world.until_shows(WEB, "a=1 b=1 c=1").await;
    world.at("c").patch(WEB, json!({"spec": {"priority": 2}})).await;
    world.until_shows(WEB, "a=2 b=2 c=2").await;
    world.at("a").delete(WEB).await;
    world.until_shows(WEB, "a=- b=- c=-").await;
    world.until_forgotten().await;
    world.rest().await;
    // The name is free again, and nobody remembers its past.
    world.at("c").create(ACNPS, acnp("web", 3)).await;
    world.until_shows(WEB, "a=3 b=3 c=3").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespaced_policy_goes_where_its_namespace_is() {
    let world = World::new(&["a", "b", "c"]).await;
    world.at("c").delete_namespace("prod").await;
    world.at("a").create(ANPS, anp("shop", 1)).await;
    world.until_shows(SHOP, "a=1 b=1 c=-").await;
    world.rest().await;
    world.at("c").create_namespace("prod").await;
    world.until_shows(SHOP, "a=1 b=1 c=1").await;
    // A namespace that goes takes its policies with it, and no other cluster's.
    world.at("a").delete_namespace("prod").await;
    world.rest().await;
    world.until_shows(SHOP, "a=- b=1 c=1").await;
    world.at("a").create_namespace("prod").await;
    world.until_shows(SHOP, "a=1 b=1 c=1").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_is_no_longer_annotated_stays_where_that_was_done() {
    let world = World::new(&["a", "b", "c"]).await;
    world.at("a").create(ACNPS, acnp("web", 1)).await;
    world.until_shows(WEB, "a=1 b=1 c=1").await;
    world.at("b").patch(WEB, json!({"metadata": {"annotations": {MARK: "false"}}})).await;
    world.until_shows(WEB, "a=- b=1* c=-").await;
    world.until_forgotten().await;
    world.rest().await;
    world.at("b").patch(WEB, json!({"metadata": {"annotations": {MARK: "true"}}})).await;
    world.until_shows(WEB, "a=1 b=1 c=1").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn somebodys_own_policy_is_never_written_over() {
    let world = World::new(&["a", "b", "c"]).await;
    let mut own = acnp("web", 9);
    own["metadata"]["annotations"] = json!({});
    world.at("b").create(ACNPS, own).await;
    world.at("a").create(ACNPS, acnp("web", 1)).await;
    world.until_shows(WEB, "a=1 b=9* c=1").await;
    let told = world.until_event("a", "default", "web", "FederatedPolicyBlocked").await;
    assert!(told.contains("cluster b has a policy of its own"), "{told}");
    let told = world.until_event("b", "default", "web", "FederatedPolicyBlocked").await;
    assert!(told.contains("comes from cluster a"), "{told}");
    world.rest().await;
    world.at("a").delete(WEB).await;
    world.until_shows(WEB, "a=- b=9* c=-").await;
    world.until_forgotten().await;
    world.at("a").create(ACNPS, acnp("web", 2)).await;
    world.until_shows(WEB, "a=2 b=9* c=2").await;
    world.at("b").delete(WEB).await;
    world.until_shows(WEB, "a=2 b=2 c=2").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_tier_is_told_and_waited_for() {
    let world = World::new(&["a", "b", "c"]).await;
    let tier = |name: &str| json!({"apiVersion": "crd.antrea.io/v1beta1", "kind": "Tier", "metadata": {"name": name}, "spec": {"priority": 20}});
    for name in ["a", "c"] {
        world.at(name).create(TIERS, tier("gold")).await;
    }
    let mut policy = acnp("web", 1);
    policy["spec"]["tier"] = json!("gold");
    world.at("a").create(ACNPS, policy).await;
    world.until_shows(WEB, "a=1 b=- c=1").await;
    let told = world.until_event("a", "default", "web", "FederatedPolicyRefused").await;
    assert!(told.contains("cluster b") && told.contains("Tier gold"), "{told}");
    world.rest().await;
    world.at("b").create(TIERS, tier("gold")).await;
    world.until_shows(WEB, "a=1 b=1 c=1").await;
    world.rest().await;
    assert!(!world.at("b").ledger().await.contains("refused"));
}

#[tokio::test(start_paused = true)]
async fn what_a_server_refuses_is_told_and_tried_again() {
    let world = World::new(&["a", "b"]).await;
    // As Antrea's webhook does where a Group is missing.
    world.network.single_out("a", "b", |write| {
        let denied = Fault::Refuse { what: Requests::Writes, code: 403, one_in: 1 };
        (write.method == "POST" && write.path == ACNPS).then_some(denied)
    });
    world.at("a").create(ACNPS, acnp("web", 1)).await;
    world.at("a").create(ACNPS, acnp("other", 1)).await;
    let told = world.until_event("a", "default", "web", "FederatedPolicyRefused").await;
    assert!(told.contains("a simulated fault"), "{told}");
    world.network.heal();
    world.until_shows(WEB, "a=1 b=1").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn two_users_create_the_same_name_at_once() {
    let mut world = World::bare(&["a", "b", "c"]).await;
    world.at("b").create(ACNPS, acnp("web", 2)).await;
    world.at("c").create(ACNPS, acnp("web", 3)).await;
    // Each is led by a process that sees nothing of the other.
    world.start("b").await;
    world.start("c").await;
    for other in ["a", "c"] {
        world.cut("b", other);
    }
    for other in ["a", "b"] {
        world.cut("c", other);
    }
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    for (one, other) in [("b", "a"), ("b", "c"), ("c", "a"), ("c", "b")] {
        world.mend(one, other);
    }
    world.until_shows(WEB, "a=2 b=2 c=2").await;
    let told = world.until_event("c", "default", "web", "FederatedPolicyConflict").await;
    assert!(told.contains("cluster b"), "{told}");
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn the_same_policy_applied_everywhere_by_hand_is_one_policy() {
    let mut world = World::bare(&["a", "b", "c"]).await;
    for name in ["a", "b", "c"] {
        world.at(name).create(ACNPS, acnp("web", 1)).await;
    }
    world.start("a").await;
    world.until_shows(WEB, "a=1 b=1 c=1").await;
    world.rest().await;
    let writes = world.writes("a");
    assert!(writes.iter().all(|write| !write.contains("clusternetworkpolicies")), "{writes:#?}");
    world.at("b").delete(WEB).await;
    world.until_shows(WEB, "a=- b=- c=-").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn rules_that_see_one_cluster_are_warned_of_where_they_were_written() {
    let world = World::new(&["a", "b"]).await;
    let mut policy = anp("shop", 1);
    policy["spec"]["ingress"] = json!([{"action": "Allow", "from": [{"podSelector": {}}]}]);
    world.at("b").create(ANPS, policy).await;
    world.until_shows(SHOP, "a=1 b=1").await;
    let told = world.until_event("b", "prod", "shop", "FederatedPolicyLocalRule").await;
    assert!(told.contains("ingress rule 1 selects by podSelector"), "{told}");
    world.rest().await;
    assert!(world.at("a").events("prod", "shop").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_revision_beyond_all_bounds_is_nobodys() {
    let world = World::new(&["a", "b"]).await;
    // Somebody writes the mark of a copy by hand: of their own policy, as the highest revision that there can be.
    let mut stamped = acnp("web", 1);
    let key = PolicyKey::cluster("web");
    let says = Content::of(&serde_json::from_value(stamped.clone()).unwrap()).hash(&key);
    stamped["metadata"]["annotations"]["koinon.dev/policy-revision"] =
        format!("{}.0.{says}.b", u64::MAX).into();
    world.at("b").create(ACNPS, stamped).await;
    world.until_shows(WEB, "a=1 b=1").await;
    world.at("a").patch(WEB, json!({"spec": {"priority": 2}})).await;
    world.until_shows(WEB, "a=2 b=2").await;
    world.at("b").delete(WEB).await;
    world.until_shows(WEB, "a=- b=-").await;
    world.until_forgotten().await;
    world.rest().await;
}
