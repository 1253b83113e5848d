//! Autoscalers, whose targets take some words, and the scale of everything else.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::read::{Read, age};

/// Metrics and statuses that v1 has no field for travel in these annotations.
const V1_METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const V1_CURRENT: &str = "autoscaling.alpha.kubernetes.io/current-metrics";

/// More targets than these are only counted.
const SHOWN: usize = 2;

pub(super) fn cells(version: &str, kind: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let name = object.text("metadata.name");
    Some(match kind {
        "Scale" => vec![
            name.into(),
            object.int("spec.replicas").into(),
            object.int("status.replicas").into(),
            age(object, now).into(),
        ],
        "HorizontalPodAutoscaler" => {
            let targets = match version {
                // Stored objects tell more, and in the right order: they may be given for v1 as well.
                "v1" if object.has("spec") && !object.has("spec.metrics") => {
                    targets(&v1_metrics(object), &v1_current(object))
                }
                _ => targets(object.list("spec.metrics"), object.list("status.currentMetrics")),
            };
            let target = object.at("spec.scaleTargetRef");
            let least = object.at("spec.minReplicas").as_i64();
            vec![
                name.into(),
                format!("{}/{}", target.text("kind"), target.text("name")).into(),
                targets.into(),
                least.map_or_else(|| "<unset>".to_owned(), |least| least.to_string()).into(),
                object.int("spec.maxReplicas").into(),
                object.int("status.currentReplicas").into(),
                age(object, now).into(),
            ]
        }
        _ => return None,
    })
}

fn targets(metrics: &[Value], current: &[Value]) -> String {
    if metrics.is_empty() {
        return "<none>".to_owned();
    }
    let shown: Vec<String> = metrics
        .iter()
        .take(SHOWN)
        .enumerate()
        .map(|(index, metric)| target(metric, current.get(index).unwrap_or(&Value::Null)))
        .collect();
    let shown = shown.join(", ");
    match metrics.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

fn target(metric: &Value, status: &Value) -> String {
    let source = match metric.text("type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let (metric, status) = (metric.at(source), status.at(source));
    let current = |field: &str| pointed(status.at("current").at(field));
    let known = !status.is_null();
    let average = metric.at("target.averageValue");
    match source {
        "external" | "object" if !average.is_null() => {
            let known = status.has("current.averageValue");
            let current = if known { current("averageValue") } else { unknown() };
            format!("{current}/{} (avg)", pointed(average))
        }
        "external" | "object" => {
            let current = if known { current("value") } else { unknown() };
            format!("{current}/{}", pointed(metric.at("target.value")))
        }
        "pods" => {
            let current = if known { current("averageValue") } else { unknown() };
            format!("{current}/{}", pointed(average))
        }
        _ if !average.is_null() => {
            let current = if known { current("averageValue") } else { unknown() };
            format!("{}: {current}/{}", metric.text("name"), pointed(average))
        }
        _ => {
            let percent = |value: &Value| value.as_i64().map(|percent| format!("{percent}%"));
            let current = percent(status.at("current.averageUtilization")).unwrap_or_else(unknown);
            let target = percent(metric.at("target.averageUtilization"));
            let target = target.unwrap_or_else(|| "<auto>".to_owned());
            format!("{}: {current}/{target}", metric.text("name"))
        }
    }
}

fn unknown() -> String {
    "<unknown>".to_owned()
}

/// A quantity behind a pointer, which may lead nowhere.
fn pointed(quantity: &Value) -> String {
    match quantity {
        Value::Null => "<nil>".to_owned(),
        other => super::read::quantity(other),
    }
}

/// What v1 says, as v2 would say it.
fn v1_metrics(object: &Value) -> Vec<Value> {
    let mut metrics: Vec<Value> = annotated(object, V1_METRICS)
        .unwrap_or_default()
        .iter()
        .map(|metric| upgrade(metric, "target"))
        .collect();
    let cpu = match object.at("spec.targetCPUUtilizationPercentage").as_i64() {
        None if !metrics.is_empty() => return metrics,
        percent => percent.unwrap_or(80),
    };
    metrics.push(
        json!({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": cpu}}}),
    );
    metrics
}

fn v1_current(object: &Value) -> Vec<Value> {
    if let Some(current) = annotated(object, V1_CURRENT) {
        return current.iter().map(|metric| upgrade(metric, "current")).collect();
    }
    let percent = object.at("status.currentCPUUtilizationPercentage");
    if percent.is_null() {
        return Vec::new();
    }
    vec![json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}})]
}

fn annotated(object: &Value, key: &str) -> Option<Vec<Value>> {
    serde_json::from_str(object.annotation(key)?).ok()
}

/// A metric of v1 with `targetValue` and the like, in the shape of v2: `target: {value}`.
fn upgrade(metric: &Value, side: &str) -> Value {
    let mut upgraded = json!({"type": metric.text("type")});
    let sources = metric.as_object().into_iter().flatten().filter(|(_, source)| source.is_object());
    for (name, source) in sources {
        let mut values = serde_json::Map::new();
        for (old, new) in [
            ("Value", "value"),
            ("AverageValue", "averageValue"),
            ("AverageUtilization", "averageUtilization"),
        ] {
            if let Some(value) = source.get(format!("{side}{old}")).filter(|value| !value.is_null()) {
                values.insert(new.to_owned(), value.clone());
            }
        }
        // Objects alone have the average without a prefix.
        if source.has("averageValue") {
            values.insert("averageValue".to_owned(), source.at("averageValue").clone());
        }
        upgraded[name] = json!({"name": source.at("name"), side: values});
    }
    upgraded
}
