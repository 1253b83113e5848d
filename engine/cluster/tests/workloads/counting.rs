//! As many pods as asked for: which go, and what stands in the way.

use serde_json::{Value, json};

use crate::harness::*;

#[tokio::test(start_paused = true)]
async fn the_least_useful_pods_go_first() {
    let cluster = Cluster::new().await;
    let path = format!("{SETS}/web");
    cluster.create(SETS, set("web", 6, "v1")).await;
    cluster.until(&path, |set| set["status"]["availableReplicas"] == 6).await;
    let names: Vec<String> = cluster
        .list(PODS)
        .await
        .iter()
        .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    let cost = |cost: &str| json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": cost}}});
    cluster.patch(&format!("{PODS}/{}", names[3]), cost("-5")).await;
    cluster.patch(&format!("{PODS}/{}", names[1]), cost("7")).await;
    let unready = names[4].clone();
    cluster.mind(
        move |pod| if pod["metadata"]["name"] == unready.as_str() { Mood::Unready } else { Mood::Ready },
    );
    cluster.until(&path, |set| set["status"]["readyReplicas"] == 5).await;
    for (size, gone) in [(5, &names[4]), (4, &names[3])] {
        cluster.patch(&path, json!({"spec": {"replicas": size}})).await;
        cluster.until(&path, |set| set["status"]["replicas"] == size).await;
        let left: Vec<Value> =
            cluster.active_pods().await.iter().map(|pod| pod["metadata"]["name"].clone()).collect();
        assert!(!left.contains(&json!(gone)), "{gone} should have gone: {left:?}");
        assert_eq!(left.len(), size);
    }
    cluster.patch(&path, json!({"spec": {"replicas": 1}})).await;
    cluster.until(&path, |set| set["status"]["replicas"] == 1).await;
    assert_eq!(cluster.active_pods().await[0]["metadata"]["name"], names[1].as_str());
    cluster.rest().await;
    let events = cluster.events_about("web").await;
    assert!(
        events.contains(&("SuccessfulDelete".into(), format!("Deleted pod: {}", names[4]))),
        "{events:#?}"
    );
    assert_eq!(events.iter().filter(|(reason, _)| reason == "SuccessfulCreate").count(), 6);
}

#[tokio::test(start_paused = true)]
async fn pods_that_ended_are_replaced() {
    let cluster = Cluster::new().await;
    let path = format!("{SETS}/web");
    cluster.create(SETS, set("web", 2, "v1")).await;
    cluster.until(&path, |set| set["status"]["availableReplicas"] == 2).await;
    let failing = cluster.list(PODS).await[0]["metadata"]["name"].clone();
    let fails = failing.clone();
    cluster.mind(move |pod| if pod["metadata"]["name"] == fails { Mood::Failed } else { Mood::Ready });
    cluster.until(PODS, |pods| pods["items"].as_array().unwrap().len() == 3).await;
    cluster.until(&path, |set| set["status"]["availableReplicas"] == 2).await;
    cluster.rest().await;
    assert_eq!(cluster.list(PODS).await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_quota_is_told_on_the_set_and_on_its_deployment_until_it_gives_way() {
    let cluster = Cluster::new().await;
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let quota = format!("{quotas}/few");
    cluster.create(quotas, json!({"metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}})).await;
    let hard = |pods: &str| json!({"status": {"hard": {"pods": pods}, "used": {"pods": "0"}}});
    cluster.patch(&format!("{quota}/status"), hard("2")).await;
    cluster.create(DEPLOYMENTS, deployment("web", 10, "v1", json!({}))).await;
    let path = format!("{DEPLOYMENTS}/web");
    let failed = |deployment: &Value| condition(deployment, "ReplicaFailure")["status"] == "True";
    let deployment = cluster.until(&path, failed).await;
    let failure = condition(&deployment, "ReplicaFailure");
    assert_eq!(failure["reason"], "FailedCreate");
    let message = failure["message"].as_str().unwrap();
    assert!(message.contains("exceeded quota: few"), "{message}");
    let set = cluster.set_of("v1").await;
    assert_eq!(condition(&set, "ReplicaFailure")["message"], message);
    cluster.until(&path, |deployment| deployment["status"]["readyReplicas"] == 2).await;
    let attempts = || cluster.writes().iter().filter(|write| *write == &format!("POST {PODS}")).count();
    let before = attempts();
    tokio::time::sleep(std::time::Duration::from_secs(100)).await;
    assert!(attempts() - before < 12, "one attempt at a time, ever later: {}", attempts() - before);
    cluster.patch(&quota, json!({"spec": {"hard": {"pods": "20"}}})).await;
    cluster.patch(&format!("{quota}/status"), hard("20")).await;
    let deployment = cluster.until_rolled_out("web").await;
    assert!(condition(&deployment, "ReplicaFailure").is_null());
    let events = cluster.events_about(set["metadata"]["name"].as_str().unwrap()).await;
    let told = events.iter().find(|(reason, _)| reason == "FailedCreate").unwrap();
    assert!(told.1.starts_with("Error creating: pods \""), "{told:?}");
    cluster.rest().await;
}
