//! Evictions are allowed as far as budgets reach.

use serde_json::{Value, json};

use crate::harness::{Cluster, pod};

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

fn budget() -> String {
    format!("{BUDGETS}/web")
}

/// Allowed, healthy, desired and expected.
fn says(numbers: [i64; 4]) -> impl Fn(Option<&Value>) -> bool {
    move |budget| {
        let status = &budget.unwrap()["status"];
        let keys = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
        status["observedGeneration"] == budget.unwrap()["metadata"]["generation"]
            && keys.map(|key| status[key].as_i64().unwrap_or(-1)) == numbers
    }
}

async fn evict(cluster: &Cluster, name: &str) -> Result<Value, u16> {
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": name, "namespace": "default"}, "deleteOptions": {"gracePeriodSeconds": 0},
    });
    let answer = cluster.try_create(&format!("{}/eviction", pod(name)), eviction).await;
    answer.map_err(|error| match error {
        kube::Error::Api(status) => status.code,
        other => panic!("{other}"),
    })
}

#[tokio::test(start_paused = true)]
async fn a_budget_lets_go_what_it_can_spare() {
    let cluster = Cluster::kept().await;
    let spec = json!({"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}});
    cluster.create(BUDGETS, json!({"metadata": {"name": "web"}, "spec": spec})).await;
    cluster.until(&budget(), says([0, 0, 2, 0])).await;
    for name in ["a", "b", "c"] {
        cluster.pod(name, "web", "n1", "10.1.0.1").await;
    }
    let full = cluster.until(&budget(), says([1, 3, 2, 3])).await.unwrap();
    let condition = &full["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["reason"]),
        (&json!("DisruptionAllowed"), &json!("SufficientPods"))
    );
    evict(&cluster, "a").await.unwrap();
    cluster.until(&budget(), says([0, 2, 2, 2])).await;
    assert_eq!(evict(&cluster, "b").await, Err(429));
    cluster.patch(&budget(), json!({"spec": {"minAvailable": 1}})).await;
    cluster.until(&budget(), says([1, 2, 1, 2])).await;
    cluster.ready("c", false).await;
    cluster.until(&budget(), says([0, 1, 1, 2])).await;
    cluster.rest().await;
}

/// The budget is counted down by the eviction itself: its controller comes too late for those at the same time.
#[tokio::test(start_paused = true)]
async fn evictions_at_once_have_no_more_than_the_budget_allows() {
    let cluster = Cluster::kept().await;
    let spec = json!({"maxUnavailable": 2, "selector": {"matchLabels": {"app": "web"}}});
    let names = ["a", "b", "c", "d", "e"];
    let set = json!({"replicas": 5, "selector": {"matchLabels": {"app": "web"}}, "template": {
        "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    }});
    let set = cluster.create(SETS, json!({"metadata": {"name": "web"}, "spec": set})).await;
    let owner = json!({"metadata": {"ownerReferences": [{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": set["metadata"]["uid"], "controller": true,
    }], "finalizers": ["test.dev/stay"]}});
    for name in names {
        cluster.pod(name, "web", "n1", "10.1.0.1").await;
        cluster.patch(&pod(name), owner.clone()).await;
    }
    cluster.create(BUDGETS, json!({"metadata": {"name": "web"}, "spec": spec})).await;
    cluster.until(&budget(), says([2, 5, 3, 5])).await;
    let answers = futures::future::join_all(names.map(|name| evict(&cluster, name))).await;
    let (gone, kept): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((gone.len(), kept), (2, vec![Err(429); 3]));
    let mut marked = 0;
    for name in names {
        let there = cluster.get(&pod(name)).await.unwrap();
        let conditions = there["status"]["conditions"].as_array().unwrap();
        marked += conditions.iter().filter(|one| one["reason"] == "EvictionByEvictionAPI").count();
    }
    assert_eq!(marked, 2);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_not_ready_goes_where_there_are_enough_without_it() {
    let cluster = Cluster::kept().await;
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    cluster.create(BUDGETS, json!({"metadata": {"name": "web"}, "spec": spec})).await;
    for name in ["a", "b"] {
        cluster.pod(name, "web", "n1", "10.1.0.1").await;
    }
    cluster.ready("b", false).await;
    cluster.until(&budget(), says([0, 1, 1, 2])).await;
    assert_eq!(evict(&cluster, "a").await, Err(429));
    evict(&cluster, "b").await.unwrap();
    assert!(cluster.get(&budget()).await.unwrap()["status"]["disruptedPods"].is_null());
    cluster.ready("a", false).await;
    cluster.until(&budget(), says([0, 0, 1, 1])).await;
    assert_eq!(evict(&cluster, "a").await, Err(429));
    cluster.patch(&budget(), json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}})).await;
    evict(&cluster, "a").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn shares_are_of_what_the_controllers_want() {
    let cluster = Cluster::kept().await;
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    let set = cluster.create(SETS, json!({"metadata": {"name": "set"}, "spec": spec})).await;
    for name in ["a", "b", "c"] {
        cluster.pod(name, "web", "n1", "10.1.0.1").await;
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": set["metadata"]["uid"], "controller": true});
        cluster.patch(&pod(name), json!({"metadata": {"ownerReferences": [owner]}})).await;
    }
    let spec = json!({"maxUnavailable": "50%", "selector": {"matchLabels": {"app": "web"}}});
    cluster.create(BUDGETS, json!({"metadata": {"name": "web"}, "spec": spec})).await;
    cluster.until(&budget(), says([1, 3, 2, 4])).await;
    cluster.patch(&format!("{SETS}/set"), json!({"spec": {"replicas": 2}})).await;
    cluster.until(&budget(), says([2, 3, 1, 2])).await;
    // So does a StatefulSet.
    let stateful = "/apis/apps/v1/namespaces/default/statefulsets";
    let template =
        json!({"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 5, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": template});
    let other = cluster.create(stateful, json!({"metadata": {"name": "db"}, "spec": spec})).await;
    let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": other["metadata"]["uid"], "controller": true});
    cluster.patch(&pod("c"), json!({"metadata": {"ownerReferences": [owner]}})).await;
    cluster.until(&budget(), says([0, 3, 3, 7])).await;
    cluster.patch(&format!("{stateful}/db"), json!({"spec": {"replicas": 2}})).await;
    cluster.until(&budget(), says([1, 3, 2, 4])).await;
    cluster.rest().await;
}

#[tokio::test(start_paused = true)]
async fn numbers_are_right_after_lost_answers() {
    let cluster = Cluster::kept().await;
    cluster.lose_answers(2);
    let spec = json!({"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}});
    cluster.create(BUDGETS, json!({"metadata": {"name": "web"}, "spec": spec})).await;
    for number in 0..8 {
        cluster.pod(&format!("p{number}"), "web", "n1", "10.1.0.1").await;
    }
    cluster.delete(&pod("p3")).await;
    cluster.until(&budget(), says([4, 7, 3, 7])).await;
    cluster.rest().await;
}
