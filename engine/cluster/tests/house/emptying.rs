//! A deleted namespace is emptied, and goes only when nothing is left.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Cluster, answer};

async fn namespace(cluster: &Cluster) {
    cluster.create("/api/v1/namespaces", json!({"metadata": {"name": "old"}})).await;
    cluster.map_in("old", "config", &[], &[]).await;
    cluster.create("/api/v1/namespaces/old/secrets", json!({"metadata": {"name": "secret"}})).await;
    let spec = json!({"rules": []});
    let role = json!({"metadata": {"name": "role"}, "spec": spec});
    cluster.create("/apis/rbac.authorization.k8s.io/v1/namespaces/old/roles", role).await;
}

fn condition<'a>(namespace: &'a Value, wanted: &str) -> &'a Value {
    let conditions = namespace["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    conditions.iter().find(|condition| condition["type"] == wanted).unwrap_or(&Value::Null)
}

#[tokio::test(start_paused = true)]
async fn everything_in_it_goes_and_then_it_does() {
    let cluster = Cluster::kept().await;
    namespace(&cluster).await;
    cluster.map("elsewhere", &[], &[]).await;
    cluster.delete("/api/v1/namespaces/old", "Background").await;
    cluster.until_gone("/api/v1/namespaces/old").await;
    for path in ["configmaps", "secrets"] {
        assert_eq!(cluster.names(&format!("/api/v1/namespaces/old/{path}")).await, Vec::<String>::new());
    }
    assert!(cluster.get(&crate::harness::map("elsewhere")).await.is_some());
    cluster.rest().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_held_is_told_and_waited_for() {
    let cluster = Cluster::kept().await;
    namespace(&cluster).await;
    cluster.map_in("old", "held", &[], &["example.com/hold"]).await;
    cluster.delete("/api/v1/namespaces/old", "Background").await;
    let told = cluster
        .until("/api/v1/namespaces/old", |one| {
            condition(one.unwrap(), "NamespaceContentRemaining")["status"] == "True"
        })
        .await
        .unwrap();
    let remaining = condition(&told, "NamespaceContentRemaining");
    assert_eq!(remaining["reason"], "SomeResourcesRemain");
    assert_eq!(remaining["message"], "Some resources are remaining: configmaps. has 1 resource instances");
    let held = condition(&told, "NamespaceFinalizersRemaining");
    assert_eq!(
        held["message"],
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
    );
    assert_eq!(condition(&told, "NamespaceDeletionContentFailure")["status"], "False");
    assert_eq!(told["status"]["phase"], "Terminating");
    cluster.rest().await;
    cluster.patch("/api/v1/namespaces/old/configmaps/held", json!({"metadata": {"finalizers": null}})).await;
    cluster.until_gone("/api/v1/namespaces/old").await;
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_of_somebody_else_is_left_to_them() {
    let cluster = Cluster::kept().await;
    let spec = json!({"finalizers": ["kubernetes", "example.com/theirs"]});
    cluster.create("/api/v1/namespaces", json!({"metadata": {"name": "old"}, "spec": spec})).await;
    cluster.delete("/api/v1/namespaces/old", "Background").await;
    let left = |one: Option<&Value>| one.unwrap()["spec"]["finalizers"] == json!(["example.com/theirs"]);
    cluster.until("/api/v1/namespaces/old", left).await;
    cluster.rest().await;
}

#[tokio::test(start_paused = true)]
async fn it_stays_while_anything_in_it_is_unknown() {
    const STALE: &str = r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[
        {"metadata":{"name":"broken.io"},"versions":[{"version":"v1","freshness":"Stale","resources":[]}]}]}"#;
    const BROKEN: &str = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"broken","reason":"InternalError","code":500}"#;
    let mut cluster = Cluster::bare().await;
    namespace(&cluster).await;
    cluster.delete("/api/v1/namespaces/old", "Background").await;
    type Wrong = fn(&str) -> Option<axum::response::Response>;
    let ways: [(&str, Wrong, &str, &str); 3] = [
        (
            "NamespaceDeletionDiscoveryFailure",
            |path| (path == "/apis").then(|| answer(200, STALE)),
            "DiscoveryFailed",
            "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: \
             broken.io/v1: stale GroupVersion discovery: broken.io/v1",
        ),
        (
            "NamespaceDeletionDiscoveryFailure",
            |path| (path == "/apis").then(|| answer(500, BROKEN)),
            "DiscoveryFailed",
            "broken",
        ),
        (
            "NamespaceDeletionContentFailure",
            |path| path.ends_with("/old/limitranges").then(|| answer(500, BROKEN)),
            "ContentDeletionFailed",
            "Failed to delete all resource types, 1 remaining: broken",
        ),
    ];
    for (type_, wrong, reason, message) in ways {
        cluster.fault(move |_, path| wrong(path));
        cluster.keep();
        let told = |one: Option<&Value>| condition(one.unwrap(), type_)["message"] == message;
        let one = cluster.until("/api/v1/namespaces/old", told).await.unwrap();
        assert_eq!(condition(&one, type_)["reason"], reason);
        tokio::time::sleep(Duration::from_secs(900)).await;
        assert!(cluster.get("/api/v1/namespaces/old").await.is_some(), "{message}");
        cluster.leave().await;
    }
    cluster.heal();
    cluster.keep();
    cluster.until_gone("/api/v1/namespaces/old").await;
}
