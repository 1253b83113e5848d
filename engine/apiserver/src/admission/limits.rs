//! LimitRanger: how much single containers, pods and claims may ask for, and what they get unasked.

use serde_json::Value;

use super::usage::{self, Amounts};
use super::{Attributes, Lookup, Operation};
use crate::kinds::walk::{get, items_mut, list, map_mut, object_mut, text};
use crate::quantity::Quantity;
use crate::status::Result;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

fn applies(request: &Attributes<'_>, old: Option<&Value>) -> bool {
    let leaving = old.is_some_and(|old| !get(old, &["metadata", "deletionTimestamp"]).is_null());
    let resizes =
        request.is("", "pods") && request.subresource == "resize" && request.operation == Operation::Update;
    !leaving && (resizes || request.creates("", "pods") || request.writes("", "persistentvolumeclaims"))
}

fn ranges(request: &Attributes<'_>, lookup: &dyn Lookup) -> Vec<Value> {
    lookup.list("", "limitranges", request.namespace)
}

fn limits_of<'a>(range: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    list(get(range, &["spec", "limits"])).iter().filter(move |limit| text(limit, "type") == kind)
}

// === defaults ===

pub(super) fn default(request: &Attributes<'_>, pod: &mut Value, old: Option<&Value>, lookup: &dyn Lookup) {
    if !request.is("", "pods") || !applies(request, old) {
        return;
    }
    for range in ranges(request, lookup) {
        let mut notes = Vec::new();
        for (key, what) in [("containers", "container"), ("initContainers", "init container")] {
            for container in items_mut(object_mut(pod, "spec"), key) {
                notes.extend(fill(container, &range, what));
            }
        }
        if !notes.is_empty() {
            let annotations = object_mut(object_mut(pod, "metadata"), "annotations");
            let note = format!("LimitRanger plugin set: {}", notes.join("; "));
            map_mut(annotations).insert(ANNOTATION.to_owned(), note.into());
        }
    }
}

/// Sets what a container does not ask for itself, and says what was set.
fn fill(container: &mut Value, range: &Value, what: &str) -> Vec<String> {
    let name = text(container, "name").to_owned();
    let mut notes = Vec::new();
    for (from, to, said) in [("defaultRequest", "requests", "request"), ("default", "limits", "limit")] {
        let mut set = Vec::new();
        for limit in limits_of(range, "Container") {
            for (resource, amount) in limit[from].as_object().into_iter().flatten() {
                if !get(container, &["resources", to, resource]).is_null() && !set.contains(resource) {
                    continue;
                }
                let amounts = object_mut(object_mut(container, "resources"), to);
                map_mut(amounts).insert(resource.clone(), amount.clone());
                if !set.contains(resource) {
                    set.push(resource.clone());
                }
            }
        }
        if !set.is_empty() {
            set.sort_unstable();
            notes.push(format!("{} {said} for {what} {name}", set.join(", ")));
        }
    }
    notes
}

// === limits ===

pub(super) fn check(
    request: &Attributes<'_>,
    object: &Value,
    old: Option<&Value>,
    lookup: &dyn Lookup,
) -> Result<()> {
    if !applies(request, old) {
        return Ok(());
    }
    for range in ranges(request, lookup) {
        let wrong =
            if request.is("", "pods") { pod_faults(object, &range) } else { claim_faults(object, &range) };
        match wrong.as_slice() {
            [] => {}
            [one] => return Err(request.forbidden(object, one)),
            many => return Err(request.forbidden(object, &format!("[{}]", many.join(", ")))),
        }
    }
    Ok(())
}

fn claim_faults(claim: &Value, range: &Value) -> Vec<String> {
    let requests = usage::amounts(get(claim, &["spec", "resources", "requests"]));
    let kind = "PersistentVolumeClaim";
    let mut wrong = Vec::new();
    for limit in limits_of(range, kind) {
        for (resource, least) in bounds(&limit["min"]) {
            wrong.extend(below(kind, &resource, &least, &requests, &Amounts::new()));
        }
        for (resource, most) in bounds(&limit["max"]) {
            let said = format!("maximum {resource} usage per {kind} is {most}");
            match requests.get(&resource) {
                None => wrong.push(format!("{said}.  No request is specified")),
                Some(request) if *request > most => wrong.push(format!("{said}, but request is {request}")),
                Some(_) => {}
            }
        }
    }
    wrong
}

fn pod_faults(pod: &Value, range: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for limit in list(get(range, &["spec", "limits"])) {
        match text(limit, "type") {
            "Container" => {
                for container in
                    ["containers", "initContainers"].iter().flat_map(|key| list(get(pod, &["spec", key])))
                {
                    let of = |which: &str| usage::amounts(get(container, &["resources", which]));
                    wrong.extend(faults("Container", limit, &of("requests"), &of("limits")));
                }
            }
            "Pod" => {
                let (requests, limits) = (usage::of_pod(pod, "requests"), usage::of_pod(pod, "limits"));
                wrong.extend(faults("Pod", limit, &requests, &limits));
            }
            _ => {}
        }
    }
    wrong
}

fn bounds(value: &Value) -> Amounts {
    usage::amounts(value)
}

fn faults(kind: &str, limit: &Value, requests: &Amounts, limits: &Amounts) -> Vec<String> {
    let mut wrong = Vec::new();
    for (resource, least) in bounds(&limit["min"]) {
        wrong.extend(below(kind, &resource, &least, requests, limits));
    }
    for (resource, most) in bounds(&limit["max"]) {
        wrong.extend(above(kind, &resource, &most, requests, limits));
    }
    for (resource, ratio) in bounds(&limit["maxLimitRequestRatio"]) {
        wrong.extend(too_wide(kind, &resource, &ratio, requests, limits));
    }
    wrong
}

fn below(
    kind: &str,
    resource: &str,
    least: &Quantity,
    requests: &Amounts,
    limits: &Amounts,
) -> Option<String> {
    let said = format!("minimum {resource} usage per {kind} is {least}");
    match (requests.get(resource), limits.get(resource)) {
        (None, _) => Some(format!("{said}.  No request is specified")),
        (Some(request), _) if request < least => Some(format!("{said}, but request is {request}")),
        (_, Some(limit)) if limit < least => Some(format!("{said}, but limit is {limit}")),
        _ => None,
    }
}

fn above(
    kind: &str,
    resource: &str,
    most: &Quantity,
    requests: &Amounts,
    limits: &Amounts,
) -> Option<String> {
    let said = format!("maximum {resource} usage per {kind} is {most}");
    match (requests.get(resource), limits.get(resource)) {
        (_, None) => Some(format!("{said}.  No limit is specified")),
        (_, Some(limit)) if limit > most => Some(format!("{said}, but limit is {limit}")),
        (Some(request), _) if request > most => Some(format!("{said}, but request is {request}")),
        _ => None,
    }
}

fn too_wide(
    kind: &str,
    resource: &str,
    most: &Quantity,
    requests: &Amounts,
    limits: &Amounts,
) -> Option<String> {
    let said = format!("{resource} max limit to request ratio per {kind} is {most}");
    let given = |amounts: &Amounts| {
        amounts.get(resource).map(|amount| amount.milli_value()).filter(|milli| *milli != 0)
    };
    let Some(request) = given(requests) else {
        return Some(format!("{said}, but no request is specified or request is 0"));
    };
    let Some(limit) = given(limits) else {
        return Some(format!("{said}, but no limit is specified or limit is 0"));
    };
    let ratio = limit as f64 / request as f64;
    (ratio * 1000.0 > most.milli_value() as f64).then(|| format!("{said}, but provided ratio is {ratio:.6}"))
}
