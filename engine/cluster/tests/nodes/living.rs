//! Nodes that come, fall silent, return and go, and what that means for their pods.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::harness::{Cluster, NODES, Parts, answer_of, condition, is_schedulable, node, pod, taints};

fn on(node: &str) -> Value {
    json!({"nodeName": node})
}

async fn break_node(cluster: &Cluster, name: &str) {
    cluster.patch(&node(name), json!({"metadata": {"annotations": {"koinon.dev/broken": "true"}}})).await;
}

async fn heal_node(cluster: &Cluster, name: &str) {
    cluster.patch(&node(name), json!({"metadata": {"annotations": {"koinon.dev/broken": null}}})).await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_is_marked_emptied_in_time_and_taken_back() {
    let cluster = Cluster::running(Parts::default()).await;
    cluster.pod("web", json!({}), on("node-1")).await;
    let faithful = json!({"nodeName": "node-1", "tolerations": [{"operator": "Exists"}]});
    cluster.pod("faithful", json!({}), faithful).await;
    cluster.until_ready("web").await;
    cluster.until_ready("faithful").await;
    let start = Instant::now();
    break_node(&cluster, "node-1").await;
    let silent =
        cluster.until(&node("node-1"), |node| condition(node.unwrap(), "Ready") == "Unknown").await.unwrap();
    let after = start.elapsed().as_secs();
    assert!((40..=51).contains(&after), "{after}");
    let ready =
        silent["status"]["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "Ready").unwrap();
    assert_eq!(ready["reason"], "NodeStatusUnknown");
    assert_eq!(ready["message"], "Kubelet stopped posting node status.");
    let expected = ["unreachable:NoExecute", "unreachable:NoSchedule"];
    cluster.until(&node("node-1"), |node| taints(node.unwrap()) == expected).await;
    for name in ["web", "faithful"] {
        cluster.until(&pod(name), |pod| condition(pod.unwrap(), "Ready") == "False").await;
    }
    // The default tolerations give a pod five minutes.
    let tainted = Instant::now();
    let leaving =
        cluster.until(&pod("web"), |pod| pod.unwrap()["metadata"]["deletionTimestamp"].is_string()).await;
    let after = tainted.elapsed().as_secs();
    assert!((298..=301).contains(&after), "{after}");
    assert_eq!(condition(&leaving.unwrap(), "DisruptionTarget"), "True");
    assert!(cluster.events("web").await.contains(&"TaintManagerEviction".to_owned()));
    assert!(cluster.get(&pod("faithful")).await.unwrap()["metadata"]["deletionTimestamp"].is_null());
    // The node returns: it ends what had to leave, and the rest is ready as before.
    heal_node(&cluster, "node-1").await;
    cluster.until(&node("node-1"), is_schedulable).await;
    cluster.until_gone(&pod("web")).await;
    cluster.until_ready("faithful").await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_returns_in_time_loses_nobody() {
    let cluster = Cluster::running(Parts::default()).await;
    cluster.pod("web", json!({}), on("node-1")).await;
    let before = cluster.until_ready("web").await;
    break_node(&cluster, "node-1").await;
    cluster.until(&node("node-1"), |node| taints(node.unwrap()).len() == 2).await;
    tokio::time::sleep(Duration::from_secs(200)).await;
    heal_node(&cluster, "node-1").await;
    cluster.until(&node("node-1"), is_schedulable).await;
    let after = cluster.until_ready("web").await;
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(cluster.until_ready("web").await["metadata"]["uid"], before["metadata"]["uid"]);
}

#[tokio::test(start_paused = true)]
async fn when_all_nodes_are_silent_nobody_is_sent_away() {
    let cluster = Cluster::running(Parts::default()).await;
    cluster.pod("web", json!({}), on("node-1")).await;
    cluster.until_ready("web").await;
    for name in ["node-1", "node-2", "node-3"] {
        break_node(&cluster, name).await;
    }
    for name in ["node-1", "node-2", "node-3"] {
        cluster.until(&node(name), |node| taints(node.unwrap()) == ["unreachable:NoSchedule"]).await;
    }
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert!(cluster.get(&pod("web")).await.unwrap()["metadata"]["deletionTimestamp"].is_null());
    // One is enough to see that the others really are silent.
    heal_node(&cluster, "node-3").await;
    cluster.until(&pod("web"), |pod| pod.unwrap()["metadata"]["deletionTimestamp"].is_string()).await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_node_stays_away_and_its_pods_go() {
    let mut cluster = Cluster::running(Parts::default()).await;
    cluster.pod("web", json!({}), on("node-1")).await;
    cluster.until_ready("web").await;
    cluster.delete(&node("node-1")).await;
    let start = Instant::now();
    cluster.until_gone(&pod("web")).await;
    assert_eq!(start.elapsed().as_secs(), 40);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(cluster.get(&node("node-1")).await, None);
    // A restart registers the nodes that belong to the cluster.
    cluster.stop().await;
    cluster.start();
    cluster.until(&node("node-1"), is_schedulable).await;
}

#[tokio::test(start_paused = true)]
async fn pods_are_not_lost_while_nobody_can_say_whether_their_node_exists() {
    let cluster = Cluster::running(Parts::default()).await;
    cluster.pod("web", json!({}), on("elsewhere")).await;
    cluster.fault(|method, path| {
        (method == http::Method::GET && path == "/api/v1/nodes/elsewhere").then(|| answer_of(503))
    });
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(cluster.get(&pod("web")).await.is_some());
    cluster.heal();
    cluster.until_gone(&pod("web")).await;
}

#[tokio::test(start_paused = true)]
async fn users_taints_send_pods_away_by_their_tolerations() {
    let cluster = Cluster::running(Parts::default()).await;
    for (name, seconds) in [("now", None), ("later", Some(60)), ("stays", Some(-1))] {
        let toleration = match seconds {
            None => json!([]),
            Some(-1) => json!([{"key": "maintenance", "operator": "Exists"}]),
            Some(seconds) => {
                json!([{"key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}])
            }
        };
        cluster.pod(name, json!({}), json!({"nodeName": "node-2", "tolerations": toleration})).await;
        cluster.until_ready(name).await;
    }
    let start = Instant::now();
    cluster
        .patch(&node("node-2"), json!({"spec": {"taints": [{"key": "maintenance", "effect": "NoExecute"}]}}))
        .await;
    cluster.until_gone(&pod("now")).await;
    assert!(start.elapsed().as_secs() <= 2);
    cluster.until_gone(&pod("later")).await;
    assert!((60..=63).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    tokio::time::sleep(Duration::from_secs(600)).await;
    cluster.until_ready("stays").await;
}

#[tokio::test(start_paused = true)]
async fn pressure_and_cordons_become_taints_and_go_again() {
    let cluster = Cluster::running(Parts::default()).await;
    cluster
        .patch(&node("node-1"), json!({"metadata": {"annotations": {"koinon.dev/pressure": "memory,pid"}}}))
        .await;
    cluster.patch(&node("node-1"), json!({"spec": {"unschedulable": true}})).await;
    let expected = ["memory-pressure:NoSchedule", "pid-pressure:NoSchedule", "unschedulable:NoSchedule"];
    cluster.until(&node("node-1"), |node| taints(node.unwrap()) == expected).await;
    cluster.patch(&node("node-1"), json!({"metadata": {"annotations": {"koinon.dev/pressure": null}}})).await;
    cluster.patch(&node("node-1"), json!({"spec": {"unschedulable": null}})).await;
    cluster.until(&node("node-1"), is_schedulable).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_nobody_runs_is_found_out() {
    let cluster = Cluster::running(Parts::default()).await;
    cluster.create(NODES, json!({"metadata": {"name": "empty"}})).await;
    let empty =
        cluster.until(&node("empty"), |node| condition(node.unwrap(), "Ready") == "Unknown").await.unwrap();
    let reasons: Vec<_> =
        empty["status"]["conditions"].as_array().unwrap().iter().map(|one| &one["reason"]).collect();
    assert_eq!(reasons, ["NodeStatusNeverUpdated"; 4]);
    // Pods that a user puts there and deletes wait for the node, unless it is given up.
    cluster.pod("web", json!({}), on("empty")).await;
    cluster.delete(&pod("web")).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(cluster.get(&pod("web")).await.is_some());
    let mut all = empty["spec"]["taints"].as_array().cloned().unwrap_or_default();
    all.push(json!({"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}));
    cluster.patch(&node("empty"), json!({"spec": {"taints": all}})).await;
    cluster.until_gone(&pod("web")).await;
}

#[tokio::test(start_paused = true)]
async fn only_so_many_finished_pods_are_kept() {
    let mut parts = Parts::default();
    parts.nodes.keep_finished = 2;
    let cluster = Cluster::running(parts).await;
    for number in 0..5 {
        let name = format!("done-{number}");
        cluster
            .pod(&name, json!({"sim.koinon.dev/complete-after": "1s"}), json!({"restartPolicy": "Never"}))
            .await;
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    cluster.until(&pod("done-2"), |pod| pod.is_none()).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(cluster.get(&pod("done-3")).await.is_some() && cluster.get(&pod("done-4")).await.is_some());
}
