//! How members' objects are known to be ours: by a label of our own, or by that of earlier releases. Users' labels are users'.

use serde_json::{Value, json};

use crate::harness::{DEPLOY, Deploy, SETS, Site, WEB, World, set};

const FEDERATED: &str = "koinon.dev/federated";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Makes an object of a member say what an earlier release, which knew another mark, would have written.
async fn as_before(site: &Site, path: &str) {
    let there = site.get(path).await.unwrap();
    let mut labels = there["metadata"]["labels"].clone();
    labels.as_object_mut().unwrap().remove(FEDERATED).expect("it has our mark");
    labels[MANAGED_BY] = "koinon".into();
    let manifest = json!({
        "apiVersion": "apps/v1", "kind": there["kind"], "spec": there["spec"],
        "metadata": {"name": "web", "labels": labels, "annotations": there["metadata"]["annotations"]},
    });
    let path = format!("{path}?fieldManager=koinon&force=true");
    site.send("PATCH", &path, "application/apply-patch+yaml", manifest).await.unwrap();
}

fn labels(object: &Value) -> (Option<&str>, Option<&str>) {
    let label = |name| object["metadata"]["labels"][name].as_str();
    (label(FEDERATED), label(MANAGED_BY))
}

#[tokio::test(start_paused = true)]
async fn users_labels_go_along_and_other_tools_marks_stay() {
    let world = World::new(&[("a", 110), ("b", 110)]).await;
    let mut web = set("web", 4, None);
    web["metadata"]["labels"] = json!({
        MANAGED_BY: "Helm", "team": "blue", "argocd.argoproj.io/instance": "web",
        "kustomize.toolkit.fluxcd.io/name": "web", "helm.toolkit.fluxcd.io/name": "web",
    });
    web["metadata"]["annotations"] = json!({
        "argocd.argoproj.io/tracking-id": "web:apps/ReplicaSet:default/web", "meta.helm.sh/release-name": "web",
        "cost-centre": "7",
    });
    world.federation.create(SETS, web).await;
    world.until_layout(WEB, "a=2 b=2").await;
    for site in world.members.values() {
        let there = site.get(WEB).await.unwrap();
        let metadata = &there["metadata"];
        assert_eq!(metadata["labels"], json!({FEDERATED: "true", MANAGED_BY: "Helm", "team": "blue"}));
        assert_eq!(metadata["annotations"], json!({"cost-centre": "7"}));
    }
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn objects_of_an_earlier_release_are_ours() {
    let mut world = World::new(&[("a", 110), ("b", 110), ("c", 110)]).await;
    world.create_deployment(Deploy { replicas: 6, ..Deploy::default() }).await;
    world.create_set(6, None).await;
    world.until_layout(DEPLOY, "a=2 b=2 c=2").await;
    world.until_layout(WEB, "a=2 b=2 c=2").await;
    world.rest().await;
    world.kill().await;
    // The newer release comes in the middle of somebody's work: in one member all is of the newer one already.
    for member in ["a", "b"] {
        as_before(&world.members[member], DEPLOY).await;
        as_before(&world.members[member], WEB).await;
    }
    let pods = "/api/v1/namespaces/default/pods";
    let mut before = Vec::new();
    for site in world.members.values() {
        before.push(names(&site.get(pods).await.unwrap()));
    }
    world.start().await;
    world.rest().await;
    for (site, before) in world.members.values().zip(before) {
        for path in [DEPLOY, WEB] {
            let there = site.get(path).await.unwrap();
            assert_eq!(labels(&there), (Some("true"), None), "{path}");
        }
        assert_eq!(names(&site.get(pods).await.unwrap()), before, "no pod was replaced");
    }
    assert_eq!(world.layout(DEPLOY).await, "a=2 b=2 c=2");
    assert_eq!(world.layout(WEB).await, "a=2 b=2 c=2");
    let events = world.federation.events("web").await;
    let wrong = ["Overwritten", "TakenOver", "Recreated", "Moved", "NotTakenOver"];
    assert!(!events.iter().any(|event| wrong.iter().any(|one| event.starts_with(one))), "{events:#?}");
}

fn names(list: &Value) -> Vec<Value> {
    list["items"].as_array().unwrap().iter().map(|pod| pod["metadata"]["name"].clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_release_wrote_is_removed_with_its_federated_object() {
    let mut world = World::new(&[("a", 110), ("b", 110)]).await;
    world.create_deployment(Deploy { replicas: 4, ..Deploy::default() }).await;
    world.until_layout(DEPLOY, "a=2 b=2").await;
    world.kill().await;
    as_before(&world.members["a"], DEPLOY).await;
    world.federation.delete(DEPLOY, "Foreground").await;
    world.start().await;
    world.until_layout(DEPLOY, "").await;
    world.rest().await;
}
