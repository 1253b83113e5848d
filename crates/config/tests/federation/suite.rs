//! AMKO's own suite, and bad input of every kind: one clear reason each.

use serde_json::json;

use crate::harness::{
    ALL_WELL, CLIENTS, CLUSTER, CLUSTERS, CONFIG, CONFIGS, FOLLOWER, LEASE, MEMBERS, POLICIES, POLICY,
    SECRET, VALID, World, amko_cluster, config, kubeconfig, policy, secret,
};

const PAIR: [&str; 2] = ["a", "b"];

/// A pair with something to federate, before anything runs.
async fn pair() -> World {
    let world = World::bare(&PAIR).await;
    for name in PAIR {
        world.at(name).create("/api/v1/namespaces/avi-system/secrets", secret(&PAIR)).await;
        world.at(name).create(CLUSTERS, amko_cluster(name, name == "a", &PAIR)).await;
    }
    world.at("a").create(CONFIGS, config("gc-1", 1800)).await;
    world.at("a").create(POLICIES, policy("global-gdp", 10)).await;
    world
}

async fn nothing_at(world: &World, name: &str) {
    for path in [CONFIGS, POLICIES] {
        assert_eq!(world.at(name).items(path).await, Vec::<serde_json::Value>::new());
    }
}

/// With this in its AMKOCluster, the leader federates nothing and says so.
async fn stops(spec: serde_json::Value, says: &[&str]) {
    let mut world = pair().await;
    world.at("a").patch(CLUSTER, json!({"spec": spec})).await;
    world.start("a");
    world.says("a", says).await;
    world.rest().await;
    nothing_at(&world, "b").await;
    assert!(!world.leads("a"));
}

#[tokio::test(start_paused = true)]
async fn an_empty_version_is_invalid() {
    stops(
        json!({"version": ""}),
        &["current AMKOCluster Validation = invalid AMKOCluster object (version field can't be empty in AMKOCluster object)"],
    )
    .await;
    stops(
        json!({"clusterContext": null}),
        &["current AMKOCluster Validation = invalid AMKOCluster object \
           (clusterContext field can't be empty in AMKOCluster object)"],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_current_cluster_need_not_be_in_its_list() {
    let mut world = pair().await;
    world.at("a").patch(CLUSTER, json!({"spec": {"clusters": ["b"]}})).await;
    world.start("a");
    world.says("a", &ALL_WELL).await;
    world.equal("a").await;
}

#[tokio::test(start_paused = true)]
async fn an_unknown_context_stops_all() {
    stops(
        json!({"clusters": ["a", "b", "x"]}),
        &[
            VALID,
            "member cluster initialisation = member cluster clients invalid (error in initialising member cluster contexts: \
             error in building context config for kubernetes cluster x: context \"x\" does not exist)",
        ],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_valid_pair_is_federated_and_updates_arrive() {
    let mut world = pair().await;
    world.start("a");
    world.start("b");
    world.says("a", &ALL_WELL).await;
    world.says("b", &[FOLLOWER]).await;
    world.equal("a").await;
    let uuid = json!({"amko.vmware.com/amko-uuid": "4abb1cf5-6a3a-4a8c-9d5f-0f2a5ac9d5b2"});
    world.at("a").patch(&format!("{CONFIGS}/gc-1"), json!({"metadata": {"annotations": uuid}})).await;
    world.equal("a").await;
    world.at("a").patch(&format!("{CONFIGS}/gc-1"), json!({"spec": {"refreshInterval": 999}})).await;
    world.at("a").patch(&format!("{POLICIES}/global-gdp"), json!({"spec": {"ttl": 1000}})).await;
    world.equal("a").await;
    let copy = world.at("b").get(&format!("{CONFIGS}/gc-1")).await.unwrap();
    assert_eq!(copy["spec"]["refreshInterval"], 999);
    assert_eq!(copy["metadata"]["annotations"], uuid);
    let managers: Vec<_> =
        copy["metadata"]["managedFields"].as_array().unwrap().iter().map(|one| &one["manager"]).collect();
    assert_eq!(managers, ["AMKO-Federator"]);
    let lease = world.at("a").until(LEASE, |lease| lease.is_some()).await.unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "a");
    assert!(world.leads("a") && !world.leads("b"));
    world.rest().await;
    assert_eq!(world.at("b").get(LEASE).await, None);
    world.stop("a").await;
    assert_eq!(world.at("a").get(LEASE).await.unwrap()["spec"].get("holderIdentity"), None);
}

#[tokio::test(start_paused = true)]
async fn another_version_is_named_and_its_repair_noticed() {
    let mut world = pair().await;
    world.at("b").patch(CLUSTER, json!({"spec": {"version": "1.5.1"}})).await;
    world.start("a");
    let says = "member cluster validation = error in validating some member clusters \
                (version mismatch, current AMKO: 1.4.2, AMKO in cluster b: 1.5.1)";
    world.says("a", &[VALID, CLIENTS, says]).await;
    world.rest().await;
    nothing_at(&world, "b").await;
    world.at("b").patch(CLUSTER, json!({"spec": {"version": "1.4.2"}})).await;
    world.says("a", &ALL_WELL).await;
    world.equal("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_or_second_amkocluster_is_named_and_its_repair_noticed() {
    let mut world = pair().await;
    world.at("b").delete(CLUSTER).await;
    world.start("a");
    let partial =
        |why: &str| format!("member cluster validation = error in validating some member clusters ({why})");
    let none = partial("no AMKOCluster object present in cluster b, can't federate");
    world.says("a", &[VALID, CLIENTS, &none]).await;
    nothing_at(&world, "b").await;
    let mut second = amko_cluster("b", false, &PAIR);
    second["metadata"]["name"] = "second".into();
    world.at("b").create(CLUSTERS, second).await;
    world.says("a", &ALL_WELL).await;
    world.at("b").create(CLUSTERS, amko_cluster("b", false, &PAIR)).await;
    let several = partial("more than one AMKOCluster objects present in cluster b, can't federate");
    world.says("a", &[VALID, CLIENTS, &several]).await;
    world.at("b").delete(&format!("{CLUSTERS}/second")).await;
    world.says("a", &ALL_WELL).await;
}

#[tokio::test(start_paused = true)]
async fn two_leaders_stop_both_and_demotion_heals() {
    let mut world = pair().await;
    world.at("b").set_leader(true).await;
    for name in PAIR {
        world.start(name);
    }
    let conflict = |other: &str| {
        format!(
            "member cluster validation = member cluster clients invalid \
             (AMKO in cluster {other} is also a leader, conflicting state)"
        )
    };
    world.says("a", &[VALID, CLIENTS, &conflict("b")]).await;
    world.says("b", &[VALID, CLIENTS, &conflict("a")]).await;
    world.rest().await;
    nothing_at(&world, "b").await;
    assert!(!world.leads("a") && !world.leads("b"));
    world.at("b").set_leader(false).await;
    world.says("a", &ALL_WELL).await;
    world.says("b", &[FOLLOWER]).await;
    world.equal("a").await;
}

#[tokio::test(start_paused = true)]
async fn extras_on_a_follower_go_and_updates_still_flow() {
    let mut world = pair().await;
    world.at("b").create(CONFIGS, config("extra", 1)).await;
    world.at("b").create(POLICIES, policy("extra", 1)).await;
    world.start("a");
    world.says("a", &ALL_WELL).await;
    world.equal("a").await;
    world.at("a").patch(&format!("{CONFIGS}/gc-1"), json!({"spec": {"refreshInterval": 5}})).await;
    world.equal("a").await;
}

#[tokio::test(start_paused = true)]
async fn deletions_arrive() {
    let world = World::settled(&PAIR).await;
    world.at("a").delete(&format!("{CONFIGS}/gc-1")).await;
    world.equal("a").await;
    world.at("a").delete(&format!("{POLICIES}/global-gdp")).await;
    world.equal("a").await;
    nothing_at(&world, "b").await;
    world.says("a", &ALL_WELL).await;
}

#[tokio::test(start_paused = true)]
async fn only_avi_system_counts_and_two_there_are_too_many() {
    let mut world = World::settled(&PAIR).await;
    let elsewhere = "/apis/amko.vmware.com/v1alpha1/namespaces/default/amkoclusters";
    world.at("a").create(elsewhere, amko_cluster("a", true, &PAIR)).await;
    let stray = format!("{elsewhere}/amkocluster-federation");
    let invalid = "current AMKOCluster Validation = invalid AMKOCluster object";
    let told =
        |object: Option<&serde_json::Value>| object.is_some_and(|one| one["status"]["conditions"].is_array());
    world.at("a").until(&stray, told).await;
    assert_eq!(
        world.at("a").conditions_of(&stray).await,
        [format!("{invalid} (AMKOCluster's namespace is not avi-system)")]
    );
    world.says("a", &ALL_WELL).await;

    let mut second = amko_cluster("a", true, &PAIR);
    second["metadata"]["name"] = "second".into();
    world.at("a").create(CLUSTERS, second).await;
    let several = format!(
        "{invalid} (more than one AMKOCluster objects present in the current cluster, can't federate)"
    );
    world.says("a", &[&several]).await;
    world.at("a").until(&format!("{CLUSTERS}/second"), told).await;
    assert_eq!(world.at("a").conditions_of(&format!("{CLUSTERS}/second")).await, [several]);
    world.at("a").delete(&format!("{CLUSTERS}/second")).await;
    world.says("a", &ALL_WELL).await;
    world.stop("a").await;
}

#[tokio::test(start_paused = true)]
async fn two_objects_of_a_kind_stop_it_and_what_comes_after() {
    let world = World::settled(&PAIR).await;
    world.at("a").create(CONFIGS, config("gc-2", 1)).await;
    let failure = "GSLBConfig Federation = failure in federation \
                   (more than one GSLBConfig objects are present in the current cluster)";
    world.says("a", &[VALID, CLIENTS, MEMBERS, failure]).await;
    world.at("a").delete(&format!("{CONFIGS}/gc-1")).await;
    world.at("a").create(POLICIES, policy("other", 1)).await;
    world
        .says(
            "a",
            &[
                VALID,
                CLIENTS,
                MEMBERS,
                CONFIG,
                "GDP Federation = failure in federation \
           (more than one GlobalDeploymentPolicies are present in the current cluster)",
            ],
        )
        .await;
    world.at("a").delete(&format!("{POLICIES}/global-gdp")).await;
    world.says("a", &[VALID, CLIENTS, MEMBERS, CONFIG, POLICY]).await;
    world.equal("a").await;
}

#[tokio::test(start_paused = true)]
async fn the_secret_may_be_missing_malformed_and_rotated_without_a_restart() {
    let world = World::settled(&["a", "b", "c"]).await;
    let failed = |why: &str| {
        format!(
            "member cluster initialisation = member cluster clients invalid \
             (error in initialising member cluster contexts: {why})"
        )
    };
    world.at("a").delete(SECRET).await;
    let missing = "Secret avi-system/gslb-config-secret is not there: create it with the key gslb-members";
    world.says("a", &[VALID, &failed(missing)]).await;
    let mut bad = secret(&["a"]);
    bad["stringData"]["gslb-members"] = "{".into();
    world.at("a").create("/api/v1/namespaces/avi-system/secrets", bad).await;
    let malformed =
        "the key gslb-members in Secret avi-system/gslb-config-secret is no kubeconfig (line 1, column 1)";
    world.says("a", &[VALID, &failed(malformed)]).await;
    world.at("a").patch(&format!("{CONFIGS}/gc-1"), json!({"spec": {"refreshInterval": 5}})).await;

    // One context leads nowhere: that member alone is left out.
    let mut one_bad = kubeconfig(&["a", "b", "c"]);
    one_bad["clusters"][1]["cluster"]["server"] = "https://nowhere".into();
    let rotate = async |kubeconfig: &serde_json::Value| {
        world.at("a").patch(SECRET, json!({"stringData": {"gslb-members": kubeconfig.to_string()}})).await
    };
    rotate(&one_bad).await;
    let some = "member cluster initialisation = some member cluster clients couldn't be fetched \
                (error in initializing member custer context b: \"https://nowhere\" leads nowhere)";
    world.says("a", &[VALID, some, MEMBERS, CONFIG, POLICY]).await;
    world.equals("a", "c").await;
    rotate(&kubeconfig(&["a", "b", "c"])).await;
    world.says("a", &ALL_WELL).await;
    world.equal("a").await;
    world.rest().await;
}
