//! Further kinds, as `spec.objects` names them.

use serde_json::{Value, json};

use crate::harness::{ALL_WELL, CLUSTER, World};

const RULES: &str = "/apis/amko.vmware.com/v1alpha1/namespaces/shop/gslbhostrules";

fn definition() -> Value {
    definition_in("amko.vmware.com")
}

fn definition_in(group: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gslbhostrules.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": "GSLBHostRule", "listKind": "GSLBHostRuleList", "plural": "gslbhostrules", "singular": "gslbhostrule"},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }}},
            }],
        },
    })
}

fn rule(name: &str, ttl: u64) -> Value {
    json!({
        "apiVersion": "amko.vmware.com/v1alpha1", "kind": "GSLBHostRule",
        "metadata": {"name": name}, "spec": {"fqdn": format!("{name}.example.com"), "ttl": ttl},
    })
}

async fn specs(world: &World, name: &str) -> Vec<Value> {
    match world.at(name).get(RULES).await {
        Some(list) => list["items"].as_array().unwrap().iter().map(|item| item["spec"].clone()).collect(),
        None => Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn host_rules_of_all_namespaces_are_federated_like_the_rest() {
    let world = World::settled(&["a", "b"]).await;
    for name in ["a", "b"] {
        world.at(name).create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition()).await;
        world.at(name).until(RULES, |list| list.is_some()).await;
    }
    world.at("a").create("/api/v1/namespaces", json!({"metadata": {"name": "shop"}})).await;
    for number in 0..20 {
        world.at("a").create(RULES, rule(&format!("r{number}"), 1)).await;
    }
    let wanted =
        json!([{"apiVersion": "amko.vmware.com/v1alpha1", "kind": "GSLBHostRule", "namespace": "*"}]);
    world.at("a").patch(CLUSTER, json!({"spec": {"objects": wanted}})).await;
    let rules = "GSLBHostRule Federation = federated to all valid clusters successfully";
    let all: Vec<&str> = ALL_WELL.into_iter().chain([rules]).collect();
    world.says("a", &all).await;
    // The namespace was made there too.
    assert_eq!(specs(&world, "b").await, specs(&world, "a").await);
    assert_eq!(specs(&world, "b").await.len(), 20);
    world.at("a").patch(&format!("{RULES}/r7"), json!({"spec": {"ttl": 9}})).await;
    world.at("a").delete(&format!("{RULES}/r8")).await;
    world.at("b").delete(&format!("{RULES}/r9")).await;
    world.at("b").create(RULES, rule("extra", 1)).await;
    world.rest().await;
    assert_eq!(specs(&world, "b").await, specs(&world, "a").await);
    // No longer named, they are no longer ours.
    world.at("a").patch(CLUSTER, json!({"spec": {"objects": null}})).await;
    world.says("a", &ALL_WELL).await;
    world.at("a").delete(&format!("{RULES}/r1")).await;
    world.rest().await;
    assert_eq!(specs(&world, "b").await.len(), 19);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_named_and_found_when_it_comes() {
    let world = World::settled(&["a", "b"]).await;
    let wanted = json!([{"apiVersion": "amko.vmware.com/v1alpha1", "kind": "GSLBHostRule"}]);
    world.at("a").patch(CLUSTER, json!({"spec": {"objects": wanted}})).await;
    let failed = "GSLBHostRule Federation = failure in federation (error in getting GSLBHostRule list in the current \
                  cluster: amko.vmware.com/v1alpha1 GSLBHostRule is not served)";
    let all: Vec<&str> = ALL_WELL.into_iter().chain([failed]).collect();
    world.says("a", &all).await;
    world.rest().await;
    for name in ["a", "b"] {
        world.at(name).create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition()).await;
    }
    let rules = "GSLBHostRule Federation = federated to all valid clusters successfully";
    let all: Vec<&str> = ALL_WELL.into_iter().chain([rules]).collect();
    world.says("a", &all).await;
}

#[tokio::test(start_paused = true)]
async fn kinds_of_one_name_in_two_groups_are_both_federated() {
    let world = World::settled(&["a", "b"]).await;
    let groups = ["amko.vmware.com", "rules.example.com"];
    let path = |group: &str| format!("/apis/{group}/v1alpha1/namespaces/avi-system/gslbhostrules");
    for group in groups {
        for name in ["a", "b"] {
            let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            world.at(name).create(definitions, definition_in(group)).await;
            world.at(name).until(&path(group), |list| list.is_some()).await;
        }
        let mut rule = rule("r", 1);
        rule["apiVersion"] = format!("{group}/v1alpha1").into();
        world.at("a").create(&path(group), rule).await;
    }
    let wanted =
        groups.map(|group| json!({"apiVersion": format!("{group}/v1alpha1"), "kind": "GSLBHostRule"}));
    world.at("a").patch(CLUSTER, json!({"spec": {"objects": wanted}})).await;
    let all: Vec<&str> = ALL_WELL
        .into_iter()
        .chain([
            "GSLBHostRule Federation = federated to all valid clusters successfully",
            "GSLBHostRule.rules.example.com Federation = federated to all valid clusters successfully",
        ])
        .collect();
    world.says("a", &all).await;
    for group in groups {
        assert_eq!(world.at("b").items(&path(group)).await.len(), 1, "{group}");
    }
}
