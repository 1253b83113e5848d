//! Nodes, namespaces, events, and what else keeps a cluster in order.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::name_and_age;
use super::read::{Read, age, quantity, since, time};

pub(super) fn core(kind: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let name = object.text("metadata.name");
    let age = || age(object, now);
    Some(match kind {
        "Namespace" => vec![name.into(), object.text("status.phase").into(), age().into()],
        "ServiceAccount" => name_and_age(object, now),
        "Secret" => {
            vec![name.into(), object.text("type").into(), object.entries("data").into(), age().into()]
        }
        "ConfigMap" => {
            let entries = object.entries("data") + object.entries("binaryData");
            vec![name.into(), entries.into(), age().into()]
        }
        "Node" => node(object, now),
        "Event" => event(object, &CORE_EVENT, now),
        "ResourceQuota" => {
            let [requests, limits] = quota(object);
            vec![name.into(), requests.into(), limits.into(), age().into()]
        }
        "ComponentStatus" => component_status(object),
        _ => return None,
    })
}

pub(super) fn cells(group: &str, kind: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let name = object.text("metadata.name");
    let age = || age(object, now);
    Some(match (group, kind) {
        ("events.k8s.io", "Event") => event(object, &NEW_EVENT, now),
        ("coordination.k8s.io", "Lease") => {
            vec![name.into(), object.text("spec.holderIdentity").into(), age().into()]
        }
        ("scheduling.k8s.io", "PriorityClass") => vec![
            name.into(),
            object.int("value").into(),
            object.flag("globalDefault").into(),
            age().into(),
            object.text("preemptionPolicy").into(),
        ],
        ("node.k8s.io", "RuntimeClass") => vec![name.into(), object.text("handler").into(), age().into()],
        ("resource.k8s.io", "DeviceClass" | "ResourceClaimTemplate") => name_and_age(object, now),
        ("resource.k8s.io", "ResourceClaim") => vec![name.into(), claim_state(object).into(), age().into()],
        ("resource.k8s.io", "ResourceSlice") => vec![
            name.into(),
            object.text("spec.nodeName").into(),
            object.text("spec.driver").into(),
            object.text("spec.pool.name").into(),
            age().into(),
        ],
        ("apiregistration.k8s.io", "APIService") => {
            vec![name.into(), api_service(object).into(), available(object).into(), age().into()]
        }
        _ => return None,
    })
}

fn node(object: &Value, now: Timestamp) -> Vec<Value> {
    let ready = object.list("status.conditions").iter().rfind(|condition| condition.text("type") == "Ready");
    let status = match ready.map(|ready| ready.text("status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let cordoned = if object.flag("spec.unschedulable") { ",SchedulingDisabled" } else { "" };
    let info = object.at("status.nodeInfo");
    let architecture = match info.text("architecture") {
        "" => String::new(),
        architecture => format!(" ({architecture})"),
    };
    let address = |kind: &str| {
        let found = object.list("status.addresses").iter().find(|address| address.text("type") == kind);
        Value::from(found.map_or("<none>", |address| address.text("address")))
    };
    vec![
        object.text("metadata.name").into(),
        format!("{status}{cordoned}").into(),
        roles(object).into(),
        age(object, now).into(),
        info.text("kubeletVersion").into(),
        address("InternalIP"),
        address("ExternalIP"),
        info.text_or("osImage", "<unknown>").into(),
        format!("{}{architecture}", info.text_or("kernelVersion", "<unknown>")).into(),
        info.text_or("containerRuntimeVersion", "<unknown>").into(),
    ]
}

fn roles(node: &Value) -> String {
    let labels = node.at("metadata.labels").as_object().into_iter().flatten();
    let roles: BTreeSet<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    match roles.is_empty() {
        true => "<none>".to_owned(),
        false => roles.into_iter().collect::<Vec<_>>().join(","),
    }
}

/// What the two event APIs call the same things.
struct EventFields {
    first: &'static str,
    last: &'static str,
    count: &'static str,
    object: &'static str,
    source: &'static str,
    controller: &'static str,
    message: &'static str,
}

const CORE_EVENT: EventFields = EventFields {
    first: "firstTimestamp",
    last: "lastTimestamp",
    count: "count",
    object: "involvedObject",
    source: "source",
    controller: "reportingComponent",
    message: "message",
};

const NEW_EVENT: EventFields = EventFields {
    first: "deprecatedFirstTimestamp",
    last: "deprecatedLastTimestamp",
    count: "deprecatedCount",
    object: "regarding",
    source: "deprecatedSource",
    controller: "reportingController",
    message: "note",
};

fn event(event: &Value, fields: &EventFields, now: Timestamp) -> Vec<Value> {
    let first = event.at(fields.first);
    let first = since(if time(first).is_some() { first } else { event.at("eventTime") }, now);
    let series = event.at("series");
    let last = match (series.is_null(), event.at(fields.last)) {
        (false, _) => since(series.at("lastObservedTime"), now),
        (true, last) if time(last).is_some() => since(last, now),
        (true, _) => first.clone(),
    };
    let count = match (series.is_null(), event.int(fields.count)) {
        (false, _) => series.int("count"),
        // An event of the newer API that happened once has no count.
        (true, 0) => 1,
        (true, count) => count,
    };
    let object = event.at(fields.object);
    let kind = object.text("kind").to_lowercase();
    let target = match object.text("name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let source = event.at(fields.source);
    let component = source.text_or("component", event.text(fields.controller));
    let source = match source.text_or("host", event.text("reportingInstance")) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    };
    vec![
        last.into(),
        event.text("type").into(),
        event.text("reason").into(),
        target.into(),
        object.text("fieldPath").into(),
        source.into(),
        event.text(fields.message).trim().into(),
        first.into(),
        count.into(),
        event.text("metadata.name").into(),
    ]
}

/// Used and hard limits of requests and of limits.
fn quota(object: &Value) -> [String; 2] {
    let (hard, used) = (object.at("status.hard"), object.at("status.used"));
    let mut columns = [Vec::new(), Vec::new()];
    for (resource, limit) in hard.as_object().into_iter().flatten() {
        let used = quantity(used.get(resource).unwrap_or(&Value::Null));
        let column = usize::from(resource.starts_with("limits."));
        columns[column].push(format!("{resource}: {used}/{}", quantity(limit)));
    }
    columns.map(|column| column.join(", "))
}

fn component_status(object: &Value) -> Vec<Value> {
    let healthy = object.list("conditions").iter().find(|condition| condition.text("type") == "Healthy");
    let [status, message, error] = match healthy {
        None => ["Unknown", "", ""],
        Some(condition) => {
            let status = if condition.text("status") == "True" { "Healthy" } else { "Unhealthy" };
            [status, condition.text("message"), condition.text("error")]
        }
    };
    vec![object.text("metadata.name").into(), status.into(), message.into(), error.into()]
}

fn claim_state(claim: &Value) -> String {
    let deleted = claim.has("metadata.deletionTimestamp");
    let allocated = claim.has("status.allocation");
    let reserved = allocated && !claim.list("status.reservedFor").is_empty();
    let states = [
        (deleted, "deleted"),
        (!allocated && !deleted, "pending"),
        (allocated, "allocated"),
        (reserved, "reserved"),
    ];
    states.iter().filter(|(is, _)| *is).map(|(_, state)| *state).collect::<Vec<_>>().join(",")
}

fn api_service(object: &Value) -> String {
    let service = object.at("spec.service");
    match service.is_null() {
        true => "Local".to_owned(),
        false => format!("{}/{}", service.text("namespace"), service.text("name")),
    }
}

fn available(object: &Value) -> String {
    let found =
        object.list("status.conditions").iter().find(|condition| condition.text("type") == "Available");
    let Some(condition) = found else { return "Unknown".to_owned() };
    match (condition.text("status"), condition.text("reason")) {
        ("True", _) => "True".to_owned(),
        (status, "") => status.to_owned(),
        (status, reason) => format!("{status} ({reason})"),
    }
}
