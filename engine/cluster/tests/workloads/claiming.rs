//! Whose pods are whose.

use serde_json::{Value, json};

use crate::harness::*;

fn owner(pod: &Value) -> &Value {
    &pod["metadata"]["ownerReferences"][0]["name"]
}

#[tokio::test(start_paused = true)]
async fn matching_orphans_are_adopted_and_strangers_released() {
    let cluster = Cluster::new().await;
    let mut orphan = pod("web", "v1");
    orphan["metadata"]["name"] = "orphan".into();
    cluster.create(PODS, orphan).await;
    let mut taken = pod("web", "v1");
    let other = json!({"apiVersion": "v1", "kind": "Other", "name": "x", "uid": "x", "controller": true});
    taken["metadata"] = json!({"name": "taken", "labels": {"app": "web"}, "ownerReferences": [other]});
    cluster.create(PODS, taken).await;
    cluster.create(SETS, set("web", 3, "v1")).await;
    let path = format!("{SETS}/web");
    cluster.until(&path, |set| set["status"]["availableReplicas"] == 3).await;
    let adopted = cluster.get(&format!("{PODS}/orphan")).await;
    let reference = &adopted["metadata"]["ownerReferences"][0];
    assert_eq!((&reference["kind"], &reference["name"]), (&json!("ReplicaSet"), &json!("web")));
    assert_eq!((&reference["controller"], &reference["blockOwnerDeletion"]), (&json!(true), &json!(true)));
    assert_eq!(owner(&cluster.get(&format!("{PODS}/taken")).await), "x");
    assert_eq!(cluster.list(PODS).await.len(), 4);

    cluster.patch(&format!("{PODS}/orphan"), json!({"metadata": {"labels": {"app": "debug"}}})).await;
    cluster.until(&format!("{PODS}/orphan"), |pod| owner(pod).is_null()).await;
    cluster.until(PODS, |pods| pods["items"].as_array().unwrap().len() == 5).await;
    cluster.patch(&format!("{PODS}/orphan"), json!({"metadata": {"labels": {"app": "web"}}})).await;
    // It is taken back, and now there is one too many.
    cluster.until(PODS, |pods| pods["items"].as_array().unwrap().len() == 4).await;
    cluster.rest().await;
    assert_eq!(cluster.get(&path).await["status"]["replicas"], 3);
}

#[tokio::test(start_paused = true)]
async fn a_set_that_is_being_deleted_makes_and_adopts_nothing() {
    let cluster = Cluster::new().await;
    let mut leaving = set("web", 2, "v1");
    leaving["metadata"]["finalizers"] = json!(["example.com/stay"]);
    cluster.create(SETS, leaving).await;
    let path = format!("{SETS}/web");
    cluster.until(&path, |set| set["status"]["availableReplicas"] == 2).await;
    cluster.delete(&path).await;
    for pod in cluster.list(PODS).await {
        cluster.delete(&format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap())).await;
    }
    let mut orphan = pod("web", "v1");
    orphan["metadata"]["name"] = "orphan".into();
    cluster.create(PODS, orphan).await;
    cluster.until(&path, |set| set["status"]["replicas"] == 0).await;
    cluster.rest().await;
    let pods = cluster.list(PODS).await;
    assert_eq!(pods.len(), 1);
    assert!(owner(&pods[0]).is_null());
}

#[tokio::test(start_paused = true)]
async fn a_deployment_adopts_a_set_with_its_template_and_releases_one_that_left() {
    let cluster = Cluster::new().await;
    let mut old = set("old", 2, "v1");
    for place in ["/metadata/labels", "/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
        *old.pointer_mut(place).unwrap() = json!({"app": "web", "pod-template-hash": "x"});
    }
    cluster.create(SETS, old).await;
    cluster.create(DEPLOYMENTS, deployment("web", 2, "v1", json!({}))).await;
    let deployment = cluster.until_rolled_out("web").await;
    assert_eq!(cluster.list(SETS).await.len(), 1, "it is the new one already");
    assert_eq!(owner(&cluster.get(&format!("{SETS}/old")).await), "web");
    assert_eq!(deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");

    cluster.patch(&format!("{SETS}/old"), json!({"metadata": {"labels": {"app": "mine"}}})).await;
    cluster.until(&format!("{SETS}/old"), |set| owner(set).is_null()).await;
    cluster.until(SETS, |sets| sets["items"].as_array().unwrap().len() == 2).await;
    cluster.until_rolled_out("web").await;
    cluster.rest().await;
    assert_eq!(cluster.get(&format!("{SETS}/old")).await["spec"]["replicas"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_another_set_has_makes_another_hash() {
    let cluster = Cluster::new().await;
    cluster.create(DEPLOYMENTS, deployment("web", 1, "v1", json!({}))).await;
    cluster.until_rolled_out("web").await;
    let taken = cluster.list(SETS).await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    // Released, the set keeps the name that its template gives.
    let labels = json!({"metadata": {"labels": {"app": "mine", "pod-template-hash": "mine"}}});
    cluster.patch(&format!("{SETS}/{taken}"), labels).await;
    cluster.until(SETS, |sets| sets["items"].as_array().unwrap().len() == 2).await;
    let deployment = cluster.until_rolled_out("web").await;
    assert_eq!(deployment["status"]["collisionCount"], 1);
    cluster.rest().await;
}
