//! What the federation's own namespaces allow holds before anything reaches a member.

use serde_json::{Value, json};

use crate::harness::{DEPLOY, Deploy, World, set};

fn condition<'a>(found: &'a Value, kind: &str) -> &'a Value {
    let conditions = found["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().find(|one| one["type"] == kind).unwrap_or(&Value::Null)
}

fn is_barred(found: &Value) -> bool {
    condition(found, "Federated")["status"] == "False"
}

#[tokio::test(start_paused = true)]
async fn a_template_is_held_to_the_federations_pod_security_level() {
    let world = World::new(&[("a", 110), ("b", 110)]).await;
    let level = "pod-security.kubernetes.io/enforce";
    let shop = json!({"metadata": {"name": "shop", "labels": {level: "baseline", "team": "blue"},
        "annotations": {"owner": "tests"}}});
    world.federation.create("/api/v1/namespaces", shop).await;
    let sets = "/apis/apps/v1/namespaces/shop/replicasets";
    let mut privileged = set("bad", 4, None);
    privileged["spec"]["template"]["spec"]["hostNetwork"] = true.into();
    world.federation.create(sets, privileged).await;
    let bad = world.until(&format!("{sets}/bad"), "it is not placed", is_barred).await;
    let told = condition(&bad, "Federated");
    assert_eq!(told["reason"], "PodSecurityViolation");
    assert!(told["message"].as_str().unwrap().ends_with("host namespaces (hostNetwork=true)"), "{told}");
    world.federation.create(sets, set("good", 4, None)).await;
    world.until_layout(&format!("{sets}/good"), "a=2 b=2").await;
    world.rest().await;
    assert_eq!(world.layout(&format!("{sets}/bad")).await, "");
    // The members' namespaces that were made for it are like the federation's.
    for site in world.members.values() {
        let there = site.get("/api/v1/namespaces/shop").await.unwrap();
        assert_eq!(there["metadata"]["labels"][level], "baseline");
        assert_eq!(there["metadata"]["labels"]["team"], "blue");
        assert_eq!(there["metadata"]["annotations"]["owner"], "tests");
    }
    // A level that is raised stops what comes, and what runs stays.
    world.create_deployment(Deploy { replicas: 4, ..Deploy::default() }).await;
    world.until_layout(DEPLOY, "a=2 b=2").await;
    let restricted = json!({"metadata": {"labels": {level: "restricted"}}});
    world.federation.patch("/api/v1/namespaces/default", restricted).await;
    let web = world.until(DEPLOY, "it is told", is_barred).await;
    assert_eq!(condition(&web, "Progressing")["reason"], "ProgressDeadlineExceeded");
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}}});
    world.federation.patch(DEPLOY, image).await;
    world.rest().await;
    for site in world.members.values() {
        let there = site.get(DEPLOY).await.unwrap();
        assert_eq!(there["spec"]["template"]["spec"]["containers"][0]["image"], "web:1");
    }
    world.until_event("PodSecurityViolation: the pod template violates PodSecurity").await;
    world
        .federation
        .patch("/api/v1/namespaces/default", json!({"metadata": {"labels": {level: null}}}))
        .await;
    let done =
        |one: &Value| !is_barred(one) && condition(one, "Progressing")["reason"] == "NewReplicaSetAvailable";
    world.until(DEPLOY, "it goes on", done).await;
}

#[tokio::test(start_paused = true)]
async fn system_namespaces_are_not_federated_unless_they_are_allowed() {
    let mut world = World::bare(&[("a", 110), ("b", 110)]).await;
    world.options.allow_namespaces = vec!["kube-public".to_owned()];
    world.start().await;
    for name in ["kube-public", "avi-system"] {
        world
            .federation
            .send("POST", "/api/v1/namespaces", "application/json", json!({"metadata": {"name": name}}))
            .await
            .ok();
    }
    let sets = |namespace: &str| format!("/apis/apps/v1/namespaces/{namespace}/replicasets");
    for namespace in ["kube-system", "avi-system", "kube-public"] {
        world.federation.create(&sets(namespace), set("coredns", 2, None)).await;
    }
    for namespace in ["kube-system", "avi-system"] {
        let path = format!("{}/coredns", sets(namespace));
        let found = world.until(&path, "it is not placed", is_barred).await;
        assert_eq!(condition(&found, "Federated")["reason"], "NamespaceNotFederated");
    }
    world.until_layout(&format!("{}/coredns", sets("kube-public")), "a=1 b=1").await;
    world.rest().await;
    for namespace in ["kube-system", "avi-system"] {
        assert_eq!(world.layout(&format!("{}/coredns", sets(namespace))).await, "");
    }
}
