//! Roles gather the rules of others.

use serde_json::{Value, json};

use crate::harness::Cluster;

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

fn rule(resource: &str) -> Value {
    json!({"apiGroups": ["play.io"], "resources": [resource], "verbs": ["get"]})
}

async fn source(cluster: &Cluster, name: &str) {
    let metadata = json!({"name": name, "labels": {"gather": "yes"}});
    cluster.create(ROLES, json!({"metadata": metadata, "rules": [rule(name)]})).await;
}

#[tokio::test(start_paused = true)]
async fn rules_come_and_go_with_their_roles() {
    let cluster = Cluster::kept().await;
    let sum = format!("{ROLES}/sum");
    let rules = |expected: Value| {
        move |role: Option<&Value>| role.unwrap().get("rules").unwrap_or(&Value::Null) == &expected
    };
    source(&cluster, "b").await;
    let aggregation = json!({"clusterRoleSelectors": [{"matchLabels": {"gather": "yes"}}]});
    cluster.create(ROLES, json!({"metadata": {"name": "sum"}, "aggregationRule": aggregation})).await;
    cluster.until(&sum, rules(json!([rule("b")]))).await;
    source(&cluster, "a").await;
    let role = cluster.until(&sum, rules(json!([rule("a"), rule("b")]))).await.unwrap();
    let managers: Vec<_> = role["metadata"]["managedFields"].as_array().unwrap().iter().collect();
    let ours =
        managers.iter().find(|entry| entry["manager"] == "clusterrole-aggregation-controller").unwrap();
    assert_eq!(ours["operation"], "Apply");
    cluster.delete(&format!("{ROLES}/b"), "Background").await;
    cluster.until(&sum, rules(json!([rule("a")]))).await;
    cluster.delete(&format!("{ROLES}/a"), "Background").await;
    cluster.until(&sum, |role| role.unwrap()["rules"].as_array().is_none_or(Vec::is_empty)).await;
    cluster.rest().await;
}

#[tokio::test(start_paused = true)]
async fn the_roles_of_every_cluster_are_gathered_already_or_soon() {
    let cluster = Cluster::kept().await;
    for role in ["admin", "edit", "view"] {
        let full =
            |role: Option<&Value>| role.unwrap()["rules"].as_array().is_some_and(|rules| !rules.is_empty());
        cluster.until(&format!("{ROLES}/{role}"), full).await;
    }
    cluster.rest().await;
}
