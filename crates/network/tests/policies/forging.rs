//! Users who write on a policy that it is a revision of somebody else's, or one that nobody counted to.

use std::time::Duration;

use koinon_network::policies::content::Content;
use koinon_network::policies::key::PolicyKey;
use koinon_network::policies::version::HIGHEST;
use koinon_simulation::Fault;
use serde_json::{Value, json};

use crate::harness::{ACNPS, World, acnp};

const WEB: &str = "/apis/crd.antrea.io/v1beta1/clusternetworkpolicies/web";
const REVISION: &str = "koinon.dev/policy-revision";
const ACCEPT: &str = "koinon.dev/accept-policies";

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// The policy `web`, which claims to be an untouched copy of this revision of this cluster.
fn forged(says: i64, rev: u64, origin: &str) -> Value {
    let mut policy = acnp("web", says);
    let content = Content::of(&serde_json::from_value(policy.clone()).unwrap());
    let hash = content.hash(&PolicyKey::cluster("web"));
    policy["metadata"]["annotations"][REVISION] = json!(format!("{rev}.0.{hash}.{origin}"));
    policy
}

#[tokio::test(start_paused = true)]
async fn a_forged_origin_goes_where_its_forger_may_send_it() {
    let world = World::new(&["a", "b", "c"]).await;
    world.at("c").annotate_federation(json!({ACCEPT: "a"})).await;
    pass(5).await;
    world.at("b").create(ACNPS, forged(1, 1, "a")).await;
    world.until_event("b", "default", "web", "FederatedPolicyUnproved: the annotation").await;
    world.rest().await;
    // It is a policy of b, as every other that is made there.
    world.until_shows(WEB, "a=1 b=1 c=-").await;
    assert!(world.at("b").ledger().await.contains("\"origin\":\"b\""), "{}", world.at("b").ledger().await);
    // Over what stands in c it does not go either.
    world.at("a").patch(WEB, json!({"spec": {"priority": 2}})).await;
    world.until_shows(WEB, "a=2 b=2 c=2").await;
    world.rest().await;
    world.at("b").delete(WEB).await;
    world.at("b").create(ACNPS, forged(3, 9, "a")).await;
    world.rest().await;
    world.until_shows(WEB, "a=3 b=3 c=2").await;
}

#[tokio::test(start_paused = true)]
async fn a_forged_revision_neither_wins_nor_stays_for_ever() {
    for origin in ["a", "b"] {
        let world = World::new(&["a", "b", "c"]).await;
        world.at("b").create(ACNPS, forged(1, HIGHEST, origin)).await;
        world.until_shows(WEB, "a=1 b=1 c=1").await;
        world.rest().await;
        for name in ["a", "b", "c"] {
            let ledger = world.at(name).ledger().await;
            assert!(ledger.contains("\"rev\":1,"), "{ledger}");
        }
        // Over what is there already it is one change more.
        world.at("b").delete(WEB).await;
        world.until_shows(WEB, "a=- b=- c=-").await;
        world.until_forgotten().await;
        world.at("a").create(ACNPS, acnp("web", 2)).await;
        world.until_shows(WEB, "a=2 b=2 c=2").await;
        let annotations = forged(3, HIGHEST, origin)["metadata"]["annotations"].clone();
        let patch = json!({"metadata": {"annotations": annotations}, "spec": {"priority": 3}});
        world.at("b").patch(WEB, patch).await;
        world.until_shows(WEB, "a=3 b=3 c=3").await;
        world.at("c").patch(WEB, json!({"spec": {"priority": 4}})).await;
        world.until_shows(WEB, "a=4 b=4 c=4").await;
        world.at("a").delete(WEB).await;
        world.until_shows(WEB, "a=- b=- c=-").await;
        world.until_forgotten().await;
        world.rest().await;
    }
}

#[tokio::test(start_paused = true)]
async fn where_a_ledger_is_not_known_nothing_is_believed_of_it() {
    let mut world = World::new(&["a", "b", "c"]).await;
    world.rest().await;
    world.kill("a").await;
    world.at("b").create(ACNPS, forged(1, 1, "a")).await;
    // Beside b nobody can reach a, where the revision may have been made.
    world.start("b").await;
    world.network.set("b", "a", &[Fault::Cut]);
    pass(300).await;
    world.until_shows(WEB, "a=- b=1 c=-").await;
    assert!(!world.at("b").ledger().await.contains("web"), "{}", world.at("b").ledger().await);
    world.network.heal();
    world.until_shows(WEB, "a=1 b=1 c=1").await;
    world.rest().await;
    assert!(world.at("c").ledger().await.contains("\"origin\":\"b\""), "{}", world.at("c").ledger().await);
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_nobody_came_to_write_down_is_still_known() {
    for lost in ["b", "c"] {
        let mut world = World::new(&["a", "b", "c"]).await;
        world.at("c").annotate_federation(json!({ACCEPT: "a"})).await;
        world.at("a").create(ACNPS, acnp("web", 1)).await;
        world.until_shows(WEB, "a=1 b=1 c=1").await;
        world.rest().await;
        world.kill("a").await;
        // As if the leader had died before it wrote the page.
        world.at(lost).forget_policies().await;
        world.start("a").await;
        world.rest().await;
        world.until_shows(WEB, "a=1 b=1 c=1").await;
        let ledger = world.at(lost).ledger().await;
        assert!(ledger.contains("\"rev\":1,\"origin\":\"a\""), "{ledger}");
        let events = world.at(lost).events("default", "web").await;
        assert!(!events.iter().any(|event| event.starts_with("FederatedPolicyUnproved")), "{events:#?}");
        world.at(lost).delete(WEB).await;
        let gone = if lost == "b" { "a=- b=- c=1" } else { "a=- b=- c=-" };
        world.until_shows(WEB, gone).await;
        world.rest().await;
    }
}
