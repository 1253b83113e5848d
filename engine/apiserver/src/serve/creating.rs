//! Requests that create something below an object: a Binding or an Eviction of a pod, a token of a service account.
//!
//! What they bring is decoded and admitted as what it is. What they then do to the object is their own work, and
//! nobody is asked again about it.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::admit::{self, Write};
use super::call::Call;
use super::object::{metadata, text};
use super::parts::Part;
use super::respond::{Reply, success};
use super::write::{self, Managed};
use super::{incoming, update};
use crate::admission::Operation;
use crate::catalog::Resource;
use crate::field;
use crate::kinds::pods::{bind_pod, validate_binding};
use crate::schema::raw::Json;
use crate::status::{Error, Result};

/// What is written by a request for a part: most parts are written as the whole object.
pub(crate) fn shape(resource: &Arc<Resource>, part: Part) -> Arc<Resource> {
    let (group, kind) = match part {
        Part::Binding => ("", "Binding"),
        Part::Eviction => ("policy", "Eviction"),
        Part::Token => ("authentication.k8s.io", "TokenRequest"),
        _ => return resource.clone(),
    };
    Arc::new(Resource::below(&resource.plural, group, kind))
}

/// What a request creates, as everybody who may change it leaves it.
pub(crate) async fn read(call: &mut Call, part: Part, body: &[u8]) -> Result<Value> {
    let dry_run = call.query.dry_run("CreateOptions")?;
    let validation = call.query.field_validation("CreateOptions")?;
    write::check_field_manager(call, "CreateOptions")?;
    let shape = shape(&call.resource, part);
    let parsed = match older(call, part, body) {
        Some(json) => json.into(),
        None => incoming::read(&shape, &call.headers, body, validation, &mut call.warnings)?,
    };
    let mut object = incoming::object(&shape, parsed, validation, &mut call.warnings)?;
    write::check_namespace(call, &mut object)?;
    let name = named(call, &object);
    let write = Write { operation: Operation::Create, part, name: &name, old: None, dry_run, deletion: None };
    admit::mutate(call, &write, &mut object).await?;
    Ok(object)
}

/// Evictions have an older version, which differs in nothing but its name.
fn older(call: &Call, part: Part, body: &[u8]) -> Option<Json> {
    if part != Part::Eviction {
        return None;
    }
    let parsed = incoming::parse(&call.headers, body, "policy/v1", "Eviction").ok()?;
    let Json::Object(mut entries) = parsed.json else {
        return None;
    };
    let (_, version) = entries.iter_mut().find(|(key, _)| key == "apiVersion")?;
    if *version != Json::String("policy/v1beta1".to_owned()) {
        return None;
    }
    *version = Json::String("policy/v1".to_owned());
    Some(Json::Object(entries))
}

/// Asks everybody who may refuse it.
pub(crate) async fn admit(call: &mut Call, part: Part, object: &Value) -> Result<()> {
    let dry_run = call.query.dry_run("CreateOptions")?;
    let name = named(call, object);
    let write = Write { operation: Operation::Create, part, name: &name, old: None, dry_run, deletion: None };
    admit::validate(call, &write, Some(object)).await.map(drop)
}

fn named(call: &Call, object: &Value) -> String {
    match call.info.name.as_str() {
        "" => text(object, &["metadata", "name"]).to_owned(),
        name => name.to_owned(),
    }
}

/// `POST …/pods/NAME/binding`: puts a pod on a node, as a scheduler does.
pub(crate) async fn bind(call: &mut Call, body: Bytes) -> Result<Reply> {
    let binding = read(call, Part::Binding, &body).await?;
    if text(&binding, &["metadata", "name"]) != call.info.name {
        return Err(Error::bad_request("name in URL does not match name in Binding object"));
    }
    check_binding(&binding)?;
    admit(call, Part::Binding, &binding).await?;
    assign(call, &binding).await
}

/// `POST …/bindings`: the binding names its pod itself.
pub(crate) async fn bind_named(call: &mut Call, body: Bytes) -> Result<Reply> {
    let mut binding = read(call, Part::Whole, &body).await?;
    // Here a uid is that of the binding, which has none of its own.
    metadata(&mut binding).remove("uid");
    check_binding(&binding)?;
    admit(call, Part::Whole, &binding).await?;
    let pods = call.server.catalog().resource("", "v1", "pods");
    call.resource = pods.ok_or_else(Error::no_such_resource)?;
    assign(call, &binding).await
}

fn check_binding(binding: &Value) -> Result<()> {
    let faults = validate_binding(binding);
    if faults.is_empty() { Ok(()) } else { Err(Error::new(500, "", field::aggregate(&faults))) }
}

async fn assign(call: &mut Call, binding: &Value) -> Result<Reply> {
    let dry_run = call.query.dry_run("CreateOptions")?;
    let now = call.server.context.now_seconds();
    let change = |current: &Value| {
        let mut new = current.clone();
        bind_pod(&mut new, binding, &now)?;
        Ok((new, Managed::Track))
    };
    call.admitted = true;
    let pod = text(binding, &["metadata", "name"]).to_owned();
    update::modify(call, &pod, Part::Binding, dry_run, change).await?;
    Ok(success(StatusCode::CREATED))
}

/// `POST …/serviceaccounts/NAME/token`: a token for a service account.
pub(crate) async fn token(call: &mut Call, body: &[u8]) -> Result<Reply> {
    let request = read(call, Part::Token, body).await?;
    let server = call.server.clone();
    let (namespace, name) = (call.info.namespace.clone(), call.info.name.clone());
    // Who may refuse it sees the request as it is answered, but not the token.
    let answer = server.issuer.request(&namespace, &name, request, server.as_ref(), &server.context)?;
    let mut shown = answer.clone();
    shown["status"] = json!({"token": "", "expirationTimestamp": null});
    admit(call, Part::Token, &shown).await?;
    Ok(Reply::Value(StatusCode::CREATED, answer))
}
