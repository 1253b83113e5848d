//! A server without a socket, and short ways to ask it.

// Each test program uses its own part of this.
#![allow(dead_code)]

pub(crate) mod socket;
pub(crate) mod webhook;

use std::path::Path;

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{Request, StatusCode};
use jiff::Timestamp;
use koinon_apiserver::auth::User;
use koinon_apiserver::auth::pki::Authority;
use koinon_apiserver::context::Context;
use koinon_apiserver::serve::{Options, Server};
use serde_json::{Value, json};
use tower::ServiceExt as _;

pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// One server, asked as its administrator.
pub(crate) struct Cluster {
    pub(crate) server: Server,
    pub(crate) router: Router,
}

/// A server that forgets everything when it goes.
pub(crate) async fn cluster() -> Cluster {
    open(Options::default()).await
}

/// A server that keeps its objects in a folder.
pub(crate) async fn kept_in(folder: &Path) -> Cluster {
    open(Options { data: Some(folder.to_owned()), ..Options::default() }).await
}

/// A server that remembers next to nothing of the past.
pub(crate) async fn few_events() -> Cluster {
    let history = koinon_apiserver::store::Options { events_per_resource: 4, ..Default::default() };
    open(Options { history, ..Options::default() }).await
}

async fn open(options: Options) -> Cluster {
    let context = Context::seeded(1, || Timestamp::from_second(1_800_000_000).unwrap());
    let authority = Authority::in_memory(&context).unwrap();
    let server = Server::open(options, &authority, context).await.unwrap();
    let router = server.trusted_router(User::new("system:admin", &["system:masters"]));
    Cluster { server, router }
}

impl Cluster {
    pub(crate) fn with_user(&self, name: &str) -> Cluster {
        let router = self.server.trusted_router(User::new(name, &["system:authenticated"]));
        Cluster { server: self.server.clone(), router }
    }

    /// Sends a body as it is; the answer's code and its JSON, or its text.
    pub(crate) async fn send(&self, method: &str, path: &str, media: &str, body: String) -> (u16, Value) {
        let request = Request::builder().method(method).uri(path).header("content-type", media);
        let answer = self.router.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        let status = answer.status().as_u16();
        let bytes = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
        (status, serde_json::from_slice(&bytes).unwrap_or_else(|_| text()))
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, JSON, String::new()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.send("POST", path, JSON, body.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> (u16, Value) {
        self.send("PUT", path, JSON, body.to_string()).await
    }

    pub(crate) async fn merge(&self, path: &str, body: &Value) -> (u16, Value) {
        self.send("PATCH", path, MERGE, body.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> (u16, Value) {
        self.send("DELETE", path, JSON, String::new()).await
    }

    /// Creates what a test stands on.
    pub(crate) async fn made(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.post(path, body).await;
        assert_eq!(status, StatusCode::CREATED.as_u16(), "{answer}");
        answer
    }

    /// Pods need a service account to come into being.
    pub(crate) async fn made_pod(&self, name: &str) -> Value {
        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        self.post(accounts, &json!({"metadata": {"name": "default"}})).await;
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        self.made("/api/v1/namespaces/default/pods", &pod).await
    }

    /// A namespaced custom resource `Thing` of group `t.io` with these versions.
    pub(crate) async fn made_crd(&self, versions: Value) -> Value {
        let names =
            json!({"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"});
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.t.io"},
            "spec": {"group": "t.io", "scope": "Namespaced", "names": names, "versions": versions},
        });
        self.made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await
    }
}

/// One version of a CRD that keeps whatever it is given.
pub(crate) fn open_version() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}])
}
