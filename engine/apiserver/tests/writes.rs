//! What a write leaves behind: revisions only where something changed, names only once everybody had a say.

use std::sync::atomic::{AtomicI64, Ordering};

use axum::Router;
use axum::body::{Body, to_bytes};
use http::Request;
use jiff::Timestamp;
use koinon_apiserver::auth::User;
use koinon_apiserver::auth::pki::Authority;
use koinon_apiserver::context::Context;
use koinon_apiserver::serve::{Options, Server};
use serde_json::{Value, json};
use tower::ServiceExt as _;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A server to which every look at the clock is a minute later.
async fn server() -> Router {
    let seconds = AtomicI64::new(1_800_000_000);
    let now = move || Timestamp::from_second(seconds.fetch_add(60, Ordering::Relaxed)).unwrap();
    let context = Context::seeded(1, now);
    let authority = Authority::in_memory(&context).unwrap();
    let server = Server::open(Options::default(), &authority, context).await.unwrap();
    server.trusted_router(User::new("system:admin", &["system:masters"]))
}

async fn ask(server: &Router, method: &str, path: &str, media: &str, body: &Value) -> Value {
    let request = Request::builder().method(method).uri(path).header("content-type", media);
    let request = request.body(Body::from(body.to_string())).unwrap();
    let answer = server.clone().oneshot(request).await.unwrap();
    serde_json::from_slice(&to_bytes(answer.into_body(), usize::MAX).await.unwrap()).unwrap()
}

#[tokio::test]
async fn what_changes_nothing_makes_no_revision_however_late() {
    let server = server().await;
    let made =
        json!({"metadata": {"name": "n", "labels": {"a": "b"}}, "spec": {"finalizers": ["kubernetes"]}});
    let made = ask(&server, "POST", "/api/v1/namespaces", JSON, &made).await;
    let revision = &made["metadata"]["resourceVersion"];
    // What the server does not let anybody change is put back, and so is the time at which it was tried.
    let mut put = made.clone();
    put["spec"]["finalizers"] = json!(["other.io/one"]);
    let path = "/api/v1/namespaces/n";
    let answers = [
        ask(&server, "PUT", path, JSON, &put).await,
        ask(&server, "PUT", path, JSON, &made).await,
        ask(&server, "PATCH", path, MERGE, &json!({"metadata": {"labels": {"a": "b"}}})).await,
        ask(&server, "PATCH", path, MERGE, &json!({"status": {"phase": "Terminating"}})).await,
    ];
    for answer in &answers {
        assert_eq!(answer, &made);
        assert_eq!(&answer["metadata"]["resourceVersion"], revision);
    }
    let applied =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": {"c": "d"}}});
    let path = "/api/v1/namespaces/n?fieldManager=x";
    let first = ask(&server, "PATCH", path, APPLY, &applied).await;
    assert_ne!(&first["metadata"]["resourceVersion"], revision);
    assert_eq!(ask(&server, "PATCH", path, APPLY, &applied).await, first);
}

#[tokio::test]
async fn a_name_is_chosen_after_all_that_may_change_the_object() {
    let server = server().await;
    let path = "/api/v1/namespaces/default/pods";
    let pod = |class: &str| {
        let containers = json!([{"name": "c", "image": "i"}]);
        json!({"metadata": {"generateName": "web-"}, "spec": {"priorityClassName": class, "containers": containers}})
    };
    let account = json!({"metadata": {"name": "default"}});
    ask(&server, "POST", "/api/v1/namespaces/default/serviceaccounts", JSON, &account).await;
    let refused = ask(&server, "POST", path, JSON, &pod("missing")).await;
    let why = "pods \"web-\" is forbidden: no PriorityClass with name missing was found";
    assert_eq!(refused["message"], why, "{refused}");
    let made = ask(&server, "POST", path, JSON, &pod("")).await;
    let name = made["metadata"]["name"].as_str().unwrap_or_default();
    assert!(name.starts_with("web-") && name.len() == 9, "{made}");
}
