//! At rest, nothing is written; a restart finds everything as it should be.

use serde_json::json;

use crate::harness::*;

#[tokio::test(start_paused = true)]
async fn a_restart_writes_nothing_where_all_is_well() {
    let mut cluster = Cluster::new().await;
    for number in 0..5 {
        cluster.create(DEPLOYMENTS, deployment(&format!("web{number}"), 3, "v1", json!({}))).await;
        cluster.create(SETS, set(&format!("set{number}"), 2, "v1")).await;
    }
    for number in 0..5 {
        cluster.until_rolled_out(&format!("web{number}")).await;
        cluster.until(&format!("{SETS}/set{number}"), |set| set["status"]["availableReplicas"] == 2).await;
    }
    cluster.rest().await;
    cluster.leave().await;
    let before = cluster.writes().len();
    cluster.keep();
    cluster.rest().await;
    assert_eq!(cluster.writes().len(), before, "{:#?}", &cluster.writes()[before..]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fails_later_is_no_rollout() {
    let cluster = Cluster::new().await;
    let path = format!("{DEPLOYMENTS}/web");
    cluster.create(DEPLOYMENTS, deployment("web", 3, "v1", json!({"progressDeadlineSeconds": 30}))).await;
    cluster.until_rolled_out("web").await;
    cluster.mind(|_| Mood::Unready);
    cluster.until(&path, |deployment| condition(deployment, "Available")["status"] == "False").await;
    cluster.rest().await;
    let deployment = cluster.get(&path).await;
    assert_eq!(condition(&deployment, "Progressing")["reason"], "NewReplicaSetAvailable");
    assert_eq!(condition(&deployment, "Available")["reason"], "MinimumReplicasUnavailable");
    assert_eq!(deployment["status"]["unavailableReplicas"], 3);
}

#[tokio::test(start_paused = true)]
async fn few_writes_make_a_deployment() {
    let cluster = Cluster::new().await;
    cluster.create(DEPLOYMENTS, deployment("web", 8, "v1", json!({}))).await;
    cluster.until_rolled_out("web").await;
    cluster.rest().await;
    let mut writes = cluster.writes();
    writes.retain(|write| !write.contains("/events"));
    let pods = writes.iter().filter(|write| write.starts_with("POST") && write.ends_with("/pods")).count();
    assert_eq!(pods, 8);
    // One set, and both statuses once for its making, once for its pods, and once for each that gets ready.
    assert!(writes.len() <= 8 + 1 + 2 * (2 + 8), "{writes:#?}");
}
