//! Horizontal pod autoscalers. Version 1 knows only the use of processors; whatever else version 2 says is
//! kept in annotations, as JSON that older clients read, so the order of its fields is kept as well.

use serde_json::{Map, Value, json};

use super::omit_empty;
use crate::kinds::other::autoscaling::{cpu_utilization, default_metrics};
use crate::kinds::other::look::{has, int, list, text};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// How fields of a metric are called: in version 2 (the part they are in, and their name there), and in
/// version 1 for a source and for a status.
const VALUES: [(&str, &str, &str); 3] = [
    ("value", "targetValue", "currentValue"),
    ("averageValue", "targetAverageValue", "currentAverageValue"),
    ("averageUtilization", "targetAverageUtilization", "currentAverageUtilization"),
];

/// Whether a metric says what is wanted or what is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Source,
    Status,
}

impl Side {
    /// Where version 2 keeps the amounts.
    fn part(self) -> &'static str {
        match self {
            Side::Source => "target",
            Side::Status => "current",
        }
    }

    /// What version 1 calls an amount, which for objects differs.
    fn first_name(self, kind: &str, value: &str) -> &'static str {
        if kind == "object" && value == "averageValue" {
            return "averageValue";
        }
        let (_, source, status) = VALUES.iter().find(|(name, _, _)| *name == value).unwrap_or(&VALUES[0]);
        match self {
            Side::Source => source,
            Side::Status => status,
        }
    }
}

const KINDS: [&str; 5] = ["object", "pods", "resource", "containerResource", "external"];

fn is_cpu_utilization(metric: &Value) -> bool {
    let resource = &metric["resource"];
    text(metric, "type") == "Resource"
        && text(resource, "name") == "cpu"
        && has(&resource["target"], "averageUtilization")
}

// === to version 1 ===

pub(super) fn to_first(mut autoscaler: Value) -> Value {
    let (spec, status) = (autoscaler["spec"].take(), autoscaler["status"].take());
    let metrics = list(&spec, "metrics");
    let cpu = metrics.iter().find(|metric| is_cpu_utilization(metric));
    let mut kept: Map<String, Value> = Map::new();
    let others: Vec<String> = metrics
        .iter()
        .filter(|metric| !is_cpu_utilization(metric))
        .map(|metric| write_metric(metric, Side::Source))
        .collect();
    if !others.is_empty() {
        kept.insert(METRICS.to_owned(), written_list(&others));
    }
    let current: Vec<String> =
        list(&status, "currentMetrics").iter().map(|metric| write_metric(metric, Side::Status)).collect();
    if !current.is_empty() {
        kept.insert(CURRENT_METRICS.to_owned(), written_list(&current));
    }
    if has(&spec, "behavior") {
        kept.insert(BEHAVIOR.to_owned(), write_behavior(&spec["behavior"]).into());
    }
    let conditions: Vec<String> = list(&status, "conditions").iter().map(write_condition).collect();
    if !conditions.is_empty() {
        kept.insert(CONDITIONS.to_owned(), written_list(&conditions));
    }

    let mut first = json!({"scaleTargetRef": spec["scaleTargetRef"], "maxReplicas": int(&spec, "maxReplicas").unwrap_or_default()});
    if has(&spec, "minReplicas") {
        first["minReplicas"] = spec["minReplicas"].clone();
    }
    if let Some(cpu) = cpu {
        first["targetCPUUtilizationPercentage"] = cpu["resource"]["target"]["averageUtilization"].clone();
    }
    let number = |key: &str| int(&status, key).unwrap_or_default();
    let mut first_status =
        json!({"currentReplicas": number("currentReplicas"), "desiredReplicas": number("desiredReplicas")});
    copy(&status, &mut first_status, &["observedGeneration", "lastScaleTime"]);
    let used = list(&status, "currentMetrics").iter().rev().find_map(|metric| {
        let resource = &metric["resource"];
        let cpu = text(metric, "type") == "Resource" && text(resource, "name") == "cpu";
        Some(&resource["current"]["averageUtilization"]).filter(|used| cpu && !used.is_null())
    });
    if let Some(used) = used {
        first_status["currentCPUUtilizationPercentage"] = used.clone();
    }
    finish(autoscaler, "autoscaling/v1", first, first_status, kept)
}

fn write_metric(metric: &Value, side: Side) -> String {
    let mut writer = Writer::default();
    writer.field("type", &metric["type"]);
    for kind in KINDS {
        if has(metric, kind) {
            writer.raw(kind, &write_source(&metric[kind], kind, side));
        }
    }
    writer.end()
}

/// The fields of version 1, in the order it has them.
fn write_source(source: &Value, kind: &str, side: Side) -> String {
    let amounts = &source[side.part()];
    let mut writer = Writer::default();
    let amount = |writer: &mut Writer, value: &str, needed: bool| {
        let name = side.first_name(kind, value);
        if has(amounts, value) {
            writer.field(name, &amounts[value]);
        } else if needed {
            writer.field(name, &"0".into());
        }
    };
    let metric = &source["metric"];
    let selector = |writer: &mut Writer, name: &str| {
        if has(metric, "selector") {
            writer.raw(name, &crate::kinds::selectors::show(&metric["selector"]));
        }
    };
    match kind {
        "object" => {
            let described = &source["describedObject"];
            let mut target = Writer::default();
            target.field("kind", &text(described, "kind").into());
            target.field("name", &text(described, "name").into());
            if !text(described, "apiVersion").is_empty() {
                target.field("apiVersion", &described["apiVersion"]);
            }
            writer.raw("target", &target.end());
            writer.field("metricName", &text(metric, "name").into());
            amount(&mut writer, "value", true);
            selector(&mut writer, "selector");
            amount(&mut writer, "averageValue", false);
        }
        "pods" => {
            writer.field("metricName", &text(metric, "name").into());
            amount(&mut writer, "averageValue", true);
            selector(&mut writer, "selector");
        }
        "external" => {
            writer.field("metricName", &text(metric, "name").into());
            selector(&mut writer, "metricSelector");
            amount(&mut writer, "value", side == Side::Status);
            amount(&mut writer, "averageValue", false);
        }
        _ => {
            writer.field("name", &text(source, "name").into());
            amount(&mut writer, "averageUtilization", false);
            amount(&mut writer, "averageValue", side == Side::Status);
            if kind == "containerResource" {
                writer.field("container", &text(source, "container").into());
            }
        }
    }
    writer.end()
}

fn write_condition(condition: &Value) -> String {
    let mut writer = Writer::default();
    for key in ["type", "status", "lastTransitionTime"] {
        writer.field(key, &condition[key]);
    }
    for key in ["reason", "message"] {
        if !text(condition, key).is_empty() {
            writer.field(key, &condition[key]);
        }
    }
    writer.end()
}

/// Inside the server these fields have Go's names, and the annotation kept them.
fn write_behavior(behavior: &Value) -> String {
    let policy = |policy: &Value| {
        let mut writer = Writer::default();
        writer.field("Type", &policy["type"]);
        writer.field("Value", &policy["value"]);
        writer.field("PeriodSeconds", &policy["periodSeconds"]);
        writer.end()
    };
    let rules = |rules: &Value| {
        if rules.is_null() {
            return "null".to_owned();
        }
        let policies: Vec<String> = list(rules, "policies").iter().map(policy).collect();
        let mut writer = Writer::default();
        writer.field("StabilizationWindowSeconds", &rules["stabilizationWindowSeconds"]);
        writer.field("SelectPolicy", &rules["selectPolicy"]);
        let policies =
            if has(rules, "policies") { format!("[{}]", policies.join(",")) } else { "null".to_owned() };
        writer.raw("Policies", &policies);
        writer.field("Tolerance", &rules["tolerance"]);
        writer.end()
    };
    let mut writer = Writer::default();
    writer.raw("ScaleUp", &rules(&behavior["scaleUp"]));
    writer.raw("ScaleDown", &rules(&behavior["scaleDown"]));
    writer.end()
}

/// Writes an object field by field, in the order they come.
#[derive(Default)]
struct Writer(String);

impl Writer {
    fn field(&mut self, name: &str, value: &Value) {
        self.raw(name, &value.to_string());
    }

    fn raw(&mut self, name: &str, value: &str) {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        self.0.push_str(&format!("{name:?}:{value}"));
    }

    fn end(mut self) -> String {
        if self.0.is_empty() {
            self.0.push('{');
        }
        self.0.push('}');
        self.0
    }
}

fn written_list(items: &[String]) -> Value {
    format!("[{}]", items.join(",")).into()
}

// === to version 2 ===

pub(super) fn to_second(mut autoscaler: Value) -> Value {
    let (first, first_status) = (autoscaler["spec"].take(), autoscaler["status"].take());
    let kept = |key: &str| {
        let written = autoscaler["metadata"]["annotations"][key].as_str()?;
        serde_json::from_str::<Value>(written).ok()
    };
    let mut spec = json!({"scaleTargetRef": first["scaleTargetRef"], "maxReplicas": int(&first, "maxReplicas").unwrap_or_default()});
    if has(&first, "minReplicas") {
        spec["minReplicas"] = first["minReplicas"].clone();
    }
    let mut metrics: Vec<Value> = match kept(METRICS) {
        Some(Value::Array(metrics)) => metrics.iter().map(|one| read_metric(one, Side::Source)).collect(),
        _ => Vec::new(),
    };
    metrics.extend(int(&first, "targetCPUUtilizationPercentage").map(cpu_utilization));
    spec["metrics"] = if metrics.is_empty() { default_metrics() } else { metrics.into() };
    if let Some(behavior) = kept(BEHAVIOR).as_ref().and_then(read_behavior) {
        spec["behavior"] = behavior;
    }

    let mut status = json!({"desiredReplicas": int(&first_status, "desiredReplicas").unwrap_or_default()});
    copy(&first_status, &mut status, &["observedGeneration", "lastScaleTime", "currentReplicas"]);
    omit_empty(&mut status, "currentReplicas");
    status["currentMetrics"] =
        match (kept(CURRENT_METRICS), int(&first_status, "currentCPUUtilizationPercentage")) {
            (Some(Value::Array(metrics)), _) => {
                metrics.iter().map(|metric| read_metric(metric, Side::Status)).collect()
            }
            (_, Some(used)) => json!([{
                "type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": used}},
            }]),
            _ => Value::Null,
        };
    if let Some(Value::Array(conditions)) = kept(CONDITIONS)
        && !conditions.is_empty()
    {
        status["conditions"] = conditions.into();
    }
    finish(autoscaler, "autoscaling/v2", spec, status, Map::new())
}

fn read_metric(metric: &Value, side: Side) -> Value {
    let mut second = json!({"type": text(metric, "type")});
    for kind in KINDS.into_iter().filter(|kind| has(metric, kind)) {
        second[kind] = read_source(&metric[kind], kind, side);
    }
    second
}

fn read_source(source: &Value, kind: &str, side: Side) -> Value {
    let mut amounts = json!({});
    for (value, _, _) in VALUES {
        let name = side.first_name(kind, value);
        if has(source, name) {
            amounts[value] = source[name].clone();
        }
    }
    // Version 1 cannot leave this one out, and writes a zero that version 2 would refuse.
    if kind == "object" && side == Side::Source && has(&amounts, "averageValue") && amounts["value"] == "0" {
        omit_value(&mut amounts);
    }
    if side == Side::Source {
        let of = |value: &str| has(&amounts, value);
        amounts["type"] = match kind {
            "object" if !of("averageValue") => "Value",
            "external" if of("value") => "Value",
            "resource" | "containerResource" if of("averageUtilization") => "Utilization",
            _ => "AverageValue",
        }
        .into();
    }
    let mut second = json!({side.part(): amounts});
    match kind {
        "resource" | "containerResource" => copy(source, &mut second, &["name", "container"]),
        _ => {
            let mut metric = json!({"name": text(source, "metricName")});
            let selector = if kind == "external" { "metricSelector" } else { "selector" };
            if has(source, selector) {
                metric["selector"] = source[selector].clone();
            }
            second["metric"] = metric;
        }
    }
    if kind == "object" {
        second["describedObject"] = source["target"].clone();
    }
    second
}

fn omit_value(amounts: &mut Value) {
    if let Some(amounts) = amounts.as_object_mut() {
        amounts.remove("value");
    }
}

fn read_behavior(written: &Value) -> Option<Value> {
    let policy = |policy: &Value| json!({"type": policy["Type"], "value": policy["Value"], "periodSeconds": policy["PeriodSeconds"]});
    let rules = |rules: &Value| {
        let mut second = json!({});
        for (from, to) in [
            ("StabilizationWindowSeconds", "stabilizationWindowSeconds"),
            ("SelectPolicy", "selectPolicy"),
            ("Tolerance", "tolerance"),
        ] {
            if has(rules, from) {
                second[to] = rules[from].clone();
            }
        }
        if has(rules, "Policies") {
            second["policies"] = list(rules, "Policies").iter().map(policy).collect();
        }
        second
    };
    let mut behavior = json!({});
    for (from, to) in [("ScaleUp", "scaleUp"), ("ScaleDown", "scaleDown")] {
        if has(written, from) {
            behavior[to] = rules(&written[from]);
        }
    }
    behavior.as_object().is_some_and(|fields| !fields.is_empty()).then_some(behavior)
}

// === both ways ===

fn copy(from: &Value, to: &mut Value, keys: &[&str]) {
    for key in keys.iter().filter(|key| has(from, key)) {
        to[*key] = from[*key].clone();
    }
}

/// Puts an object together, with the annotations that belong to its version and no others.
fn finish(
    mut autoscaler: Value,
    version: &str,
    spec: Value,
    status: Value,
    kept: Map<String, Value>,
) -> Value {
    autoscaler["apiVersion"] = version.into();
    autoscaler["spec"] = spec;
    autoscaler["status"] = status;
    let meta = &mut autoscaler["metadata"];
    let mut annotations = match meta["annotations"].take() {
        Value::Object(annotations) => annotations,
        _ => Map::new(),
    };
    annotations.retain(|key, _| ![METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR].contains(&key.as_str()));
    annotations.extend(kept);
    meta["annotations"] = annotations.into();
    omit_empty(meta, "annotations");
    autoscaler
}
