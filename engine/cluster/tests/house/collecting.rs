//! Dependents follow their owners, and nothing else does.

use http::Method;
use serde_json::{Value, json};

use crate::harness::{Cluster, answer, blocking, map, owned_by};

#[tokio::test(start_paused = true)]
async fn in_the_background_the_owner_goes_first_and_all_below_follow() {
    let cluster = Cluster::kept().await;
    let top = cluster.map("top", &[], &[]).await;
    let middle = cluster.map("middle", &[owned_by(&top)], &[]).await;
    cluster.map("bottom", &[owned_by(&middle)], &[]).await;
    cluster.map("bystander", &[], &[]).await;
    cluster.rest().await;
    assert_eq!(cluster.writes_to("configmaps"), Vec::<String>::new());
    cluster.delete(&map("top"), "Background").await;
    assert!(cluster.get(&map("top")).await.is_none());
    cluster.until_gone(&map("middle")).await;
    cluster.until_gone(&map("bottom")).await;
    cluster.rest().await;
    assert!(cluster.get(&map("bystander")).await.is_some());
    assert_eq!(cluster.writes_to("configmaps").len(), 2, "{:?}", cluster.writes());
}

#[tokio::test(start_paused = true)]
async fn in_the_foreground_the_owner_waits_for_what_blocks_it() {
    let cluster = Cluster::kept().await;
    let top = cluster.map("top", &[], &[]).await;
    let middle = cluster.map("middle", &[blocking(owned_by(&top))], &[]).await;
    cluster.map("bottom", &[blocking(owned_by(&middle))], &["example.com/hold"]).await;
    cluster.map("loose", &[owned_by(&top)], &["example.com/hold"]).await;
    cluster.delete(&map("top"), "Foreground").await;
    cluster
        .until(&map("bottom"), |bottom| bottom.unwrap()["metadata"]["deletionTimestamp"].is_string())
        .await;
    cluster.rest().await;
    for waiting in ["top", "middle"] {
        let object = cluster.get(&map(waiting)).await.expect("it waits");
        assert_eq!(object["metadata"]["finalizers"], json!(["foregroundDeletion"]), "{waiting}");
    }
    cluster.patch(&map("bottom"), json!({"metadata": {"finalizers": null}})).await;
    cluster.until_gone(&map("top")).await;
    assert!(cluster.get(&map("middle")).await.is_none());
    assert!(cluster.get(&map("loose")).await.is_some(), "it does not block, and holds itself");
}

#[tokio::test(start_paused = true)]
async fn as_an_orphan_the_dependent_stays_without_its_owner() {
    let cluster = Cluster::kept().await;
    let other = cluster.map("other", &[], &[]).await;
    let top = cluster.map("top", &[], &[]).await;
    cluster.map("only", &[blocking(owned_by(&top))], &[]).await;
    cluster.map("both", &[owned_by(&top), owned_by(&other)], &[]).await;
    cluster.delete(&map("top"), "Orphan").await;
    cluster.until_gone(&map("top")).await;
    cluster.rest().await;
    assert_eq!(cluster.get(&map("only")).await.unwrap()["metadata"].get("ownerReferences"), None);
    assert_eq!(
        cluster.get(&map("both")).await.unwrap()["metadata"]["ownerReferences"],
        json!([owned_by(&other)])
    );
    assert_eq!(cluster.writes_to("configmaps").len(), 3, "{:?}", cluster.writes());
}

#[tokio::test(start_paused = true)]
async fn one_living_owner_is_enough_and_the_others_are_forgotten() {
    let cluster = Cluster::kept().await;
    let (a, b) = (cluster.map("a", &[], &[]).await, cluster.map("b", &[], &[]).await);
    cluster.map("child", &[owned_by(&a), blocking(owned_by(&b))], &[]).await;
    cluster.delete(&map("b"), "Foreground").await;
    cluster.until_gone(&map("b")).await;
    let child = cluster
        .until(&map("child"), |child| child.unwrap()["metadata"]["ownerReferences"][1].is_null())
        .await;
    assert_eq!(child.unwrap()["metadata"]["ownerReferences"], json!([owned_by(&a)]));
    cluster.delete(&map("a"), "Background").await;
    cluster.until_gone(&map("child")).await;
}

#[tokio::test(start_paused = true)]
async fn a_circle_of_blocking_owners_is_broken() {
    let cluster = Cluster::kept().await;
    let a = cluster.map("a", &[], &[]).await;
    let b = cluster.map("b", &[blocking(owned_by(&a))], &[]).await;
    cluster.patch(&map("a"), json!({"metadata": {"ownerReferences": [blocking(owned_by(&b))]}})).await;
    cluster.delete(&map("a"), "Foreground").await;
    cluster.until_gone(&map("a")).await;
    cluster.until_gone(&map("b")).await;
}

#[tokio::test(start_paused = true)]
async fn what_happened_while_nobody_kept_house_is_made_up_for() {
    let mut cluster = Cluster::kept().await;
    let (gone, orphaned) = (cluster.map("gone", &[], &[]).await, cluster.map("orphaned", &[], &[]).await);
    cluster.map("follows", &[owned_by(&gone)], &[]).await;
    cluster.map("stays", &[owned_by(&orphaned)], &[]).await;
    cluster.rest().await;
    cluster.leave().await;
    cluster.delete(&map("gone"), "Background").await;
    cluster.delete(&map("orphaned"), "Orphan").await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert!(cluster.get(&map("follows")).await.is_some());
    cluster.keep();
    cluster.until_gone(&map("follows")).await;
    cluster.until_gone(&map("orphaned")).await;
    cluster.rest().await;
    assert!(cluster.get(&map("stays")).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn an_owner_of_the_same_name_made_anew_is_another_one() {
    let mut cluster = Cluster::bare().await;
    let first = cluster.map("owner", &[], &[]).await;
    cluster.map("child", &[owned_by(&first)], &[]).await;
    cluster.delete(&map("owner"), "Background").await;
    let second = cluster.map("owner", &[], &[]).await;
    cluster.map("grandchild", &[owned_by(&second)], &[]).await;
    cluster.keep();
    cluster.until_gone(&map("child")).await;
    cluster.rest().await;
    assert!(cluster.get(&map("grandchild")).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_another_namespace_is_none_and_that_is_told() {
    let cluster = Cluster::kept().await;
    cluster.create("/api/v1/namespaces", json!({"metadata": {"name": "far"}})).await;
    let owner = cluster.map("owner", &[], &[]).await;
    cluster.rest().await;
    cluster.map_in("far", "child", &[owned_by(&owner)], &[]).await;
    cluster.until_gone("/api/v1/namespaces/far/configmaps/child").await;
    cluster.rest().await;
    let events = cluster.get("/api/v1/namespaces/far/events").await.unwrap();
    let event = &events["items"][0];
    assert_eq!(event["reason"], "OwnerRefInvalidNamespace");
    let uid = owner["metadata"]["uid"].as_str().unwrap();
    let message = format!(
        "ownerRef [v1/ConfigMap, namespace: far, name: owner, uid: {uid}] does not exist in namespace \"far\""
    );
    assert_eq!(event["message"], message);
    assert_eq!(events["items"].as_array().unwrap().len(), 1);
    assert!(cluster.get(&map("owner")).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn an_object_of_the_cluster_with_an_owner_in_a_namespace_stays() {
    let cluster = Cluster::kept().await;
    let owner = cluster.map("owner", &[], &[]).await;
    let metadata = json!({"name": "wide", "ownerReferences": [owned_by(&owner)]});
    cluster.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", json!({"metadata": metadata})).await;
    cluster.delete(&map("owner"), "Background").await;
    cluster.rest().await;
    assert!(cluster.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/wide").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn an_owner_of_the_cluster_may_have_dependents_in_any_namespace() {
    let cluster = Cluster::kept().await;
    cluster.create("/api/v1/namespaces", json!({"metadata": {"name": "far"}})).await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = cluster.create(roles, json!({"metadata": {"name": "owner"}})).await;
    let reference = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "owner", "uid": role["metadata"]["uid"]});
    cluster.map("near", std::slice::from_ref(&reference), &[]).await;
    cluster.map_in("far", "child", &[reference], &[]).await;
    cluster.rest().await;
    assert_eq!(cluster.writes_to("configmaps"), Vec::<String>::new());
    cluster.delete(&format!("{roles}/owner"), "Background").await;
    cluster.until_gone(&map("near")).await;
    cluster.until_gone("/api/v1/namespaces/far/configmaps/child").await;
}

/// However the server errs about an owner, its dependent stays; once it tells the truth, things go on.
#[tokio::test(start_paused = true)]
async fn unknown_is_not_absent() {
    const EMPTY: &str = r#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1"},"items":[]}"#;
    const UNAVAILABLE: &str =
        r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503}"#;
    let lists = "/api/v1/configmaps";
    let owner = "/api/v1/namespaces/default/configmaps/owner";
    type Wrong = fn(&str, &str, &str) -> Option<axum::response::Response>;
    let ways: [(&str, Wrong); 4] = [
        ("no list", |path, lists, _| (path == lists).then(|| answer(503, UNAVAILABLE))),
        ("an empty list", |path, lists, _| (path == lists).then(|| answer(200, EMPTY))),
        ("no answer about the owner", |path, _, owner| (path == owner).then(|| answer(503, UNAVAILABLE))),
        ("nobody at the owner's path", |path, _, owner| {
            (path == owner).then(|| answer(404, "404 page not found\n"))
        }),
    ];
    for (way, wrong) in ways {
        let mut cluster = Cluster::bare().await;
        let top = cluster.map("owner", &[], &[]).await;
        cluster.map("child", &[owned_by(&top)], &[]).await;
        cluster
            .fault(move |method, path| if method == Method::GET { wrong(path, lists, owner) } else { None });
        cluster.keep();
        cluster.rest().await;
        assert_eq!(cluster.writes_to("configmaps"), Vec::<String>::new(), "{way}");
        cluster.heal();
        cluster.rest().await;
        assert!(cluster.get(&map("child")).await.is_some(), "{way}");
        cluster.delete(&map("owner"), "Background").await;
        cluster.until_gone(&map("child")).await;
        cluster.leave().await;
    }
}

#[tokio::test(start_paused = true)]
async fn custom_resources_own_and_are_owned_and_may_lose_their_kind() {
    let cluster = Cluster::kept().await;
    let version = json!({"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    let names = json!({"plural": "toys", "singular": "toy", "kind": "Toy"});
    let spec = json!({"group": "play.io", "scope": "Namespaced", "names": names, "versions": [version]});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "toys.play.io"}, "spec": spec});
    cluster.create(definitions, definition).await;
    let toys = "/apis/play.io/v1/namespaces/default/toys";
    cluster.until(toys, |list| list.is_some()).await;
    let toy = async |name: &str, owners: &[Value]| {
        let metadata = json!({"name": name, "ownerReferences": owners});
        cluster.create(toys, json!({"apiVersion": "play.io/v1", "kind": "Toy", "metadata": metadata})).await
    };
    let owned_by_toy = |owner: &Value| {
        let metadata = &owner["metadata"];
        json!({"apiVersion": "play.io/v1", "kind": "Toy", "name": metadata["name"], "uid": metadata["uid"]})
    };
    let top = toy("top", &[]).await;
    let child = toy("child", &[owned_by_toy(&top)]).await;
    cluster.map("grandchild", &[owned_by_toy(&child)], &[]).await;
    // Long enough for the new kind to be discovered: an owner that lets go waits until all kinds are listed.
    cluster.rest().await;
    cluster.delete(&format!("{toys}/top"), "Orphan").await;
    cluster.until_gone(&format!("{toys}/top")).await;
    let child = cluster.get(&format!("{toys}/child")).await.expect("it was let go");
    assert_eq!(child["metadata"].get("ownerReferences"), None);
    assert!(cluster.get(&map("grandchild")).await.is_some());
    cluster.delete(&format!("{definitions}/toys.play.io"), "Background").await;
    cluster.until_gone(&map("grandchild")).await;
    cluster.rest().await;
}
