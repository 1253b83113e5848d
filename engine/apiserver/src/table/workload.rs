//! What runs Pods: apps, batch, disruption budgets, and the templates of Pods.

use jiff::Timestamp;
use serde_json::Value;

use super::read::{Read, age, human, since, time};
use crate::selector::LabelSelector;

pub(super) fn core(kind: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let name = object.text("metadata.name");
    Some(match kind {
        "PodTemplate" => {
            let [containers, images] = containers(object.at("template"));
            vec![name.into(), containers, images, labels(object.at("template.metadata.labels")).into()]
        }
        "ReplicationController" => {
            let [containers, images] = containers(object.at("spec.template"));
            let selector = labels(object.at("spec.selector"));
            let mut cells = replicas(object, now);
            cells.extend([containers, images, selector.into()]);
            cells
        }
        _ => return None,
    })
}

pub(super) fn cells(kind: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let name = object.text("metadata.name");
    let [containers, images] = containers(object.at("spec.template"));
    Some(match kind {
        "Deployment" => vec![
            name.into(),
            ready_of_desired(object),
            object.int("status.updatedReplicas").into(),
            object.int("status.availableReplicas").into(),
            age(object, now).into(),
            containers,
            images,
            LabelSelector::from_label_selector(object.at("spec.selector"))
                .map_or_else(|_| "<invalid>".to_owned(), |selector| selector.to_string())
                .into(),
        ],
        "ReplicaSet" => {
            let mut cells = replicas(object, now);
            cells.extend([containers, images, selector(object.at("spec.selector")).into()]);
            cells
        }
        "StatefulSet" => {
            vec![name.into(), ready_of_desired(object), age(object, now).into(), containers, images]
        }
        "DaemonSet" => vec![
            name.into(),
            object.int("status.desiredNumberScheduled").into(),
            object.int("status.currentNumberScheduled").into(),
            object.int("status.numberReady").into(),
            object.int("status.updatedNumberScheduled").into(),
            object.int("status.numberAvailable").into(),
            labels(object.at("spec.template.spec.nodeSelector")).into(),
            age(object, now).into(),
            containers,
            images,
            selector(object.at("spec.selector")).into(),
        ],
        "ControllerRevision" => {
            vec![
                name.into(),
                controller(object).into(),
                object.int("revision").into(),
                age(object, now).into(),
            ]
        }
        "Job" => vec![
            name.into(),
            job_status(object).into(),
            completions(object).into(),
            job_duration(object, now).into(),
            age(object, now).into(),
            containers,
            images,
            selector(object.at("spec.selector")).into(),
        ],
        "CronJob" => cron_job(object, now),
        "PodDisruptionBudget" => vec![
            name.into(),
            int_or_string(object.at("spec.minAvailable")).into(),
            int_or_string(object.at("spec.maxUnavailable")).into(),
            object.int("status.disruptionsAllowed").into(),
            age(object, now).into(),
        ],
        _ => return None,
    })
}

fn replicas(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        object.text("metadata.name").into(),
        object.int("spec.replicas").into(),
        object.int("status.replicas").into(),
        object.int("status.readyReplicas").into(),
        age(object, now).into(),
    ]
}

fn ready_of_desired(object: &Value) -> Value {
    format!("{}/{}", object.int("status.readyReplicas"), object.int("spec.replicas")).into()
}

/// Names and images of a template's containers.
fn containers(template: &Value) -> [Value; 2] {
    ["name", "image"].map(|field| {
        let containers = template.list("spec.containers").iter();
        containers.map(|container| container.text(field)).collect::<Vec<_>>().join(",").into()
    })
}

/// Labels as a selector would name them.
pub(super) fn labels(labels: &Value) -> String {
    let pairs = labels.as_object().into_iter().flatten();
    let mut pairs: Vec<String> =
        pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    pairs.sort_unstable();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

/// The object form of a label selector.
pub(super) fn selector(selector: &Value) -> String {
    match LabelSelector::from_label_selector(selector).map(|selector| selector.to_string()) {
        Err(_) => "<error>".to_owned(),
        Ok(text) if text.is_empty() => "<none>".to_owned(),
        Ok(text) => text,
    }
}

fn controller(object: &Value) -> String {
    let owner = object.list("metadata.ownerReferences").iter().find(|owner| owner.flag("controller"));
    let Some(owner) = owner else { return "<none>".to_owned() };
    let kind = owner.text("kind").to_lowercase();
    match (owner.text("apiVersion").split_once('/'), kind.is_empty()) {
        (Some((group, _)), _) => format!("{kind}.{}/{}", group.to_lowercase(), owner.text("name")),
        (None, false) => format!("{kind}/{}", owner.text("name")),
        (None, true) => owner.text("name").to_owned(),
    }
}

fn job_status(job: &Value) -> &'static str {
    let is = |condition: &str| job.condition(condition) == Some("True");
    if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if job.has("metadata.deletionTimestamp") {
        "Terminating"
    } else if is("Suspended") {
        "Suspended"
    } else if is("FailureTarget") {
        "FailureTarget"
    } else if is("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

fn completions(job: &Value) -> String {
    let (succeeded, parallelism) = (job.int("status.succeeded"), job.int("spec.parallelism"));
    match job.at("spec.completions").as_i64() {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    }
}

fn job_duration(job: &Value, now: Timestamp) -> String {
    let Some(start) = time(job.at("status.startTime")) else { return String::new() };
    let end = time(job.at("status.completionTime")).unwrap_or(now);
    human(end.duration_since(start))
}

fn cron_job(object: &Value, now: Timestamp) -> Vec<Value> {
    let [containers, images] = containers(object.at("spec.jobTemplate.spec.template"));
    let last = object.at("status.lastScheduleTime");
    vec![
        object.text("metadata.name").into(),
        object.text("spec.schedule").into(),
        object.at("spec.timeZone").as_str().unwrap_or("<none>").into(),
        match object.at("spec.suspend").as_bool() {
            Some(true) => "True",
            Some(false) => "False",
            None => "<unset>",
        }
        .into(),
        object.list("status.active").len().into(),
        if last.is_null() { "<none>".to_owned() } else { since(last, now) }.into(),
        age(object, now).into(),
        containers,
        images,
        selector(object.at("spec.jobTemplate.spec.selector")).into(),
    ]
}

fn int_or_string(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        _ => "N/A".to_owned(),
    }
}
