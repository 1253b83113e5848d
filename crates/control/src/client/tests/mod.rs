//! The client beside servers that are good, old, few of streams, leaving, frozen or bad.

mod bad;
mod good;
mod server;

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;

/// Sends a request and reads its answer.
async fn call(client: &Client, method: Method, path: &str) -> kube::Result<(u16, Bytes)> {
    let body = if method == Method::GET { Vec::new() } else { b"{}".to_vec() };
    let request = Request::builder().method(method).uri(path).body(Body::from(body)).unwrap();
    let response = client.send(request).await?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((status, body))
}

async fn get(client: &Client) -> kube::Result<(u16, Bytes)> {
    call(client, Method::GET, "/api/v1/namespaces/default/configmaps/a").await
}

/// Opens a watch and reads its first line.
async fn watch(client: &Client) -> Response<Body> {
    let request = Request::get("/api/v1/configmaps?watch=true").body(Body::empty()).unwrap();
    let mut response = client.send(request).await.unwrap();
    let frame = response.body_mut().frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "{}\n");
    response
}

/// What went wrong, as it is told.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

/// Waits until something holds.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let waited = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waited)
        .await
        .unwrap_or_else(|_| panic!("not in time: {what}"));
}
