//! The seed's disasters, step by step: nothing is lost, and never two that federate.

use std::time::Duration;

use koinon_simulation::Fault;
use serde_json::json;

use crate::harness::{
    ALL_WELL, CLIENTS, CLUSTER, CLUSTERS, CONFIG, CONFIGS, FOLLOWER, LEASE, MEMBERS, POLICIES, POLICY,
    SECRET, VALID, World, amko_cluster, config, kubeconfig,
};

const SITES: [&str; 3] = ["a", "b", "c"];

fn conflict(other: &str) -> String {
    format!(
        "member cluster validation = member cluster clients invalid \
         (AMKO in cluster {other} is also a leader, conflicting state)"
    )
}

fn never_had(stage: &str, kind: &str) -> String {
    format!(
        "{stage} Federation = failure in federation (no {kind} object is present in the current cluster, and there was \
         none since it became leader; those in b, c are left alone: create one here, or delete them there)"
    )
}

const A_IS_LOST: &str = "member cluster validation = error in validating some member clusters \
                         (error in getting AMKOCluster list for cluster a: the server gave no answer within 5 seconds)";

/// The leader is lost, and `b` promoted after an edit there.
async fn after_the_switch() -> World {
    let mut world = World::settled(&SITES).await;
    // The site is gone, and its federator with it.
    world.network.set_around("a", &[Fault::Hang]);
    world.crash("a").await;
    world
        .at("b")
        .patch(&format!("{CONFIGS}/gc-1"), json!({"spec": {"gslbLeader": {"controllerIP": "10.0.0.2"}}}))
        .await;
    world.at("b").set_leader(true).await;
    world.says("b", &[VALID, CLIENTS, A_IS_LOST, CONFIG, POLICY]).await;
    world.equals("b", "c").await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_site_fails_and_a_follower_takes_over() {
    let world = after_the_switch().await;
    world.at("b").patch(&format!("{POLICIES}/global-gdp"), json!({"spec": {"ttl": 77}})).await;
    world.equals("b", "c").await;
    assert!(world.leads("b"));
    let lease = world.at("b").until(LEASE, |lease| lease.is_some()).await.unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "b");
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn the_old_leader_boots_up_and_is_demoted() {
    let mut world = after_the_switch().await;
    let before = world.written_to_others("a").len();
    world.network.set_around("a", &[]);
    world.start("a");
    world.says("a", &[VALID, CLIENTS, &conflict("b")]).await;
    world.says("b", &[VALID, CLIENTS, &conflict("a")]).await;
    assert_eq!(world.written_to_others("a").len(), before, "the old leader finds out before it writes");
    // Nothing is federated while there are two, and nothing of either is lost.
    let written = world.told();
    world.at("b").patch(&format!("{CONFIGS}/gc-1"), json!({"spec": {"refreshInterval": 5}})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.told(), written);
    assert_eq!(world.at("b").get(LEASE).await.unwrap()["spec"].get("holderIdentity"), None);
    world.at("a").set_leader(false).await;
    world.says("a", &[FOLLOWER]).await;
    world.says("b", &ALL_WELL).await;
    world.equal("b").await;
    let copy = world.at("a").get(&format!("{CONFIGS}/gc-1")).await.unwrap();
    assert_eq!(copy["spec"]["gslbLeader"]["controllerIP"], "10.0.0.2");
    assert_eq!(copy["spec"]["refreshInterval"], 5);
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn the_old_leader_may_stay_and_the_new_one_step_back() {
    let mut world = after_the_switch().await;
    world.network.set_around("a", &[]);
    world.start("a");
    world.says("b", &[VALID, CLIENTS, &conflict("a")]).await;
    world.at("b").set_leader(false).await;
    world.says("b", &[FOLLOWER]).await;
    world.says("a", &ALL_WELL).await;
    world.equal("a").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_conflict_stays_in_force_while_the_other_is_out_of_reach_and_over_a_restart() {
    let mut world = after_the_switch().await;
    world.network.set_around("a", &[]);
    world.start("a");
    world.says("b", &[VALID, CLIENTS, &conflict("a")]).await;
    world.network.set_around("a", &[Fault::Hang]);
    world.crash("b").await;
    // What is remembered is the fact and not the sentence that tells it.
    let reworded =
        json!({"status": {"conditions": [{"type": "somebody", "status": "said", "reason": "otherwise"}]}});
    world.at("b").patch(&format!("{CLUSTER}/status"), reworded).await;
    world.start("b");
    let written = world.written_to_others("b").len();
    world.at("b").patch(&format!("{CONFIGS}/gc-1"), json!({"spec": {"refreshInterval": 5}})).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    world.says("b", &[VALID, CLIENTS, &conflict("a")]).await;
    assert_eq!(world.written_to_others("b").len(), written);
    // Stepping back and forth again says: the other is the one that was lost.
    world.at("b").set_leader(false).await;
    world.says("b", &[FOLLOWER]).await;
    world.at("b").set_leader(true).await;
    world.equals("b", "c").await;
    world.network.set_around("a", &[]);
    world.says("b", &[VALID, CLIENTS, &conflict("a")]).await;
    world.at("a").set_leader(false).await;
    world.says("b", &ALL_WELL).await;
    world.equal("b").await;
}

#[tokio::test(start_paused = true)]
async fn a_second_leader_is_noticed_although_nothing_happens_here() {
    let world = World::settled(&SITES).await;
    world.rest().await;
    let start = tokio::time::Instant::now();
    world.at("c").set_leader(true).await;
    world.says("a", &[VALID, CLIENTS, &conflict("c")]).await;
    world.says("c", &[VALID, CLIENTS, &conflict("a")]).await;
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    world.at("c").set_leader(false).await;
    world.says("a", &ALL_WELL).await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_was_made_anew_and_empty_deletes_nothing() {
    let mut world = World::settled(&SITES).await;
    built_anew(&mut world).await;
    world.start("a");
    let held = [never_had("GSLBConfig", "GSLBConfig"), never_had("GDP", "GlobalDeploymentPolicy")];
    world.says("a", &[VALID, CLIENTS, MEMBERS, &held[0], &held[1]]).await;
    world.rest().await;
    assert_eq!(world.at("b").items(CONFIGS).await.len(), 1);
    world.at("a").create(CONFIGS, config("gc-1", 42)).await;
    world.at("a").create(POLICIES, crate::harness::policy("other", 42)).await;
    world.equal("a").await;
    world.says("a", &ALL_WELL).await;
}

/// A leader that was built anew: nothing of the old store is left, its Secret excepted.
async fn built_anew(world: &mut World) {
    world.crash("a").await;
    for path in [CLUSTER, LEASE] {
        world.at("a").delete(path).await;
    }
    world.at("a").delete(&format!("{CONFIGS}/gc-1")).await;
    world.at("a").delete(&format!("{POLICIES}/global-gdp")).await;
    world.at("a").create(CLUSTERS, amko_cluster("a", true, &SITES)).await;
}

/// What the status says while there is nobody to federate to is no leave to delete once there is.
#[tokio::test(start_paused = true)]
async fn an_empty_leader_that_was_alone_at_first_deletes_nothing_when_members_appear() {
    let mut world = World::settled(&SITES).await;
    built_anew(&mut world).await;
    let mut bad = kubeconfig(&SITES);
    for cluster in bad["clusters"].as_array_mut().unwrap() {
        cluster["cluster"]["server"] = "https://nowhere".into();
    }
    let rotate = async |world: &World, kubeconfig: &serde_json::Value| {
        world.at("a").patch(SECRET, json!({"stringData": {"gslb-members": kubeconfig.to_string()}})).await
    };
    rotate(&world, &bad).await;
    world.start("a");
    let none = |name| {
        format!("error in initializing member custer context {name}: \"https://nowhere\" leads nowhere")
    };
    let some = format!(
        "member cluster initialisation = some member cluster clients couldn't be fetched ({},{})",
        none("b"),
        none("c")
    );
    world.says("a", &[VALID, &some, MEMBERS, CONFIG, POLICY]).await;
    rotate(&world, &kubeconfig(&SITES)).await;
    let held = [never_had("GSLBConfig", "GSLBConfig"), never_had("GDP", "GlobalDeploymentPolicy")];
    world.says("a", &[VALID, CLIENTS, MEMBERS, &held[0], &held[1]]).await;
    world.rest().await;
    for name in ["b", "c"] {
        assert_eq!(world.at(name).items(CONFIGS).await.len(), 1);
        assert_eq!(world.at(name).items(POLICIES).await.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_while_no_federator_runs_goes_everywhere_if_this_leader_had_it() {
    let mut world = World::settled(&SITES).await;
    world.stop("a").await;
    world.at("a").delete(&format!("{CONFIGS}/gc-1")).await;
    world.start("a");
    world.equal("a").await;
    assert_eq!(world.at("b").items(CONFIGS).await.len(), 0);
    world.says("a", &ALL_WELL).await;
}

/// What it had as a leader of old says nothing about what it has as a new one.
#[tokio::test(start_paused = true)]
async fn a_leader_that_stepped_back_and_comes_back_empty_deletes_nothing() {
    let mut world = World::settled(&SITES).await;
    world.at("a").set_leader(false).await;
    world.says("a", &[FOLLOWER]).await;
    world.rest().await;
    world.stop("a").await;
    world.at("a").delete(&format!("{CONFIGS}/gc-1")).await;
    world.at("a").set_leader(true).await;
    world.start("a");
    world.says("a", &[VALID, CLIENTS, MEMBERS, &never_had("GSLBConfig", "GSLBConfig"), POLICY]).await;
    world.rest().await;
    assert_eq!(world.at("b").items(CONFIGS).await.len(), 1);
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The server deletes the objects of a definition before the definition is gone: nobody meant their copies.
#[tokio::test(start_paused = true)]
async fn deleting_a_definition_on_the_leader_leaves_the_followers_alone() {
    let mut world = World::settled(&SITES).await;
    // Deleted at once, and slowly: something holds the object, and with it the definition, on its way out.
    for finalizer in [None, Some("example.com/slow")] {
        let gc = format!("{CONFIGS}/gc-1");
        world.at("a").patch(&gc, json!({"metadata": {"finalizers": finalizer.map(|one| [one])}})).await;
        world.at("a").delete(&format!("{DEFINITIONS}/gslbconfigs.amko.vmware.com")).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        if finalizer.is_some() {
            world.at("a").patch(&gc, json!({"metadata": {"finalizers": null}})).await;
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        for name in ["b", "c"] {
            assert_eq!(world.at(name).items(CONFIGS).await.len(), 1, "{}", world.told());
            assert_eq!(world.at(name).items(POLICIES).await.len(), 1);
        }
        // Made anew, it has no objects, and that deletes nothing either: not even after a restart.
        let definition = koinon_config::crds().swap_remove(1);
        world.at("a").create(DEFINITIONS, definition).await;
        let anew = "GSLBConfig Federation = failure in federation (the definition of GSLBConfig in the current cluster \
                    was made anew, and its objects went with the old one; those in b, c are left alone: create one \
                    here, or delete them there)";
        world.says("a", &[VALID, CLIENTS, MEMBERS, anew, POLICY]).await;
        world.stop("a").await;
        world.start("a");
        world.rest().await;
        world.says("a", &[VALID, CLIENTS, MEMBERS, anew, POLICY]).await;
        assert_eq!(world.at("b").items(CONFIGS).await.len(), 1);
        // What is there again is federated again, and so is its end.
        world.at("a").create(CONFIGS, config("gc-1", 42)).await;
        world.equal("a").await;
        world.says("a", &ALL_WELL).await;
        world.at("a").delete(&gc).await;
        world.equal("a").await;
        world.at("a").create(CONFIGS, config("gc-1", 43)).await;
        world.equal("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn uninstalling_the_leader_leaves_the_followers_alone() {
    let world = World::settled(&SITES).await;
    // Nobody empties the namespace here: its objects go one by one, as a namespace controller has it.
    world.at("a").delete("/api/v1/namespaces/avi-system").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.at("a").delete(&format!("{CONFIGS}/gc-1")).await;
    world.at("a").delete(&format!("{POLICIES}/global-gdp")).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    for name in ["b", "c"] {
        assert_eq!(world.at(name).items(CONFIGS).await.len(), 1);
        assert_eq!(world.at(name).items(POLICIES).await.len(), 1);
    }
}
