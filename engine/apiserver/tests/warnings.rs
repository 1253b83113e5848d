//! The `Warning` headers of answers: who gets which, in which order, and with refusals too.

use axum::Router;
use axum::body::Body;
use http::{Method, Request, StatusCode};
use jiff::Timestamp;
use koinon_apiserver::auth::User;
use koinon_apiserver::auth::pki::Authority;
use koinon_apiserver::context::Context;
use koinon_apiserver::serve::{Options, Server};
use serde_json::{Value, json};
use tower::ServiceExt as _;

const MERGE: &str = "application/merge-patch+json";

async fn server() -> Router {
    let context = Context::seeded(1, || Timestamp::from_second(1_800_000_000).unwrap());
    let authority = Authority::in_memory(&context).unwrap();
    let server = Server::open(Options::default(), &authority, context).await.unwrap();
    server.trusted_router(User::new("system:admin", &["system:masters"]))
}

/// What a request is answered with: the code, and the texts of the warnings.
async fn ask(
    server: &Router,
    method: Method,
    path: &str,
    media: &str,
    body: Option<Value>,
) -> (StatusCode, Vec<String>) {
    let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
    let request = Request::builder().method(method).uri(path).header("content-type", media);
    let response = server.clone().oneshot(request.body(body).unwrap()).await.unwrap();
    let warnings = response.headers().get_all("warning").iter();
    let text = |value: &http::HeaderValue| {
        let text = value.to_str().unwrap();
        let quoted = text.strip_prefix("299 - \"").and_then(|text| text.strip_suffix('"')).unwrap();
        quoted.replace("\\\"", "\"")
    };
    (response.status(), warnings.map(text).collect())
}

#[track_caller]
fn check((code, warnings): (StatusCode, Vec<String>), expected: u16, starts: &[&str]) {
    assert_eq!(code.as_u16(), expected, "{warnings:?}");
    assert_eq!(warnings.len(), starts.len(), "{warnings:#?}");
    for (warning, start) in warnings.iter().zip(starts) {
        assert!(warning.starts_with(start), "{warning} is not {start}");
    }
}

const OLD_ARCH: &str = "spec.template.spec.nodeSelector[beta.kubernetes.io/arch]: deprecated since v1.14";

fn deployment() -> Value {
    json!({"metadata": {"name": "a.b"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {
                "nodeSelector": {"beta.kubernetes.io/arch": "x"},
                "containers": [{"name": "c", "image": "i"}],
            },
        },
    }})
}

#[tokio::test]
async fn templates_are_told_when_they_may_have_changed() {
    let server = server().await;
    let all = "/apis/apps/v1/namespaces/default/deployments";
    let one = "/apis/apps/v1/namespaces/default/deployments/a.b";
    let name = "metadata.name: this is used in Pod names and hostnames";
    let json = "application/json";
    check(ask(&server, Method::POST, all, json, Some(deployment())).await, 201, &[name, OLD_ARCH]);
    check(ask(&server, Method::GET, one, json, None).await, 200, &[]);
    let label = json!({"metadata": {"labels": {"x": "y"}}});
    check(ask(&server, Method::PATCH, one, MERGE, Some(label)).await, 200, &[]);
    let odd = json!({"spec": {"replicas": 2}, "foo": 1});
    let unknown = r#"unknown field "foo""#;
    check(ask(&server, Method::PATCH, one, MERGE, Some(odd)).await, 200, &[unknown, OLD_ARCH]);
    let scale = format!("{one}/scale");
    let more = json!({"spec": {"replicas": 4}});
    check(ask(&server, Method::PATCH, &scale, MERGE, Some(more)).await, 200, &[OLD_ARCH]);
    let status = json!({"status": {"replicas": 1}});
    check(ask(&server, Method::PATCH, &format!("{one}/status"), MERGE, Some(status)).await, 200, &[]);
}

#[tokio::test]
async fn what_is_refused_keeps_the_warnings_it_got_so_far() {
    let server = server().await;
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let mut wrong = deployment();
    wrong["foo"] = json!(1);
    wrong["spec"]["selector"] = json!({"matchLabels": {"not": "it"}});
    let unknown = r#"unknown field "foo""#;
    check(ask(&server, Method::POST, path, "application/json", Some(wrong)).await, 422, &[unknown]);
    // Quota is looked at after validation.
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "0", "secrets": "0"}}});
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    check(ask(&server, Method::POST, quotas, "application/json", Some(quota)).await, 201, &[]);
    let secret = json!({"metadata": {"name": "s"}, "type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}});
    let secrets = "/api/v1/namespaces/default/secrets";
    let pem = "tls: failed to find any PEM data in certificate input";
    check(ask(&server, Method::POST, secrets, "application/json", Some(secret)).await, 403, &[pem]);
}

#[tokio::test]
async fn deprecated_types_are_told_whatever_comes_of_it() {
    let server = server().await;
    let all = "/api/v1/namespaces/default/endpoints";
    let old = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
    let json = "application/json";
    check(ask(&server, Method::GET, all, json, None).await, 200, &[old]);
    check(ask(&server, Method::GET, &format!("{all}/none"), json, None).await, 404, &[old]);
    check(ask(&server, Method::PUT, all, json, Some(json!({}))).await, 405, &[]);
    let address = "subsets[0].addresses[0].ip: IPv6 address \"2001:DB8::1\" should be in RFC 5952";
    let endpoints = json!({"metadata": {"name": "e"}, "subsets": [{"addresses": [{"ip": "2001:DB8::1"}]}]});
    check(ask(&server, Method::POST, all, json, Some(endpoints)).await, 201, &[old, address]);
}

#[tokio::test]
async fn owners_are_stored_once() {
    let server = server().await;
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u"});
    let map = json!({"metadata": {"name": "m", "ownerReferences": [owner, owner]}});
    let all = "/api/v1/namespaces/default/configmaps";
    let one = "/api/v1/namespaces/default/configmaps/m";
    let sent = ".metadata.ownerReferences contains duplicate entries; API server";
    let made = ".metadata.ownerReferences contains duplicate entries after mutating admission happens;";
    check(ask(&server, Method::POST, all, "application/json", Some(map.clone())).await, 201, &[sent]);
    check(ask(&server, Method::PUT, one, "application/json", Some(map.clone())).await, 200, &[sent]);
    check(ask(&server, Method::PATCH, one, MERGE, Some(map)).await, 200, &[made]);
}

#[tokio::test]
async fn namespaces_hear_of_pods_beyond_their_standard() {
    let server = server().await;
    let (json, namespaces) = ("application/json", "/api/v1/namespaces");
    let namespace =
        json!({"metadata": {"name": "n", "labels": {"pod-security.kubernetes.io/warn": "restricted"}}});
    check(ask(&server, Method::POST, namespaces, json, Some(namespace)).await, 201, &[]);
    let account = json!({"metadata": {"name": "default"}});
    let accounts = "/api/v1/namespaces/n/serviceaccounts";
    check(ask(&server, Method::POST, accounts, json, Some(account)).await, 201, &[]);
    let beyond = r#"would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")"#;
    let name = "metadata.name: this is used in Pod names and hostnames";
    let deployments = "/apis/apps/v1/namespaces/n/deployments";
    let made = ask(&server, Method::POST, deployments, json, Some(deployment())).await;
    check(made, 201, &[name, OLD_ARCH, beyond]);
    let pods = "/api/v1/namespaces/n/pods";
    for pod in ["p", "q"] {
        let pod = json!({"metadata": {"name": pod}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        check(ask(&server, Method::POST, pods, json, Some(pod)).await, 201, &[beyond]);
    }
    let label = json!({"metadata": {"labels": {"x": "y"}}});
    check(ask(&server, Method::PATCH, "/api/v1/namespaces/n/pods/p", MERGE, Some(label)).await, 200, &[]);
    let stricter = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    let told = ask(&server, Method::PATCH, "/api/v1/namespaces/n", MERGE, Some(stricter)).await;
    check(
        told,
        200,
        &[
            r#"existing pods in namespace "n" violate the new PodSecurity enforce level "restricted:latest""#,
            "p (and 1 other pod): allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile",
        ],
    );
    let refused = json!({"metadata": {"name": "r"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    check(ask(&server, Method::POST, pods, json, Some(refused)).await, 403, &[]);
}
