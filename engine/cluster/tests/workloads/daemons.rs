//! DaemonSets and ReplicationControllers on a server.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::*;

fn path() -> String {
    format!("{DAEMON_SETS}/agent")
}

fn daemons(image: &str) -> Value {
    let mut set = deployment("agent", 1, image, json!({}));
    set["spec"].as_object_mut().unwrap().remove("replicas");
    set
}

fn is_settled(set: &Value, nodes: i64) -> bool {
    let status = &set["status"];
    let count = |name: &str| status[name].as_i64().unwrap_or(0) == nodes;
    status["observedGeneration"] == set["metadata"]["generation"]
        && ["desiredNumberScheduled", "numberAvailable", "updatedNumberScheduled"].into_iter().all(count)
}

async fn nodes(cluster: &Cluster, names: &[&str]) {
    for name in names {
        cluster.create("/api/v1/nodes", json!({"metadata": {"name": name}})).await;
        // A new node is tainted until somebody says that it is ready.
        cluster.patch(&format!("/api/v1/nodes/{name}"), json!({"spec": {"taints": null}})).await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_node_has_a_pod_and_an_update_replaces_each() {
    let cluster = Cluster::new().await;
    nodes(&cluster, &["n1", "n2"]).await;
    cluster.create(DAEMON_SETS, daemons("v1")).await;
    cluster.until(&path(), |set| is_settled(set, 2)).await;
    nodes(&cluster, &["n3"]).await;
    cluster.until(&path(), |set| is_settled(set, 3)).await;
    cluster.patch(&path(), with_image("v2")).await;
    cluster.until(&path(), |set| is_settled(set, 3) && set["metadata"]["generation"] == 2).await;
    let pods = cluster.active_pods().await;
    let mut on: Vec<_> = pods.iter().map(|pod| pod["spec"]["nodeName"].as_str().unwrap()).collect();
    on.sort_unstable();
    assert_eq!(on, ["n1", "n2", "n3"]);
    assert!(pods.iter().all(|pod| image_of(pod) == "v2"));
    // Back again: the first revision becomes the third.
    cluster.patch(&path(), with_image("v1")).await;
    cluster.until(&path(), |set| is_settled(set, 3) && set["metadata"]["generation"] == 3).await;
    let mut numbers: Vec<_> =
        cluster.list(REVISIONS).await.iter().map(|one| one["revision"].as_i64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3]);
    // A node that may not be used any more loses its pod.
    cluster
        .patch("/api/v1/nodes/n3", json!({"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}}))
        .await;
    cluster.until(&path(), |set| is_settled(set, 2)).await;
    cluster.until(PODS, |pods| pods["items"].as_array().unwrap().len() == 2).await;
    cluster.rest().await;
}

#[tokio::test(start_paused = true)]
async fn no_node_gets_two_pods_whatever_answers_are_lost() {
    for every in 2..6 {
        let mut cluster = Cluster::new().await;
        nodes(&cluster, &["n1", "n2", "n3", "n4"]).await;
        cluster.lose_answers(every);
        cluster.lag(Duration::from_millis(50 * every as u64));
        cluster.create(DAEMON_SETS, daemons("v1")).await;
        cluster.until(&path(), |set| is_settled(set, 4)).await;
        assert_eq!(cluster.seen().ever.len(), 4, "with every {every}th answer lost");
        cluster.patch(&path(), with_image("v2")).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        cluster.leave().await;
        cluster.keep();
        cluster.until(&path(), |set| is_settled(set, 4) && set["metadata"]["generation"] == 2).await;
        cluster.heal();
        cluster.rest().await;
        assert_eq!(cluster.active_pods().await.len(), 4);
        assert_eq!(cluster.list(REVISIONS).await.len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_replication_controller_keeps_its_pods() {
    let cluster = Cluster::new().await;
    let path = format!("{CONTROLLERS}/web");
    let mut controller = set("web", 3, "v1");
    controller["spec"]["selector"] = json!({"app": "web"});
    cluster.create(CONTROLLERS, controller).await;
    let full = cluster.until(&path, |one| one["status"]["availableReplicas"] == 3).await;
    assert!(full["status"]["terminatingReplicas"].is_null());
    let pod = &cluster.list(PODS).await[0];
    let owner = &pod["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["apiVersion"], &owner["kind"]), (&json!("v1"), &json!("ReplicationController")));
    let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
    cluster.patch(&format!("{PODS}/{name}"), json!({"metadata": {"labels": {"app": "debug"}}})).await;
    cluster.until(&format!("{PODS}/{name}"), |pod| pod["metadata"]["ownerReferences"].is_null()).await;
    cluster.until(PODS, |pods| pods["items"].as_array().unwrap().len() == 4).await;
    // What cannot be made is told as a condition, until it can.
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    cluster.create(quotas, json!({"metadata": {"name": "few"}, "spec": {"hard": {"pods": "4"}}})).await;
    let status = json!({"status": {"hard": {"pods": "4"}, "used": {"pods": "4"}}});
    cluster.patch(&format!("{quotas}/few/status"), status).await;
    cluster.patch(&path, json!({"spec": {"replicas": 5}})).await;
    cluster.until(&path, |one| condition(one, "ReplicaFailure")["reason"] == "FailedCreate").await;
    cluster.patch(&path, json!({"spec": {"replicas": 2}})).await;
    let calm = |one: &Value| one["status"]["replicas"] == 2 && condition(one, "ReplicaFailure").is_null();
    cluster.until(&path, calm).await;
    cluster.rest().await;
}
