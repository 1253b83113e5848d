//! Where pods go, and what those hear that fit nowhere.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Cluster, NODES, PODS, Parts, condition, node, pod};

fn asks(cpu: &str) -> Value {
    json!({"containers": [{"name": "main", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}]})
}

fn place(pod: &Value) -> &str {
    pod["spec"]["nodeName"].as_str().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn pods_of_one_owner_are_spread_over_the_nodes() {
    let cluster = Cluster::running(Parts::default()).await;
    for number in 0..9 {
        let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": true}]);
        let metadata = json!({"name": format!("web-{number}"), "ownerReferences": owner});
        let spec =
            json!({"containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": false});
        cluster.create(PODS, json!({"metadata": metadata, "spec": spec})).await;
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for number in 0..9 {
        *counts.entry(place(&cluster.until_ready(&format!("web-{number}")).await).to_owned()).or_default() +=
            1;
    }
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [3, 3, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_room_says_why_and_goes_where_room_appears() {
    let mut parts = Parts::default();
    parts.kubelet.cpu = "2".into();
    let cluster = Cluster::running(parts).await;
    for number in 0..3 {
        cluster.pod(&format!("full-{number}"), json!({}), asks("1500m")).await;
        cluster.until_ready(&format!("full-{number}")).await;
    }
    cluster.pod("waits", json!({}), asks("1")).await;
    assert_eq!(
        cluster.until_unschedulable("waits").await,
        "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: \
         3 No preemption victims found for incoming pod."
    );
    cluster.pod("huge", json!({}), asks("9")).await;
    assert!(
        cluster.until_unschedulable("huge").await.ends_with("3 Preemption is not helpful for scheduling.")
    );
    // Neither is tried again before something changes.
    let before = cluster.writes().len();
    tokio::time::sleep(Duration::from_secs(250)).await;
    assert_eq!(cluster.writes()[before..], [""; 0]);
    assert_eq!(cluster.events("waits").await, ["FailedScheduling"]);
    cluster.delete(&pod("full-1")).await;
    assert_eq!(place(&cluster.until_ready("waits").await), "node-2");
    // A node that is large enough comes.
    let big = json!({
        "metadata": {"name": "big", "annotations": {"koinon.dev/simulated": "true"}},
        "status": {"capacity": {"cpu": "32"}},
    });
    cluster.create(NODES, big).await;
    let huge = cluster.until_ready("huge").await;
    assert_eq!((place(&huge), huge["status"]["podIP"].as_str().unwrap()), ("big", "10.244.3.2"));
}

#[tokio::test(start_paused = true)]
async fn without_any_node_pods_wait_for_the_first() {
    let mut parts = Parts::default();
    parts.kubelet.nodes = 0;
    let cluster = Cluster::running(parts).await;
    cluster.pod("web", json!({}), json!({})).await;
    assert_eq!(cluster.until_unschedulable("web").await, "no nodes available to schedule pods");
    cluster
        .create(NODES, json!({"metadata": {"name": "n", "labels": {"koinon.dev/simulated": "true"}}}))
        .await;
    cluster.until_ready("web").await;
}

#[tokio::test(start_paused = true)]
async fn cordons_taints_selectors_and_ports_are_respected() {
    let cluster = Cluster::running(Parts::default()).await;
    cluster.patch(&node("node-1"), json!({"spec": {"unschedulable": true}})).await;
    cluster
        .patch(
            &node("node-2"),
            json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}}),
        )
        .await;
    cluster.until(&node("node-1"), |node| node.unwrap()["spec"]["taints"].is_array()).await;
    cluster.pod("only", json!({}), json!({})).await;
    assert_eq!(place(&cluster.until_ready("only").await), "node-3");
    let tolerant = json!({"tolerations": [{"key": "k", "operator": "Exists"}], "nodeSelector": {"kubernetes.io/hostname": "node-2"}});
    cluster.pod("tolerant", json!({}), tolerant).await;
    assert_eq!(place(&cluster.until_ready("tolerant").await), "node-2");
    let port = json!({"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}]});
    cluster.pod("port", json!({}), port.clone()).await;
    cluster.until_ready("port").await;
    cluster.pod("taken", json!({}), port).await;
    assert_eq!(
        cluster.until_unschedulable("taken").await,
        "0/3 nodes are available: 1 node(s) didn't have free ports for the requested pod ports, \
         1 node(s) had untolerated taint(s), 1 node(s) were unschedulable. \
         no new claims to deallocate, preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, \
         2 Preemption is not helpful for scheduling."
    );
    cluster.patch(&node("node-1"), json!({"spec": {"unschedulable": null}})).await;
    assert_eq!(place(&cluster.until_ready("taken").await), "node-1");
}

#[tokio::test(start_paused = true)]
async fn gates_and_other_schedulers_keep_pods_back() {
    let cluster = Cluster::running(Parts::default()).await;
    cluster.pod("gated", json!({}), json!({"schedulingGates": [{"name": "example.com/wait"}]})).await;
    cluster.pod("theirs", json!({}), json!({"schedulerName": "another"})).await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    for name in ["gated", "theirs"] {
        assert_eq!(place(&cluster.get(&pod(name)).await.unwrap()), "", "{name}");
    }
    let gated = cluster.get(&pod("gated")).await.unwrap();
    assert_eq!(gated["status"]["conditions"][0]["reason"], "SchedulingGated");
    cluster.patch(&pod("gated"), json!({"spec": {"schedulingGates": null}})).await;
    cluster.until_ready("gated").await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_avoid_each_other_go_to_different_nodes() {
    let cluster = Cluster::running(Parts::default()).await;
    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "apart"}}},
    ]}}});
    for number in 0..4 {
        cluster.pod(&format!("apart-{number}"), json!({}), apart.clone()).await;
    }
    let why = cluster.until_unschedulable("apart-3").await;
    assert!(
        why.starts_with("0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules. "),
        "{why}"
    );
    let together = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "later"}}},
    ]}}});
    cluster.pod("follower", json!({}), together).await;
    let why = cluster.until_unschedulable("follower").await;
    assert!(why.contains("3 node(s) didn't match pod affinity rules"), "{why}");
    cluster.pod("later", json!({}), json!({})).await;
    let later = cluster.until_ready("later").await;
    assert_eq!(place(&cluster.until_ready("follower").await), place(&later));
    assert_eq!(condition(&later, "PodScheduled"), "True");
}

#[tokio::test(start_paused = true)]
async fn who_is_more_important_goes_first() {
    let mut parts = Parts::default();
    parts.kubelet.nodes = 1;
    parts.kubelet.pods_per_node = 1;
    let cluster = Cluster::running(parts).await;
    cluster.pod("first", json!({}), json!({})).await;
    cluster.until_ready("first").await;
    let class = json!({"metadata": {"name": "high"}, "value": 1000});
    cluster.create("/apis/scheduling.k8s.io/v1/priorityclasses", class).await;
    cluster.pod("low", json!({}), json!({})).await;
    cluster.pod("high", json!({}), json!({"priorityClassName": "high"})).await;
    for name in ["low", "high"] {
        assert!(cluster.until_unschedulable(name).await.contains("1 Too many pods"));
    }
    cluster.delete(&pod("first")).await;
    cluster.until_ready("high").await;
    assert_eq!(place(&cluster.get(&pod("low")).await.unwrap()), "");
}
