//! Custom resources are shown under the definition that there is now, and go with it.

use std::time::Duration;

use axum::body::Body;
use futures::StreamExt as _;
use http::Request;
use serde_json::{Value, json};
use tower::ServiceExt as _;

mod support;
use support::{Cluster, cluster, open_version};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn version(name: &str, fields: &[&str]) -> Value {
    let fields: serde_json::Map<String, Value> =
        fields.iter().map(|field| ((*field).to_owned(), json!({"type": "string"}))).collect();
    let spec = json!({"type": "object", "properties": fields});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}})
}

fn things(version: &str) -> String {
    format!("/apis/t.io/{version}/namespaces/default/things")
}

fn thing(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "t.io/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn nothing_shows_that_the_version_asked_for_does_not_know() {
    let cluster = cluster().await;
    cluster.made_crd(json!([version("v1", &["a", "b"]), version("v2", &["a"])])).await;
    let made = cluster.made(&things("v1"), &thing("x", json!({"a": "1", "b": "2"}))).await;
    assert_eq!(made["spec"], json!({"a": "1", "b": "2"}));
    let specs = async |version: &str| {
        let (_, one) = cluster.get(&format!("{}/x", things(version))).await;
        let (_, all) = cluster.get(&things(version)).await;
        let (_, watched) = cluster.get(&format!("{}?watch=1&timeoutSeconds=1", things(version))).await;
        // One event, which is one line of JSON.
        [one["spec"].clone(), all["items"][0]["spec"].clone(), watched["object"]["spec"].clone()]
    };
    let [whole, less] = [json!({"a": "1", "b": "2"}), json!({"a": "1"})];
    assert_eq!(specs("v1").await, [whole.clone(), whole.clone(), whole.clone()]);
    assert_eq!(specs("v2").await, [less.clone(), less.clone(), less.clone()]);
    // Nor what the stored version has lost since.
    let versions = json!({"spec": {"versions": [version("v1", &["a"]), version("v2", &["a"])]}});
    assert_eq!(cluster.merge(&format!("{CRDS}/things.t.io"), &versions).await.0, 200);
    assert_eq!(specs("v1").await, [less.clone(), less.clone(), less.clone()]);
    assert_eq!(specs("v2").await, [less.clone(), less.clone(), less]);
}

#[tokio::test]
async fn nothing_new_comes_while_the_definition_goes() {
    let cluster = cluster().await;
    cluster.made_crd(open_version()).await;
    let mut held = thing("x", json!({}));
    held["metadata"]["finalizers"] = json!(["t.io/x"]);
    cluster.made(&things("v1"), &held).await;
    assert_eq!(cluster.delete(&format!("{CRDS}/things.t.io")).await.0, 200);
    let (code, answer) = cluster.post(&things("v1"), &thing("y", json!({}))).await;
    let why =
        "things.t.io \"y\" is forbidden: create not allowed while custom resource definition is terminating";
    assert_eq!((code, &answer["message"]), (403, &json!(why)));
    let path = format!("{}/y?fieldManager=x", things("v1"));
    let applied = thing("y", json!({})).to_string();
    assert_eq!(cluster.send("PATCH", &path, support::APPLY, applied).await.0, 403);
    let free = json!({"metadata": {"finalizers": null}});
    assert_eq!(cluster.merge(&format!("{}/x", things("v1")), &free).await.0, 200);
    assert_eq!(cluster.get(&format!("{CRDS}/things.t.io")).await.0, 404);
}

/// The events of a watch until it ends.
async fn watched(cluster: &Cluster, path: &str) -> tokio::task::JoinHandle<String> {
    let request = Request::get(format!("{path}?watch=1&timeoutSeconds=60")).body(Body::empty()).unwrap();
    let answer = cluster.router.clone().oneshot(request).await.unwrap();
    let mut body = answer.into_body().into_data_stream();
    tokio::spawn(async move {
        let mut seen = Vec::new();
        while let Some(piece) = body.next().await {
            seen.extend(piece.unwrap());
        }
        String::from_utf8(seen).unwrap()
    })
}

#[tokio::test]
async fn a_watch_ends_with_the_definition() {
    let cluster = cluster().await;
    cluster.made_crd(open_version()).await;
    cluster.made(&things("v1"), &thing("x", json!({}))).await;
    let events = watched(&cluster, &things("v1")).await;
    assert_eq!(cluster.delete(&format!("{CRDS}/things.t.io")).await.0, 200);
    let events = tokio::time::timeout(Duration::from_secs(20), events).await.expect("it ends").unwrap();
    assert!(events.contains(r#""type":"DELETED""#), "{events}");
}

#[tokio::test]
async fn names_that_are_taken_are_given_when_they_are_free() {
    let cluster = cluster().await;
    cluster.made_crd(open_version()).await;
    let names = json!({"plural": "others", "singular": "other", "kind": "Thing", "listKind": "OtherList"});
    let other = json!({
        "metadata": {"name": "others.t.io"},
        "spec": {"group": "t.io", "scope": "Namespaced", "names": names, "versions": open_version()},
    });
    let making = cluster.made(CRDS, &other);
    tokio::time::timeout(Duration::from_secs(20), making).await.expect("an answer");
    let established = async || {
        let (_, crd) = cluster.get(&format!("{CRDS}/others.t.io")).await;
        let conditions = crd["status"]["conditions"].as_array().unwrap().clone();
        conditions.iter().any(|one| one["type"] == "Established" && one["status"] == "True")
    };
    assert!(!established().await);
    assert_eq!(cluster.delete(&format!("{CRDS}/things.t.io")).await.0, 200);
    assert!(established().await);
}
