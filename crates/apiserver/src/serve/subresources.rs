//! Addresses below an object: its parts, its scale, and the verbs that Kubernetes spells as subresources.

use axum::body::Body;
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::call::Call;
use super::object::text;
use super::parts::Part;
use super::respond::Reply;
use super::write::Managed;
use super::{incoming, patch, read, scale, update};
use crate::catalog::Subresource;
use crate::kinds::pods::bind_pod;
use crate::selector::LabelSelector;
use crate::status::{Error, Result};
use crate::store::ListQuery;

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
        ("pods", "eviction") => evict(call, incoming::read_body(body).await?).await,
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

fn success(code: StatusCode) -> Reply {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code.as_u16(),
    });
    Reply::Value(code, status)
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

/// Deletes a pod unless a disruption budget forbids it.
async fn evict(call: &mut Call, body: Bytes) -> Result<Reply> {
    let eviction = incoming::parse(&call.headers, &body, "policy/v1", "Eviction")?.into_value();
    let entry = call.entry(&call.info.name)?;
    let pod = call.value(entry.revision, &entry.body);
    check_budgets(call, &pod)?;
    let options = match &eviction["deleteOptions"] {
        Value::Object(options) => Value::Object(options.clone()),
        _ => json!({}),
    };
    let body = serde_json::to_vec(&options).expect("a value can be written");
    super::delete::delete(call, body.into()).await?;
    Ok(success(StatusCode::CREATED))
}

fn check_budgets(call: &Call, pod: &Value) -> Result<()> {
    // A pod that is not running disturbs nobody when it goes.
    if matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed" | "Pending")
        || !text(pod, &["metadata", "deletionTimestamp"]).is_empty()
    {
        return Ok(());
    }
    let namespace = Some(call.info.namespace.as_str());
    let query = ListQuery { namespace, ..ListQuery::all("policy/poddisruptionbudgets") };
    let Ok(found) = call.server.store.list(&query) else { return Ok(()) };
    let budgets = found.items.iter().map(|item| super::object::of_entry(None, &item.entry));
    let selects = |budget: &Value| {
        LabelSelector::from_label_selector(&budget["spec"]["selector"])
            .is_ok_and(|selector| selector.matches_object(pod))
    };
    let budgets: Vec<Value> = budgets.filter(selects).collect();
    if budgets.len() > 1 {
        return Err(Error::internal(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        ));
    }
    let Some(budget) = budgets.first() else { return Ok(()) };
    let status = &budget["status"];
    if status["disruptionsAllowed"].as_i64().unwrap_or(0) > 0 {
        return Ok(());
    }
    let name = text(budget, &["metadata", "name"]);
    let (needed, healthy) =
        (status["desiredHealthy"].as_i64().unwrap_or(0), status["currentHealthy"].as_i64().unwrap_or(0));
    let mut error = Error::new(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
    );
    let message =
        format!("The disruption budget {name} needs {needed} healthy pods and has {healthy} currently");
    error.details = Some(Box::new(json!({"causes": [{"reason": "DisruptionBudget", "message": message}]})));
    Err(error)
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
