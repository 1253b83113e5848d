//! Quotas say what is used, and stay right when things go.

use serde_json::{Value, json};

use crate::harness::{Cluster, pod};

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn quota() -> String {
    format!("{QUOTAS}/all")
}

async fn limit(cluster: &Cluster, hard: Value) {
    cluster.create(QUOTAS, json!({"metadata": {"name": "all"}, "spec": {"hard": hard}})).await;
}

fn used(expected: Value) -> impl Fn(Option<&Value>) -> bool {
    move |quota| quota.unwrap()["status"]["used"] == expected
}

async fn ask(cluster: &Cluster, name: &str) -> Result<Value, kube::Error> {
    let resources = json!({"requests": {"cpu": "250m", "memory": "64Mi"}, "limits": {"memory": "64Mi"}});
    let containers = json!([{"name": "c", "image": "i", "resources": resources}]);
    let spec = json!({"containers": containers, "automountServiceAccountToken": false});
    cluster.try_create(PODS, json!({"metadata": {"name": name}, "spec": spec})).await
}

#[tokio::test(start_paused = true)]
async fn what_goes_is_free_again() {
    let cluster = Cluster::kept().await;
    let hard = json!({"pods": "2", "count/pods": "5", "requests.cpu": "1", "limits.memory": "1Gi"});
    limit(&cluster, hard.clone()).await;
    let shown = cluster
        .until(
            &quota(),
            used(json!({"pods": "0", "count/pods": "0", "requests.cpu": "0", "limits.memory": "0"})),
        )
        .await;
    assert_eq!(shown.unwrap()["status"]["hard"], hard);
    ask(&cluster, "a").await.unwrap();
    ask(&cluster, "b").await.unwrap();
    let two = json!({"pods": "2", "count/pods": "2", "requests.cpu": "500m", "limits.memory": "128Mi"});
    cluster.until(&quota(), used(two.clone())).await;
    assert!(ask(&cluster, "c").await.is_err());
    // One ends, one is deleted.
    cluster.patch(&format!("{}/status", pod("a")), json!({"status": {"phase": "Succeeded"}})).await;
    cluster
        .until(
            &quota(),
            used(json!({"pods": "1", "count/pods": "2", "requests.cpu": "250m", "limits.memory": "64Mi"})),
        )
        .await;
    ask(&cluster, "c").await.unwrap();
    cluster.delete(&pod("a")).await;
    cluster.until(&quota(), used(two)).await;
    // A limit that is lifted is not shown any more.
    cluster.patch(&quota(), json!({"spec": {"hard": {"pods": null, "count/pods": null}}})).await;
    cluster.until(&quota(), used(json!({"requests.cpu": "500m", "limits.memory": "128Mi"}))).await;
    cluster.rest().await;
}

#[tokio::test(start_paused = true)]
async fn all_kinds_are_counted() {
    let cluster = Cluster::kept().await;
    cluster.until("/api/v1/namespaces/default/configmaps/kube-root-ca.crt", |map| map.is_some()).await;
    let hard = json!({
        "configmaps": "10", "count/deployments.apps": "3", "services": "5", "services.nodeports": "2",
        "requests.storage": "10Gi", "persistentvolumeclaims": "3", "count/widgets.play.io": "4",
    });
    limit(&cluster, hard).await;
    let service = json!({"type": "NodePort", "ports": [{"port": 80}]});
    let services = "/api/v1/namespaces/default/services";
    cluster.create(services, json!({"metadata": {"name": "s"}, "spec": service})).await;
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    cluster.create(claims, json!({"metadata": {"name": "c"}, "spec": claim})).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    cluster.create(maps, json!({"metadata": {"name": "m"}})).await;
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template});
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    cluster.create(deployments, json!({"metadata": {"name": "d"}, "spec": deployment})).await;
    // The Service `kubernetes` counts as well; nobody serves widgets yet, so nothing is said of them.
    let expected = |maps: &str, deployments: &str| {
        json!({
            "configmaps": maps, "count/deployments.apps": deployments, "services": "2", "services.nodeports": "1",
            "requests.storage": "1Gi", "persistentvolumeclaims": "1",
        })
    };
    cluster.until(&quota(), used(expected("2", "1"))).await;
    cluster.delete(&format!("{maps}/m")).await;
    cluster.delete(&format!("{deployments}/d")).await;
    cluster.until(&quota(), used(expected("1", "0"))).await;

    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let spec = json!({
        "group": "play.io", "scope": "Namespaced", "versions": [version],
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
    });
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    cluster.create(crds, json!({"metadata": {"name": "widgets.play.io"}, "spec": spec})).await;
    let widgets = |quota: Option<&Value>| quota.unwrap()["status"]["used"]["count/widgets.play.io"] == "0";
    cluster.until(&quota(), widgets).await;
    cluster.rest().await;
}

#[tokio::test(start_paused = true)]
async fn crowds_are_counted_right_though_answers_get_lost() {
    let mut cluster = Cluster::kept().await;
    cluster.lose_answers(2);
    limit(&cluster, json!({"pods": "50", "cpu": "50"})).await;
    for number in 0..20 {
        ask(&cluster, &format!("p{number}")).await.unwrap();
        if number == 10 {
            cluster.leave().await;
            cluster.keep();
        }
    }
    for number in 0..5 {
        cluster.delete(&pod(&format!("p{number}"))).await;
    }
    cluster.until(&quota(), used(json!({"pods": "15", "cpu": "3750m"}))).await;
    cluster.rest().await;
}
