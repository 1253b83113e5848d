//! Addresses below an object: its parts, its scale, and the verbs that Kubernetes spells as subresources.

use axum::body::Body;
use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

use super::call::Call;
use super::object::text;
use super::parts::Part;
use super::respond::{Reply, success};
use super::write::Managed;
use super::{eviction, incoming, patch, read, scale, update};
use crate::catalog::Subresource;
use crate::kinds::pods::bind_pod;
use crate::status::{Error, Result};

pub(crate) async fn serve(call: &mut Call, subresource: &Subresource, body: Body) -> Result<Reply> {
    let verb = call.info.verb;
    if let Some(part) = Part::of(&subresource.name) {
        return match verb {
            "get" => read::get(call),
            "update" => update::put(call, part, incoming::read_body(body).await?).await,
            _ => patch::patch(call, part, incoming::read_body(body).await?).await,
        };
    }
    match (&*call.resource.plural, subresource.name.as_str()) {
        (_, "scale") => scale::serve(call, body).await,
        ("pods", "binding") => {
            let pod = call.info.name.clone();
            bind(call, &pod, incoming::read_body(body).await?).await
        }
        ("pods", "eviction") => eviction::evict(call, incoming::read_body(body).await?).await,
        ("pods", "log") => log(call),
        ("serviceaccounts", "token") => token(call, &incoming::read_body(body).await?),
        _ => {
            call.entry(&call.info.name)?;
            Err(no_kubelet(call, &subresource.name))
        }
    }
}

/// A pod that no node has taken has written nothing yet.
fn log(call: &Call) -> Result<Reply> {
    let entry = call.entry(&call.info.name)?;
    let pod = call.value(entry.revision, &entry.body);
    if text(&pod, &["spec", "nodeName"]).is_empty() {
        return Ok(Reply::Raw(super::respond::body(StatusCode::OK, "text/plain", Bytes::new())));
    }
    Err(no_kubelet(call, "log"))
}

fn no_kubelet(call: &Call, what: &str) -> Error {
    let (plural, name) = (&call.resource.plural, &call.info.name);
    Error::unavailable(format!(
        "{what} of {plural} {name:?} needs a kubelet that runs containers, and this cluster has none"
    ))
}

/// `POST …/bindings`: the binding names its pod itself.
pub(crate) async fn bind_named(call: &mut Call, body: Bytes) -> Result<Reply> {
    let binding = incoming::parse(&call.headers, &body, "v1", "Binding")?.into_value();
    let pod = text(&binding, &["metadata", "name"]).to_owned();
    let pods = call.server.catalog().resource("", "v1", "pods");
    call.resource = pods.ok_or_else(Error::no_such_resource)?;
    bind(call, &pod, body).await
}

/// Puts a pod on a node: what a scheduler does.
async fn bind(call: &mut Call, pod: &str, body: Bytes) -> Result<Reply> {
    let dry_run = call.query.dry_run("CreateOptions")?;
    let binding = incoming::parse(&call.headers, &body, "v1", "Binding")?.into_value();
    let now = call.server.context.now_seconds();
    let change = |current: &Value| {
        let mut new = current.clone();
        bind_pod(&mut new, &binding, &now)?;
        Ok((new, Managed::Track))
    };
    update::modify(call, pod, Part::Binding, dry_run, change).await?;
    Ok(success(StatusCode::CREATED))
}

/// A token for a service account.
fn token(call: &Call, body: &[u8]) -> Result<Reply> {
    let request =
        incoming::parse(&call.headers, body, "authentication.k8s.io/v1", "TokenRequest")?.into_value();
    let server = &call.server;
    let answer = server.issuer.request(
        &call.info.namespace,
        &call.info.name,
        request,
        server.as_ref(),
        &server.context,
    )?;
    Ok(Reply::Value(StatusCode::CREATED, answer))
}
