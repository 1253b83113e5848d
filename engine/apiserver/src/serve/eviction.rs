//! `POST …/pods/NAME/eviction`: deletes a pod unless a disruption budget forbids it.
//!
//! A budget is checked and counted down in one write, so that evictions at the same time cannot both have the last
//! disruption that it allows.

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde_json::{Value, json};

use super::call::Call;
use super::object::{of_entry, text};
use super::parts::Part;
use super::respond::{Reply, success};
use super::write::Managed;
use super::{creating, update};
use crate::selector::LabelSelector;
use crate::status::{Error, GroupResource, Result};
use crate::store::ListQuery;

/// More evictions than this that nobody has confirmed are too many.
const MOST_DISRUPTED: usize = 2000;
const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

pub(crate) async fn evict(call: &mut Call, body: Bytes) -> Result<Reply> {
    let eviction = creating::read(call, Part::Eviction, &body).await?;
    let name = call.info.name.clone();
    if text(&eviction, &["metadata", "name"]) != name {
        return Err(Error::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut options = match &eviction["deleteOptions"] {
        Value::Object(options) => Value::Object(options.clone()),
        _ => json!({}),
    };
    let dry_run = dry_run(call, &mut options)?;
    creating::admit(call, Part::Eviction, &eviction).await?;
    let entry = call.entry(&name)?;
    let pod = call.value(entry.revision, &entry.body);
    let bound_by_user = !options["preconditions"]["resourceVersion"].is_null();
    let judged = if disturbs_nobody(&pod) {
        if may_become_ready(&pod) { Judged::AsSeen } else { Judged::Free }
    } else {
        ask_budget(call, &pod, dry_run).await?
    };
    if judged == Judged::AsSeen && !bound_by_user {
        options["preconditions"]["resourceVersion"] = entry.revision.to_string().into();
    }
    call.admitted = true;
    if !dry_run {
        mark(call, &name, &mut options).await?;
    }
    let body = serde_json::to_vec(&options).expect("a value can be written");
    call.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    super::delete::delete(call, body.into()).await?;
    Ok(success(StatusCode::CREATED))
}

/// What a budget has to say of a pod.
#[derive(PartialEq)]
enum Judged {
    Free,
    /// Only as long as it is what it was when it was looked at.
    AsSeen,
}

fn dry_run(call: &Call, options: &mut Value) -> Result<bool> {
    let asked = call.query.dry_run("CreateOptions")?;
    let written: Vec<&str> =
        options["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let different = asked && !written.is_empty() && written != ["All"];
    if different {
        let why =
            format!("Non-matching dry-run options in request and content: [All] and [{}]", written.join(" "));
        return Err(Error::new(500, "", why));
    }
    let written = !written.is_empty();
    if asked && !written {
        options["dryRun"] = json!(["All"]);
    }
    Ok(asked || written)
}

/// A pod that is not running disturbs nobody when it goes.
fn disturbs_nobody(pod: &Value) -> bool {
    matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed" | "Pending") || is_going(pod)
}

fn may_become_ready(pod: &Value) -> bool {
    !matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed") && !is_going(pod)
}

fn is_going(pod: &Value) -> bool {
    !text(pod, &["metadata", "deletionTimestamp"]).is_empty()
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

async fn ask_budget(call: &mut Call, pod: &Value, dry_run: bool) -> Result<Judged> {
    let budgets = budgets_of(call, pod);
    if budgets.len() > 1 {
        return Err(Error::internal(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        ));
    }
    let Some(budget) = budgets.first() else { return Ok(Judged::Free) };
    if !is_ready(pod) && spares_unready(budget) {
        return Ok(Judged::AsSeen);
    }
    let (pod, budget) = (text(pod, &["metadata", "name"]), text(budget, &["metadata", "name"]));
    let kind = call.server.catalog().resource("policy", "v1", "poddisruptionbudgets");
    let kind = kind.ok_or_else(Error::no_such_resource)?;
    let pods = std::mem::replace(&mut call.resource, kind);
    let now = call.server.context.now_seconds();
    let counted = update::modify(call, budget, Part::Status, dry_run, |current| {
        let mut new = current.clone();
        count_down(&mut new, pod, &now)?;
        Ok((new, Managed::Track))
    })
    .await;
    call.resource = pods;
    counted.map(|_| Judged::Free)
}

fn budgets_of(call: &Call, pod: &Value) -> Vec<Value> {
    let namespace = Some(call.info.namespace.as_str());
    let query = ListQuery { namespace, ..ListQuery::all("policy/poddisruptionbudgets") };
    let Ok(found) = call.server.store.list(&query) else { return Vec::new() };
    let budgets = found.items.iter().map(|item| of_entry(None, &item.entry));
    let selects = |budget: &Value| {
        LabelSelector::from_label_selector(&budget["spec"]["selector"])
            .is_ok_and(|selector| selector.matches_object(pod))
    };
    budgets.filter(selects).collect()
}

/// A pod that is not ready counts for nothing: it may go where a budget says so, or where there are enough without it.
fn spares_unready(budget: &Value) -> bool {
    let status = &budget["status"];
    let (healthy, needed) = (number(&status["currentHealthy"]), number(&status["desiredHealthy"]));
    budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" || (healthy >= needed && needed > 0)
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

/// Takes one disruption from a budget for this pod, or says why it cannot be had.
fn count_down(budget: &mut Value, pod: &str, now: &str) -> Result<()> {
    let name = text(budget, &["metadata", "name"]).to_owned();
    let status = &budget["status"];
    if number(&status["observedGeneration"]) < number(&budget["metadata"]["generation"]) {
        let cause = format!("The disruption budget {name} is still being processed by the server.");
        return Err(too_many(&cause, Some(10)));
    }
    let allowed = number(&status["disruptionsAllowed"]);
    let kind = GroupResource::new("policy", "poddisruptionbudget");
    let forbidden = |why| Error::forbidden(&kind, &name, why);
    if allowed < 0 {
        return Err(forbidden("pdb disruptions allowed is negative"));
    }
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > MOST_DISRUPTED) {
        return Err(forbidden(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ));
    }
    if allowed == 0 {
        return Err(too_many(&why_not(&name, status), None));
    }
    let status = &mut budget["status"];
    status["disruptionsAllowed"] = (allowed - 1).into();
    if allowed == 1 {
        condemn(status, now);
    }
    status["disruptedPods"][pod] = now.into();
    Ok(())
}

fn why_not(name: &str, status: &Value) -> String {
    let (needed, healthy) = (number(&status["desiredHealthy"]), number(&status["currentHealthy"]));
    let condition = status["conditions"].as_array().into_iter().flatten().find(|condition| {
        condition["type"] == "DisruptionAllowed"
            && condition["status"] == "False"
            && !text(condition, &["message"]).is_empty()
    });
    let said = condition.map(|condition| (text(condition, &["reason"]), text(condition, &["message"])));
    match said {
        Some(("SyncFailed", message)) => format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
        ),
        _ if healthy <= needed => {
            format!("The disruption budget {name} needs {needed} healthy pods and has {healthy} currently")
        }
        Some((reason, message)) => format!(
            "The disruption budget {name} does not allow evicting pods currently ({reason}): {message}"
        ),
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}

fn too_many(cause: &str, retry_after: Option<u64>) -> Error {
    let mut error = Error::new(429, "TooManyRequests", REFUSED);
    let mut details = json!({"causes": [{"reason": "DisruptionBudget", "message": cause}]});
    if let Some(seconds) = retry_after {
        details["retryAfterSeconds"] = seconds.into();
    }
    error.details = Some(Box::new(details));
    error
}

/// Says that no more disruptions are allowed.
fn condemn(status: &mut Value, now: &str) {
    let generation = status["observedGeneration"].clone();
    set_condition(
        status,
        json!({
            "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
            "lastTransitionTime": now, "observedGeneration": generation,
        }),
    );
}

/// Tells on the pod why it goes, which other programs read.
async fn mark(call: &mut Call, name: &str, options: &mut Value) -> Result<()> {
    let wanted = options["preconditions"].clone();
    let now = call.server.context.now_seconds();
    let marked = update::modify(call, name, Part::Status, false, |pod| {
        for part in ["uid", "resourceVersion"] {
            let (asked, there) = (text(&wanted, &[part]), text(pod, &["metadata", part]));
            if !asked.is_empty() && asked != there {
                return Err(Error::conflict(
                    &GroupResource::new("", "Pod"),
                    name,
                    &stale(part, asked, there),
                ));
            }
        }
        let mut pod = pod.clone();
        set_condition(
            &mut pod["status"],
            json!({
                "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting", "lastTransitionTime": now,
            }),
        );
        Ok((pod, Managed::Track))
    })
    .await?;
    if !wanted["resourceVersion"].is_null() {
        options["preconditions"]["resourceVersion"] = marked.revision.to_string().into();
    }
    Ok(())
}

fn stale(part: &str, asked: &str, there: &str) -> String {
    let (what, happened) = match part {
        "uid" => ("UID", "deleted and then recreated"),
        _ => ("ResourceVersion", "modified"),
    };
    format!(
        "the {what} in the precondition ({asked}) does not match the {what} in record ({there}). The object might have been {happened}"
    )
}

/// Puts a condition among the others; one that says the same already keeps its time.
fn set_condition(status: &mut Value, mut wanted: Value) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let conditions = status["conditions"].as_array_mut().expect("an array");
    match conditions.iter_mut().find(|condition| condition["type"] == wanted["type"]) {
        Some(there) => {
            if there["status"] == wanted["status"] {
                wanted["lastTransitionTime"] = there["lastTransitionTime"].take();
            }
            *there = wanted;
        }
        None => conditions.push(wanted),
    }
}
