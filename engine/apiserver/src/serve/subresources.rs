//! Addresses below an object: its parts, its scale, and the verbs that Kubernetes spells as subresources.

use axum::body::Body;
use bytes::Bytes;
use http::StatusCode;

use super::call::Call;
use super::object::text;
use super::parts::Part;
use super::respond::Reply;
use super::{creating, eviction, incoming, patch, read, scale, update};
use crate::catalog::Subresource;
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
        ("pods", "binding") => creating::bind(call, incoming::read_body(body).await?).await,
        ("pods", "eviction") => eviction::evict(call, incoming::read_body(body).await?).await,
        ("pods", "log") => log(call),
        ("serviceaccounts", "token") => creating::token(call, &incoming::read_body(body).await?).await,
        _ => {
            if call.query.get("dryRun").is_some() {
                return Err(Error::bad_request("dryRun is not supported"));
            }
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
