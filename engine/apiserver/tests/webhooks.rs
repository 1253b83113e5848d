//! Webhooks have their say like on any other cluster: what they return is taken like what clients send, and they are
//! asked about what is created below an object, too.

use serde_json::{Value, json};

mod support;
use support::webhook::{Webhook, patched};
use support::{cluster, open_version};

const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test]
async fn what_an_injector_adds_gets_its_defaults() {
    let cluster = cluster().await;
    let sidecar = Webhook::start(|_| {
        patched(&json!([
            {"op": "add", "path": "/spec/containers/-", "value": {"name": "sidecar", "image": "proxy:1"}},
            {"op": "add", "path": "/spec/unknown", "value": 1},
        ]))
    });
    let sidecar = sidecar.await;
    sidecar.configure(&cluster, "Mutating", "a", &["pods"]).await;
    // The next one sees it as it will be stored.
    let labels = Webhook::start(|request| {
        let policy = &request["object"]["spec"]["containers"][1]["terminationMessagePolicy"];
        patched(&json!([{"op": "add", "path": "/metadata/labels", "value": {"policy": policy}}]))
    });
    labels.await.configure(&cluster, "Mutating", "b", &["pods"]).await;
    let pod = cluster.made_pod("p").await;
    let added = &pod["spec"]["containers"][1];
    assert_eq!(added["terminationMessagePolicy"], "File", "{pod}");
    assert_eq!(added["imagePullPolicy"], "IfNotPresent", "{pod}");
    assert_eq!(pod["spec"].get("unknown"), None, "{pod}");
    assert_eq!(pod["metadata"]["labels"]["policy"], "File", "{pod}");
}

#[tokio::test]
async fn a_patch_that_makes_no_object_is_the_servers_fault() {
    let cluster = cluster().await;
    let broken = Webhook::start(|_| patched(&json!([{"op": "add", "path": "/data", "value": 5}]))).await;
    broken.configure(&cluster, "Mutating", "a", &["configmaps"]).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let (code, answer) = cluster.post(maps, &json!({"metadata": {"name": "m"}})).await;
    assert_eq!((code, &answer["reason"]), (500, &json!("InternalError")), "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("cannot unmarshal number"), "{answer}");
}

#[tokio::test]
async fn a_custom_resource_is_pruned_after_the_patch() {
    let cluster = cluster().await;
    let mut versions = open_version();
    versions[0]["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"known": {"type": "string", "default": "yes"}}},
    }});
    cluster.made_crd(versions).await;
    let value = |_: &Value| patched(&json!([{"op": "add", "path": "/spec", "value": {"unknown": 1}}]));
    Webhook::start(value).await.configure(&cluster, "Mutating", "a", &["things"]).await;
    let thing = json!({"apiVersion": "t.io/v1", "kind": "Thing", "metadata": {"name": "x"}});
    let made = cluster.made("/apis/t.io/v1/namespaces/default/things", &thing).await;
    assert_eq!(made["spec"], json!({"known": "yes"}), "{made}");
}

#[tokio::test]
async fn what_is_created_below_an_object_is_admitted_as_what_it_is() {
    let cluster = cluster().await;
    cluster.made_pod("p").await;
    let watched = Webhook::start(|_| json!({"allowed": true})).await;
    watched.configure(&cluster, "Validating", "a", &["*/*"]).await;
    let seen = || {
        let told = |request: &Value| {
            let kind =
                ["group", "version", "kind"].map(|key| request["kind"][key].as_str().unwrap().to_owned());
            (
                request["operation"].as_str().unwrap().to_owned(),
                request["subResource"].as_str().unwrap_or_default().to_owned(),
                kind.join("/"),
                request["object"]["kind"].as_str().unwrap_or_default().to_owned(),
            )
        };
        watched.asked().iter().map(told).collect::<Vec<_>>()
    };
    let one = |part: &str, kind: &str| {
        let last = kind.rsplit('/').next().unwrap_or_default().to_owned();
        vec![("CREATE".to_owned(), part.to_owned(), kind.to_owned(), last)]
    };
    let token = json!({"spec": {"audiences": ["x"]}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts/default/token";
    assert_eq!(cluster.post(accounts, &token).await.0, 201);
    assert_eq!(seen(), one("token", "authentication.k8s.io/v1/TokenRequest"));
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(cluster.post(&format!("{PODS}/p/binding"), &binding).await.0, 201);
    assert_eq!(seen(), one("binding", "/v1/Binding"));
    for version in ["policy/v1", "policy/v1beta1"] {
        let eviction = json!({"apiVersion": version, "kind": "Eviction", "metadata": {"name": "p"}});
        let (code, answer) = cluster.post(&format!("{PODS}/p/eviction?dryRun=All"), &eviction).await;
        assert_eq!(code, 201, "{answer}");
        assert_eq!(seen(), one("eviction", "policy/v1/Eviction"));
    }
    let eviction = json!({"metadata": {"name": "p"}});
    assert_eq!(cluster.post(&format!("{PODS}/p/eviction"), &eviction).await.0, 201);
    assert_eq!(seen(), one("eviction", "policy/v1/Eviction"));
    assert!(cluster.get(&format!("{PODS}/p")).await.1["metadata"]["deletionTimestamp"].is_string());
}

#[tokio::test]
async fn what_a_deletion_asks_for_is_seen_whether_its_body_or_its_query_says_it() {
    let cluster = cluster().await;
    let watched = Webhook::start(|_| json!({"allowed": true})).await;
    watched.configure(&cluster, "Validating", "a", &["configmaps"]).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let options = |more: Value| {
        let mut options = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
        options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        options
    };
    let cases = [
        ("", json!(null), json!({})),
        ("?propagationPolicy=Foreground", json!(null), json!({"propagationPolicy": "Foreground"})),
        ("", json!({"propagationPolicy": "Foreground"}), json!({"propagationPolicy": "Foreground"})),
        // A body speaks for itself.
        ("?propagationPolicy=Orphan", json!({"gracePeriodSeconds": 5}), json!({"gracePeriodSeconds": 5})),
        (
            "",
            json!({"dryRun": ["All"], "preconditions": {"resourceVersion": "R"}, "orphanDependents": true}),
            json!({"dryRun": ["All"], "preconditions": {"resourceVersion": "R"}, "orphanDependents": true}),
        ),
    ];
    // Each has an object of its own: one that goes in the foreground stays until somebody collects it.
    for (number, (query, body, expected)) in cases.into_iter().enumerate() {
        let made = cluster.post(maps, &json!({"metadata": {"name": format!("m{number}")}})).await;
        watched.asked();
        let version = made.1["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let (body, expected) =
            [body, expected].map(|one| one.to_string().replace("\"R\"", &format!("{version:?}"))).into();
        let body = if body == "null" { String::new() } else { body };
        let path = format!("{maps}/m{number}{query}");
        let (code, answer) = cluster.send("DELETE", &path, "application/json", body).await;
        assert_eq!(code, 200, "{answer}");
        let asked = watched.asked();
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0]["options"], options(serde_json::from_str(&expected).unwrap()));
    }
}

#[tokio::test]
async fn who_refuses_an_eviction_or_a_token_is_heard() {
    let cluster = cluster().await;
    cluster.made_pod("p").await;
    let no =
        Webhook::start(|_| json!({"allowed": false, "status": {"message": "not today", "code": 403}})).await;
    no.configure(&cluster, "Validating", "a", &["pods/eviction", "pods/binding", "serviceaccounts/token"])
        .await;
    let target = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    for (path, body) in [
        (format!("{PODS}/p/eviction"), json!({"metadata": {"name": "p"}})),
        (format!("{PODS}/p/binding"), target),
        ("/api/v1/namespaces/default/serviceaccounts/default/token".to_owned(), json!({})),
    ] {
        let (code, answer) = cluster.post(&path, &body).await;
        assert_eq!(code, 403, "{path}: {answer}");
        assert!(answer["message"].as_str().unwrap().ends_with("not today"), "{answer}");
    }
    let (_, pod) = cluster.get(&format!("{PODS}/p")).await;
    assert_eq!((pod["spec"].get("nodeName"), pod["metadata"].get("deletionTimestamp")), (None, None));
}

#[tokio::test]
async fn bodies_of_other_types_are_told_so() {
    let cluster = cluster().await;
    cluster.made_pod("p").await;
    let token = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let eviction = format!("{PODS}/p/eviction");
    let binding = format!("{PODS}/p/binding");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
    for (path, body, code) in [
        (eviction.as_str(), json!({"deleteOptions": {"preconditions": 5}}), 400),
        (&eviction, json!([]), 400),
        (&eviction, pod, 400),
        (&eviction, json!({"metadata": {"name": "p", "namespace": "x"}}), 400),
        (token, json!([]), 400),
        (token, json!({"spec": 5}), 400),
        (token, json!({"spec": {"audiences": 5}}), 400),
        (token, json!({"spec": {"expirationSeconds": 1}}), 422),
        (&binding, json!([]), 400),
        (&binding, json!({"target": 5}), 400),
        (&binding, json!({"metadata": {"name": "q"}, "target": {"name": "n"}}), 400),
        (&binding, json!({"metadata": {"name": "p"}}), 500),
        (
            "/api/v1/namespaces/default/bindings",
            json!({"metadata": {"name": "q"}, "target": {"name": "n"}}),
            404,
        ),
    ] {
        let (status, answer) = cluster.post(path, &body).await;
        assert_eq!(status, code, "{path} {body}: {answer}");
        assert!(!answer["message"].as_str().unwrap().contains("hit a fault"), "{path} {body}: {answer}");
    }
}
