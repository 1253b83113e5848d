//! Requests that mean harm, or could: each is answered, and the server lives on.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use http::Request;
use jiff::Timestamp;
use koinon_apiserver::auth::pki::Authority;
use koinon_apiserver::context::Context;
use koinon_apiserver::serve::{Options, PeerCertificate, Server};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

mod support;
use support::{JSON, JSON_PATCH, cluster, few_events, kept_in, open_version};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const THINGS: &str = "/apis/t.io/v1/namespaces/default/things";

/// JSON of `depth` objects inside each other.
fn nested(depth: usize) -> String {
    format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth))
}

fn thing(name: &str, depth: usize) -> String {
    // The object itself is one level.
    let inside = nested(depth - 1);
    format!(r#"{{"apiVersion":"t.io/v1","kind":"Thing","metadata":{{"name":"{name}"}},"spec":{inside}}}"#)
}

#[tokio::test]
async fn flags_in_a_query_are_read_as_go_reads_them() {
    let cluster = cluster().await;
    for no in ["watch=False", "watch=FALSE", "watch=0", "watch=false"] {
        let (code, list) = cluster.get(&format!("{MAPS}?{no}")).await;
        assert_eq!((code, &list["kind"]), (200, &json!("ConfigMapList")), "{no}");
    }
    let map = |owner: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"k": owner}});
    let path = |owner: &str, force: &str| format!("{MAPS}/m?fieldManager={owner}{force}");
    let apply = |owner: &'static str, force: &'static str| {
        cluster.send("PATCH", Box::leak(path(owner, force).into()), support::APPLY, map(owner).to_string())
    };
    assert_eq!(apply("one", "").await.0, 201);
    assert_eq!(apply("two", "&force=False").await.0, 409);
    assert_eq!(apply("two", "&force=True").await.0, 200);
    for (value, orphans) in [("True", true), ("1", true), ("False", false), ("0", false)] {
        cluster.made(MAPS, &json!({"metadata": {"name": "o", "finalizers": ["t.io/x"]}})).await;
        let (_, gone) = cluster.delete(&format!("{MAPS}/o?orphanDependents={value}")).await;
        let finalizers = gone["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        assert_eq!(finalizers.contains(&json!("orphan")), orphans, "{value}: {gone}");
        cluster.merge(&format!("{MAPS}/o"), &json!({"metadata": {"finalizers": null}})).await;
    }
}

#[tokio::test]
async fn a_patch_copies_no_more_than_three_mebibytes() {
    let cluster = cluster().await;
    cluster.made_crd(open_version()).await;
    let thing = json!({"apiVersion": "t.io/v1", "kind": "Thing", "metadata": {"name": "m"}, "spec": {"k": "x".repeat(1000)}});
    cluster.made(THINGS, &thing).await;
    // Each copy doubles what is there.
    let doubling = |times: usize| {
        let copy = |at| json!({"op": "copy", "from": "/spec", "path": format!("/spec/c{at}")});
        Value::from((0..times).map(copy).collect::<Vec<_>>()).to_string()
    };
    let path = format!("{THINGS}/m?dryRun=All");
    assert_eq!(cluster.send("PATCH", &path, JSON_PATCH, doubling(11)).await.0, 200);
    let (code, answer) = cluster.send("PATCH", &path, JSON_PATCH, doubling(12)).await;
    assert_eq!((code, &answer["reason"]), (422, &json!("Invalid")), "{}", answer["message"]);
}

#[tokio::test]
async fn a_patch_builds_nothing_deeper_than_what_is_stored() {
    let cluster = cluster().await;
    cluster.made_crd(open_version()).await;
    cluster.made(THINGS, &serde_json::from_str(&thing("deep", 3)).unwrap()).await;
    let value: Value = serde_json::from_str(&nested(100)).unwrap();
    let inside = "/a".repeat(100);
    // What is there goes below what comes, again and again.
    let mut operations = Vec::new();
    for _ in 0..20 {
        operations.push(json!({"op": "add", "path": "/next", "value": value}));
        operations.push(json!({"op": "move", "from": "/spec", "path": format!("/next{inside}")}));
        operations.push(json!({"op": "move", "from": "/next", "path": "/spec"}));
    }
    let body = Value::from(operations).to_string();
    let (code, answer) = cluster.send("PATCH", &format!("{THINGS}/deep"), JSON_PATCH, body).await;
    assert_eq!((code, &answer["reason"]), (422, &json!("Invalid")), "{answer}");
}

#[tokio::test]
async fn what_is_stored_can_be_read_however_deep_it_was_sent() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = kept_in(folder.path()).await;
    cluster.made_crd(open_version()).await;
    for depth in [90, 100, 110, 119, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129, 1000] {
        let name = format!("deep-{depth}");
        let (code, answer) = cluster.send("POST", THINGS, JSON, thing(&name, depth)).await;
        assert_eq!(code, if depth <= 100 { 201 } else { 400 }, "{depth}: {answer}");
        if code != 201 {
            continue;
        }
        let path = format!("{THINGS}/{name}");
        assert_eq!(cluster.get(&path).await.0, 200);
        let (code, answer) = cluster.merge(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await;
        assert_eq!(code, 200, "{answer}");
    }
    for depth in [128, 500, 1500, 100_000] {
        let yaml =
            format!("apiVersion: t.io/v1\nkind: Thing\nspec: {}{}", "[".repeat(depth), "]".repeat(depth));
        let (code, answer) = cluster.send("POST", THINGS, "application/yaml", yaml.clone()).await;
        assert_eq!(code, 400, "{depth}: {answer}");
        let path = format!("{THINGS}/deep?fieldManager=x");
        let (code, answer) = cluster.send("PATCH", &path, support::APPLY, yaml).await;
        assert_eq!(code, 400, "{depth}: {answer}");
    }
    // Nor can a patch get there in several steps.
    let more: Value = serde_json::from_str(&nested(60)).unwrap();
    let patch = json!([{"op": "add", "path": format!("/spec{}", "/a".repeat(80)), "value": more}]);
    let path = format!("{THINGS}/deep-90");
    let (code, answer) = cluster.send("PATCH", &path, JSON_PATCH, patch.to_string()).await;
    assert!(matches!(code, 400 | 422), "{answer}");
    // A definition goes through other hands: what follows from it is read when a server starts.
    let schema = format!(
        r#"{{"type":"object","properties":{{"a":{{"default":{},"x-kubernetes-preserve-unknown-fields":true}}}}}}"#,
        nested(110)
    );
    let crd = format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{{"name":"deeps.d.io"}},
        "spec":{{"group":"d.io","scope":"Namespaced","names":{{"plural":"deeps","kind":"Deep"}},
        "versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#
    );
    let (code, answer) =
        cluster.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", JSON, crd).await;
    assert_eq!(code, 400, "{answer}");
    cluster.server.close().await;
    drop(cluster);
    let cluster = kept_in(folder.path()).await;
    assert_eq!(cluster.delete(&format!("{THINGS}/deep-100")).await.0, 200);
}

#[tokio::test]
async fn many_keys_are_looked_through_in_no_time() {
    let cluster = cluster().await;
    cluster.made_crd(open_version()).await;
    let keys = |count: usize| (0..count).map(|key| format!("\"k{key}\":1")).collect::<Vec<_>>().join(",");
    let body = |spec: String| {
        format!(r#"{{"apiVersion":"t.io/v1","kind":"Thing","metadata":{{"name":"many"}},"spec":{{{spec}}}}}"#)
    };
    #[expect(clippy::disallowed_methods, reason = "how long the machine takes is what is asked")]
    let begun = Instant::now();
    let path = format!("{THINGS}?dryRun=All");
    assert_eq!(cluster.send("POST", &path, JSON, body(keys(100_000))).await.0, 201);
    // Minutes, when each key is held against each.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    // Of very many that are there twice, the first hundred are told.
    let twice = format!("{0},{0}", keys(1000));
    let (code, answer) =
        cluster.send("POST", &format!("{path}&fieldValidation=Strict"), JSON, body(twice)).await;
    assert_eq!(code, 400);
    let told = answer["message"].as_str().unwrap().matches("duplicate field").count();
    assert_eq!(told, 100, "{answer}");
}

#[tokio::test]
async fn made_up_names_leave_nothing_in_the_metrics() {
    let cluster = cluster().await;
    for number in 0..20 {
        cluster.get(&format!("/api/v1/madeup-{number}")).await;
        cluster.get(&format!("/apis/apps/v1/namespaces/default/madeup-{number}")).await;
        cluster.send(&format!("MADEUP{number}"), MAPS, JSON, String::new()).await;
    }
    cluster.get(MAPS).await;
    let (_, metrics) = cluster.get("/metrics").await;
    let metrics = metrics.as_str().unwrap().to_lowercase();
    assert!(!metrics.contains("madeup"), "{metrics}");
    assert!(metrics.contains(r#"verb="list",resource="configmaps",code="200""#), "{metrics}");
}

#[tokio::test]
async fn a_watch_for_ever_is_a_long_one() {
    let cluster = cluster().await;
    let path = format!("{MAPS}?watch=1&timeoutSeconds=9223372036854775807");
    let request = http::Request::get(path).body(axum::body::Body::empty()).unwrap();
    let answer = tower::ServiceExt::oneshot(cluster.router.clone(), request).await.unwrap();
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn a_watch_from_another_time_is_told_so_in_its_stream() {
    let cluster = few_events().await;
    for number in 0..20 {
        cluster.made(MAPS, &json!({"metadata": {"name": format!("m-{number}")}})).await;
    }
    let (code, event) = cluster.get(&format!("{MAPS}?watch=1&resourceVersion=1&timeoutSeconds=1")).await;
    assert_eq!(
        (code, &event["type"], &event["object"]["code"]),
        (200, &json!("ERROR"), &json!(410)),
        "{event}"
    );
    assert_eq!(event["object"]["reason"], "Expired");
    // Of what is not there yet nothing is told, unless somebody wants all of it.
    let future = format!("{MAPS}?watch=1&resourceVersion=99999999&timeoutSeconds=1");
    let making = async {
        cluster.made(MAPS, &json!({"metadata": {"name": "meanwhile"}})).await;
    };
    let ((code, events), ()) = tokio::join!(cluster.get(&future), making);
    assert_eq!((code, events), (200, json!("")));
    let (code, event) =
        cluster.get(&format!("{future}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")).await;
    assert_eq!(
        (code, &event["type"], &event["object"]["code"]),
        (200, &json!("ERROR"), &json!(504)),
        "{event}"
    );
}

#[tokio::test]
async fn a_page_that_is_too_old_says_how_to_go_on() {
    let cluster = few_events().await;
    for number in 0..3 {
        cluster.made(MAPS, &json!({"metadata": {"name": format!("m-{number}")}})).await;
    }
    let (_, page) = cluster.get(&format!("{MAPS}?limit=1")).await;
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    for number in 0..20 {
        cluster.made(MAPS, &json!({"metadata": {"name": format!("n-{number}")}})).await;
    }
    let (code, gone) = cluster.get(&format!("{MAPS}?limit=1&continue={token}")).await;
    assert_eq!((code, &gone["reason"]), (410, &json!("Expired")), "{gone}");
    let token = gone["metadata"]["continue"].as_str().unwrap().to_owned();
    let (code, next) = cluster.get(&format!("{MAPS}?limit=1&continue={token}")).await;
    assert_eq!((code, &next["items"][0]["metadata"]["name"]), (200, &json!("m-1")), "{next}");
}

/// YAML in which each map has all keys of those before it.
fn merge_chain(maps: usize) -> String {
    let mut text = String::from("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\nm0: &m0 {k0: v}\n");
    for at in 1..maps {
        text.push_str(&format!("m{at}: &m{at} {{<<: *m{}, k{at}: v}}\n", at - 1));
    }
    text
}

#[tokio::test]
async fn merge_keys_add_no_more_than_a_document_of_that_size_could_say() {
    let cluster = cluster().await;
    let path = format!("{MAPS}?dryRun=All");
    let (code, answer) = cluster.send("POST", &path, "application/yaml", merge_chain(20)).await;
    assert_eq!(code, 201, "{answer}");
    let aliases = format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: m}}, l: &l [{}], all: [{}]}}",
        ["x"; 100].join(", "),
        ["*l"; 1000].join(", ")
    );
    for text in [merge_chain(250), merge_chain(900), aliases] {
        let (code, answer) = cluster.send("POST", &path, "application/yaml", text).await;
        assert_eq!(code, 400, "{answer}");
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains("yaml: document contains excessive aliasing"), "{message}");
    }
}

#[tokio::test]
async fn many_owners_are_told_apart() {
    let cluster = cluster().await;
    let owner = |at: usize| json!({"apiVersion": "v1", "kind": "Node", "name": format!("n{at}"), "uid": "u"});
    let owners: Vec<Value> = (0..20_000).chain([7]).map(owner).collect();
    let map = json!({"metadata": {"name": "m", "ownerReferences": owners}});
    // Each held against each, 20,000 would be 200 million comparisons.
    let (code, answer) = cluster.post(&format!("{MAPS}?dryRun=All"), &map).await;
    assert_eq!(code, 201, "{}", answer["message"]);
    assert_eq!(answer["metadata"]["ownerReferences"].as_array().unwrap().len(), 20_000);
}

#[tokio::test]
async fn many_variables_are_merged_by_name() {
    let cluster = cluster().await;
    let variable = |at: usize, value: &str| json!({"name": format!("V{at}"), "value": value});
    let env = |range: std::ops::Range<usize>, value| range.map(|at| variable(at, value)).collect::<Vec<_>>();
    let template = |env: Vec<Value>| {
        let spec = json!({"containers": [{"name": "c", "image": "i", "env": env}]});
        json!({"template": {"metadata": {"labels": {"a": "b"}}, "spec": spec}})
    };
    let mut spec = template(env(0..20_000, "old"));
    spec["selector"] = json!({"matchLabels": {"a": "b"}});
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    cluster.made(deployments, &json!({"metadata": {"name": "d"}, "spec": spec})).await;
    let mut changed = env(10_000..30_000, "new");
    changed.extend((0..5_000).map(|at| json!({"name": format!("V{at}"), "$patch": "delete"})));
    let patch = json!({"spec": template(changed)}).to_string();
    let path = format!("{deployments}/d?dryRun=All");
    let (code, answer) = cluster.send("PATCH", &path, "application/strategic-merge-patch+json", patch).await;
    assert_eq!(code, 200, "{}", answer["message"]);
    let merged = answer["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
    assert_eq!(merged.len(), 25_000);
    assert_eq!((&merged[0], &merged[24_999]), (&variable(5_000, "old"), &variable(29_999, "new")));
}

#[tokio::test]
async fn ports_that_clash_by_the_thousand_are_told_of_in_part() {
    let cluster = cluster().await;
    let ports = vec![json!({"containerPort": 80}); 20_000];
    let pod = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i", "ports": ports}]}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": pod});
    let path = "/apis/apps/v1/namespaces/default/deployments?dryRun=All";
    // Each pair is worth a warning: 200 million of them would not fit in memory.
    let (code, answer) = cluster.post(path, &json!({"metadata": {"name": "d"}, "spec": spec})).await;
    assert_eq!(code, 201, "{}", answer["message"]);
}

#[tokio::test]
async fn of_many_faults_some_are_told() {
    let cluster = cluster().await;
    let requirements = vec![json!({"key": "-", "operator": "In"}); 60_000];
    let attributes = json!({"verb": "get", "labelSelector": {"requirements": requirements}});
    let reviews = "/apis/authorization.k8s.io/v1";
    for (kind, path) in [
        ("SelfSubjectAccessReview", format!("{reviews}/selfsubjectaccessreviews")),
        ("SubjectAccessReview", format!("{reviews}/subjectaccessreviews")),
        ("LocalSubjectAccessReview", format!("{reviews}/namespaces/default/localsubjectaccessreviews")),
    ] {
        let review = json!({"kind": kind, "apiVersion": "authorization.k8s.io/v1", "spec": {"user": "u", "resourceAttributes": attributes}});
        let (code, answer) = cluster.post(&path, &review).await;
        assert_eq!(code, 422, "{kind}");
        assert!(answer["details"]["causes"].as_array().unwrap().len() <= 1000, "{kind}");
        assert!(answer.to_string().len() < 1_000_000, "{kind}: {}", answer.to_string().len());
        assert!(answer["message"].as_str().unwrap().ends_with(" more]"), "{kind}");
    }
    // One value that is as long as a body can be is quoted in part, and so is a body.
    let map = json!({"metadata": {"name": "m", "labels": {"a": "x".repeat(2_000_000)}}});
    let (code, answer) = cluster.post(MAPS, &map).await;
    assert_eq!(code, 422);
    assert!(answer.to_string().len() < 100_000, "{}", answer.to_string().len());
    cluster.made_crd(open_version()).await;
    let (code, answer) =
        cluster.send("POST", THINGS, JSON, json!({"a": "x".repeat(2_000_000)}).to_string()).await;
    assert_eq!(code, 400);
    assert!(answer.to_string().len() < 1_000_000, "{}", answer.to_string().len());
}

/// Who a client is that showed this certificate when its connection was made.
async fn whoami(server: &Server, certificate: &PeerCertificate) -> (u16, Value) {
    let request = Request::builder()
        .method("POST")
        .uri("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("content-type", JSON)
        .extension(certificate.clone());
    let answer = server.router().oneshot(request.body(Body::from("{}")).unwrap()).await.unwrap();
    let code = answer.status().as_u16();
    let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    (code, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn an_open_connection_does_not_outlive_its_certificate() {
    const START: i64 = 1_800_000_000;
    let clock = Arc::new(AtomicI64::new(START));
    let told = clock.clone();
    let context = Context::seeded(1, move || Timestamp::from_second(told.load(Ordering::Relaxed)).unwrap());
    let authority = Authority::in_memory(&context).unwrap();
    let hour = jiff::SignedDuration::from_hours(1);
    let credential = authority.issue_client("alice", &["team"], hour).unwrap();
    let der = CertificateDer::from_pem_slice(credential.certificate.as_bytes()).unwrap();
    let certificate = PeerCertificate(der.as_ref().into());
    let server = Server::open(Options::default(), &authority, context).await.unwrap();

    let (code, answer) = whoami(&server, &certificate).await;
    assert_eq!((code, &answer["status"]["userInfo"]["username"]), (201, &json!("alice")), "{answer}");
    clock.store(START + 3600, Ordering::Relaxed);
    assert_eq!(whoami(&server, &certificate).await.0, 201);
    clock.store(START + 3601, Ordering::Relaxed);
    assert_eq!(whoami(&server, &certificate).await.0, 401);
    // Nor does it count before its time, should the clock have been set back.
    clock.store(START - 2 * 24 * 3600, Ordering::Relaxed);
    assert_eq!(whoami(&server, &certificate).await.0, 401);
}
