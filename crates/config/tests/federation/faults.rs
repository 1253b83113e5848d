//! Drift, slow and lost members, lost answers, and a federator that ends at any of its requests.

use std::time::Duration;

use koinon_simulation::{Fault, Requests};
use serde_json::json;

use crate::harness::{
    ALL_WELL, CLIENTS, CLUSTER, CONFIG, CONFIGS, LEASE, POLICIES, POLICY, SECRET, VALID, World, config,
    faulty, policy, secret,
};

const THREE: [&str; 3] = ["a", "b", "c"];

#[tokio::test(start_paused = true)]
async fn copies_that_are_edited_deleted_or_added_are_put_right() {
    let world = World::settled(&THREE).await;
    let copy = format!("{CONFIGS}/gc-1");
    world.at("b").patch(&copy, json!({"spec": {"refreshInterval": 1, "useCustomGlobalFqdn": true}})).await;
    world.equal("a").await;
    world.at("b").patch(&copy, json!({"metadata": {"labels": {"foreign": "1"}}})).await;
    world.equal("a").await;
    world.at("b").delete(&copy).await;
    world.at("c").create(CONFIGS, config("extra", 1)).await;
    world.at("c").create(POLICIES, policy("extra", 1)).await;
    world.equal("a").await;
    world.says("a", &ALL_WELL).await;
    world.rest().await;
    // What belongs to the follower stays.
    let own =
        json!({"metadata": {"annotations": {"theirs": "kept"}}, "status": {"state": "synced all objects"}});
    world.at("b").patch(&copy, own).await;
    world.at("a").patch(&copy, json!({"spec": {"refreshInterval": 7}, "status": {"state": "ours"}})).await;
    world.equal("a").await;
    let theirs = world.at("b").get(&copy).await.unwrap();
    assert_eq!(theirs["status"]["state"], "synced all objects");
    assert_eq!(theirs["metadata"]["annotations"]["theirs"], "kept");
}

#[tokio::test(start_paused = true)]
async fn a_lost_member_is_named_holds_nobody_up_and_catches_up() {
    for fault in [Fault::Hang, Fault::Cut] {
        let world = World::settled(&THREE).await;
        world.network.set_around("b", &[fault]);
        world.at("a").patch(&format!("{CONFIGS}/gc-1"), json!({"spec": {"refreshInterval": 5}})).await;
        world.equals("a", "c").await;
        let why = match fault {
            Fault::Hang => "the server gave no answer within 5 seconds",
            _ => "connection refused",
        };
        let lost = format!(
            "member cluster validation = error in validating some member clusters \
             (error in getting AMKOCluster list for cluster b: {why})"
        );
        world.says("a", &[VALID, CLIENTS, &lost, CONFIG, POLICY]).await;
        world.at("b").patch(&format!("{POLICIES}/global-gdp"), json!({"spec": {"ttl": 1}})).await;
        world.at("a").delete(&format!("{POLICIES}/global-gdp")).await;
        world.equals("a", "c").await;
        world.network.set_around("b", &[]);
        world.equal("a").await;
        world.says("a", &ALL_WELL).await;
        // The old watches are dead for good; new ones see drift at once.
        world.at("b").patch(&format!("{CONFIGS}/gc-1"), json!({"spec": {"refreshInterval": 1}})).await;
        let start = tokio::time::Instant::now();
        world.equal("a").await;
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        world.rest().await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_hangs_in_the_middle_of_a_write_costs_only_itself() {
    let world = World::settled(&THREE).await;
    world.network.set_between("a", "b", &[Fault::Delay(Duration::from_secs(4))]);
    for interval in [3, 4, 5] {
        world.at("a").patch(&format!("{CONFIGS}/gc-1"), json!({"spec": {"refreshInterval": interval}})).await;
        let start = tokio::time::Instant::now();
        world.equals("a", "c").await;
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    }
    world.equal("a").await;
    world.network.set_between("a", "b", &[]);
    world.says("a", &ALL_WELL).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_leaves_the_set_keeps_its_copies() {
    let world = World::settled(&THREE).await;
    world.at("a").patch(CLUSTER, json!({"spec": {"clusters": ["a", "c"]}})).await;
    world.rest().await;
    world.at("a").delete(&format!("{CONFIGS}/gc-1")).await;
    world.equals("a", "c").await;
    world.rest().await;
    assert_eq!(world.at("b").items(CONFIGS).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_keeps_objects_differently_is_named_and_left_in_peace() {
    let world = World::settled(&["a", "b"]).await;
    // An older definition over there knows less.
    let crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gslbconfigs.amko.vmware.com";
    let mut definition = world.at("b").get(crd).await.unwrap();
    let properties = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        ["properties"];
    properties.as_object_mut().unwrap().remove("useCustomGlobalFqdn");
    world.at("b").patch(crd, json!({"spec": definition["spec"]})).await;
    world.at("a").patch(&format!("{CONFIGS}/gc-1"), json!({"spec": {"useCustomGlobalFqdn": true}})).await;
    let failed = "GSLBConfig Federation = error in federating to some clusters (error in updating GSLBConfig gc-1 in \
                  cluster b: it is not kept as it was written; is the definition of its kind another one there?)";
    world
        .says(
            "a",
            &[VALID, CLIENTS, "member cluster validation = validated all member clusters", failed, POLICY],
        )
        .await;
    world.rest().await;
    world.at("a").patch(&format!("{CONFIGS}/gc-1"), json!({"spec": {"useCustomGlobalFqdn": null}})).await;
    world.says("a", &ALL_WELL).await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_a_member_refuses_is_told_and_tried_again() {
    let world = World::settled(&["a", "b"]).await;
    let crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gslbconfigs.amko.vmware.com";
    world.at("b").delete(crd).await;
    world.at("a").patch(&format!("{CONFIGS}/gc-1"), json!({"spec": {"refreshInterval": 5}})).await;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(120);
    while !world.at("a").conditions().await.iter().any(|line| {
        line.starts_with("GSLBConfig Federation = error in federating to some clusters (error in getting GSLBConfig list for cluster b")
    }) {
        assert!(tokio::time::Instant::now() < deadline, "{:#?}", world.at("a").conditions().await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for definition in koinon_config::crds() {
        if definition["metadata"]["name"] == "gslbconfigs.amko.vmware.com" {
            world.at("b").create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
        }
    }
    world.at("b").until(CONFIGS, |list| list.is_some()).await;
    world.says("a", &ALL_WELL).await;
    world.equal("a").await;
}

/// Not to lead for want of credentials is no new beginning: what is deleted meanwhile was there before.
#[tokio::test(start_paused = true)]
async fn what_is_deleted_while_the_secret_is_away_goes_everywhere_once_it_is_back() {
    let world = World::settled(&THREE).await;
    world.at("a").delete(SECRET).await;
    world.rest().await;
    assert!(!world.leads("a"));
    world.at("a").delete(&format!("{POLICIES}/global-gdp")).await;
    world.rest().await;
    world.at("a").create("/api/v1/namespaces/avi-system/secrets", secret(&THREE)).await;
    world.equal("a").await;
    assert!(world.at("b").get(&format!("{POLICIES}/global-gdp")).await.is_none());
}

/// That our own server is away for a while says nothing about who leads.
#[tokio::test(start_paused = true)]
async fn a_leader_whose_own_server_was_away_for_a_minute_leads_on() {
    for fault in [Fault::Cut, Fault::Hang, Fault::Refuse { what: Requests::Any, code: 503, one_in: 1 }] {
        let world = World::settled(&THREE).await;
        world.rest().await;
        let before = (world.at("a").get(CLUSTER).await.unwrap(), world.told());
        world.network.set("a", "a", &[fault]);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(world.leads("a"));
        // Back again, its Secret is the last that it tells.
        world.network.single_out("a", "a", |request| {
            request.path.contains("/secrets").then_some(Fault::Delay(Duration::from_secs(4)))
        });
        world.network.set("a", "a", &[]);
        for _ in 0..600 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(world.leads("a"));
            let lease = world.at("a").get(LEASE).await.unwrap();
            assert_eq!(lease["spec"]["holderIdentity"], "a");
        }
        assert_eq!(world.at("a").get(CLUSTER).await.unwrap()["metadata"], before.0["metadata"], "{fault:?}");
        assert_eq!(world.told(), before.1);
        world.at("a").patch(&format!("{CONFIGS}/gc-1"), json!({"spec": {"refreshInterval": 5}})).await;
        world.equal("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn lost_answers_and_failures_leave_no_trace() {
    for every in [2, 3, 5, 9] {
        let world = World::settled(&THREE).await;
        for name in THREE {
            world.network.set("a", name, &faulty(every));
        }
        world.at("a").patch(&format!("{CONFIGS}/gc-1"), json!({"spec": {"refreshInterval": every}})).await;
        world.at("a").delete(&format!("{POLICIES}/global-gdp")).await;
        world.at("b").create(CONFIGS, config("extra", 1)).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        for name in THREE {
            world.network.set("a", name, &[]);
        }
        world.equal("a").await;
        world.says("a", &ALL_WELL).await;
        world.rest().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_federator_that_ends_at_any_request_is_replaced_by_one_that_finishes() {
    for requests in 1..40 {
        let mut world = World::settled(&["a", "b"]).await;
        world.crash("a").await;
        world.at("a").patch(&format!("{CONFIGS}/gc-1"), json!({"spec": {"refreshInterval": requests}})).await;
        world.at("a").delete(&format!("{POLICIES}/global-gdp")).await;
        world.at("b").create(CONFIGS, config("extra", 1)).await;
        world.start("a");
        world.fuse("a").after(requests);
        tokio::time::sleep(Duration::from_secs(20)).await;
        world.crash("a").await;
        world.start("a");
        world.equal("a").await;
        world.says("a", &ALL_WELL).await;
        world.rest().await;
    }
}
