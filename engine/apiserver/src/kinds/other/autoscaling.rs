//! `autoscaling`: horizontal pod autoscalers, whose rules speak of version 2.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::look::{
    Faults, default, default_empty, each_wrong, fields, has, int, list, not_negative, text, within,
};
use super::{quantity_is_negative, quantity_is_positive};
use crate::field::{Error, Path};
use crate::kinds::{Strategy, convert, pods};
use crate::names;

const LONGEST_PERIOD: i64 = 1800;
const LONGEST_WINDOW: i64 = 3600;
const DEFAULT_UTILIZATION: i64 = 80;

static AUTOSCALER: Strategy = Strategy {
    default: default_autoscaler,
    validate: |autoscaler| validate(&second(autoscaler), None),
    validate_update: |new, old| validate(&second(new), Some(&second(old))),
    validate_status: |new, _| {
        let (new, path) = (second(new), Path::new("status"));
        ["currentReplicas", "desiredReplicas"]
            .into_iter()
            .flat_map(|key| not_negative(&new["status"], key, &path))
            .collect()
    },
    status: true,
    ..Strategy::PLAIN
};

pub(super) fn strategy(kind: &str) -> Option<&'static Strategy> {
    (kind == "HorizontalPodAutoscaler").then_some(&AUTOSCALER)
}

/// The object in version 2, whichever it came in.
fn second(autoscaler: &Value) -> Cow<'_, Value> {
    if text(autoscaler, "apiVersion") == "autoscaling/v1" {
        let kind = "HorizontalPodAutoscaler";
        Cow::Owned(convert::convert("autoscaling", "v1", kind, autoscaler.clone(), "autoscaling", "v2"))
    } else {
        Cow::Borrowed(autoscaler)
    }
}

/// What is scaled for when nobody says: the processors' use.
pub(crate) fn cpu_utilization(percent: i64) -> Value {
    json!({
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}},
    })
}

/// The metrics of an autoscaler that has none.
pub(crate) fn default_metrics() -> Value {
    json!([cpu_utilization(DEFAULT_UTILIZATION)])
}

fn default_autoscaler(autoscaler: &mut Value) {
    let first = text(autoscaler, "apiVersion") == "autoscaling/v1";
    let Some(spec) = fields(autoscaler).map(|fields| fields.entry("spec").or_insert_with(|| json!({})))
    else {
        return;
    };
    default(spec, "minReplicas", 1);
    if first {
        // Version 1 keeps the rest in annotations; the conversion fills it in.
        return;
    }
    default_empty(spec, "metrics", default_metrics());
    if let Some(behavior) = within(spec, "behavior") {
        let policy = |kind: &str, value: i64| json!({"type": kind, "value": value, "periodSeconds": 15});
        default(behavior, "scaleUp", json!({}));
        default(behavior, "scaleDown", json!({}));
        let up = &mut behavior["scaleUp"];
        default(up, "stabilizationWindowSeconds", 0);
        default(up, "selectPolicy", "Max");
        default(up, "policies", json!([policy("Pods", 4), policy("Percent", 100)]));
        let down = &mut behavior["scaleDown"];
        default(down, "selectPolicy", "Max");
        default(down, "policies", json!([policy("Percent", 100)]));
    }
}

/// How strictly the version of a reference is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reference {
    Unchecked,
    AnyGroup,
    NamedGroup,
}

fn validate(autoscaler: &Value, old: Option<&Value>) -> Faults {
    let spec = &autoscaler["spec"];
    let path = Path::new("spec");
    let old_spec = old.map(|old| &old["spec"]);
    let was_zero = old_spec.is_some_and(|spec| int(spec, "minReplicas") == Some(0));
    let least = if was_zero { 0 } else { 1 };
    let (fewest, most) = (int(spec, "minReplicas"), int(spec, "maxReplicas").unwrap_or_default());
    let mut faults = Vec::new();
    if let Some(fewest) = fewest.filter(|fewest| *fewest < least) {
        let why = format!("must be greater than or equal to {least}");
        faults.push(Error::invalid(&path.child("minReplicas"), fewest, why));
    }
    let at = path.child("maxReplicas");
    if most == 0 {
        faults.push(Error::required(&at, "must be set and greater than 0"));
    } else if most < 0 {
        faults.push(Error::invalid(&at, most, "must be greater than or equal to 1"));
    }
    if fewest.is_some_and(|fewest| most < fewest) {
        faults.push(Error::invalid(&at, most, "must be greater than or equal to `minReplicas`"));
    }
    faults.extend(validate_reference(
        &spec["scaleTargetRef"],
        &path.child("scaleTargetRef"),
        target_strictness(spec, old_spec),
    ));
    let metric_strictness = metric_strictness(old_spec);
    let metrics = path.child("metrics");
    for (index, metric) in list(spec, "metrics").iter().enumerate() {
        faults.extend(validate_metric(metric, &metrics.index(index), metric_strictness));
    }
    let wakes = |metric: &Value| matches!(text(metric, "type"), "Object" | "External");
    if fewest == Some(0) && !list(spec, "metrics").iter().any(wakes) {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        faults.push(Error::forbidden(&metrics, why));
    }
    for direction in ["scaleUp", "scaleDown"] {
        if has(&spec["behavior"], direction) {
            let at = path.child("behavior").child(direction);
            faults.extend(validate_rules(&spec["behavior"][direction], &at));
        }
    }
    faults
}

fn target_strictness(spec: &Value, old: Option<&Value>) -> Reference {
    let target = &spec["scaleTargetRef"];
    let unchanged = |old: &Value| {
        let before = &old["scaleTargetRef"];
        ["apiVersion", "kind"].iter().all(|key| text(before, key) == text(target, key))
    };
    if old.is_some_and(unchanged) {
        Reference::Unchecked
    } else if text(target, "kind") == "ReplicationController" {
        Reference::AnyGroup
    } else {
        Reference::NamedGroup
    }
}

fn metric_strictness(old: Option<&Value>) -> Reference {
    let bad = |metric: &Value| {
        text(metric, "type") == "Object"
            && has(metric, "object")
            && version_fault(text(&metric["object"]["describedObject"], "apiVersion"), Reference::AnyGroup)
                .is_some()
    };
    match old {
        Some(old) if list(old, "metrics").iter().any(bad) => Reference::Unchecked,
        _ => Reference::AnyGroup,
    }
}

fn version_fault(version: &str, strictness: Reference) -> Option<String> {
    match (strictness, version.matches('/').count()) {
        (Reference::Unchecked, _) => None,
        (_, slashes) if slashes > 1 => Some(format!("unexpected GroupVersion string: {version}")),
        (Reference::NamedGroup, 0) => Some("apiVersion must specify API group".to_owned()),
        (Reference::NamedGroup, _) if version.starts_with('/') => {
            Some("apiVersion must specify API group".to_owned())
        }
        _ => None,
    }
}

fn validate_reference(reference: &Value, path: &Path, strictness: Reference) -> Faults {
    let mut faults = Vec::new();
    for key in ["kind", "name"] {
        match text(reference, key) {
            "" => faults.push(Error::required(&path.child(key), "")),
            given => faults.extend(each_wrong(&path.child(key), given, names::path_segment(given))),
        }
    }
    let version = text(reference, "apiVersion");
    if let Some(why) = version_fault(version, strictness) {
        faults.push(Error::invalid(&path.child("apiVersion"), version, why));
    }
    faults
}

fn validate_rules(rules: &Value, path: &Path) -> Faults {
    let mut faults = Vec::new();
    let window = path.child("stabilizationWindowSeconds");
    if let Some(seconds) = int(rules, "stabilizationWindowSeconds") {
        if seconds < 0 {
            faults.push(Error::invalid(&window, seconds, "must be greater than or equal to zero"));
        }
        if seconds > LONGEST_WINDOW {
            let why = format!("must be less than or equal to {LONGEST_WINDOW}");
            faults.push(Error::invalid(&window, seconds, why));
        }
    }
    if has(rules, "selectPolicy") {
        let known = ["Disabled", "Max", "Min"];
        faults.extend(super::look::one_of(text(rules, "selectPolicy"), &path.child("selectPolicy"), &known));
    }
    let policies = list(rules, "policies");
    if policies.is_empty() {
        faults.push(Error::required(&path.child("policies"), "must specify at least one Policy"));
    }
    for (index, policy) in policies.iter().enumerate() {
        faults.extend(validate_policy(policy, &path.child("policies").index(index)));
    }
    if quantity_is_negative(&rules["tolerance"]) {
        let why = "must be greater than or equal to 0";
        faults.push(Error::invalid(&path.child("tolerance"), rules["tolerance"].clone(), why));
    }
    faults
}

fn validate_policy(policy: &Value, path: &Path) -> Faults {
    let mut faults = super::look::one_of(text(policy, "type"), &path.child("type"), &["Percent", "Pods"]);
    let number = |key: &str| int(policy, key).unwrap_or_default();
    for key in ["value", "periodSeconds"] {
        if number(key) <= 0 {
            faults.push(Error::invalid(&path.child(key), number(key), "must be greater than zero"));
        }
    }
    let period = number("periodSeconds");
    if period > LONGEST_PERIOD {
        let why = format!("must be less than or equal to {LONGEST_PERIOD}");
        faults.push(Error::invalid(&path.child("periodSeconds"), period, why));
    }
    faults
}

/// The sources of a metric, in the order they are looked at: what its type calls them, and their field.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];

fn validate_metric(metric: &Value, path: &Path, strictness: Reference) -> Faults {
    let known = ["ContainerResource", "External", "Object", "Pods", "Resource"];
    let kind = text(metric, "type");
    let at = path.child("type");
    let mut faults = Vec::new();
    if kind.is_empty() {
        faults.push(Error::required(&at, "must specify a metric source type"));
    }
    if !known.contains(&kind) {
        faults.push(Error::not_supported(&at, kind, &known));
    }
    let present: Vec<&str> = SOURCES.iter().map(|(_, key)| *key).filter(|key| has(metric, key)).collect();
    if let Some(first) = present.first() {
        faults.extend(validate_source(&metric[*first], first, &path.child(first), strictness));
    }
    let expected = SOURCES.iter().find(|(name, _)| *name == kind).map(|(_, key)| *key);
    match expected {
        Some(key) if !has(metric, key) => {
            let why = "must populate information for the given metric source";
            faults.push(Error::required(&path.child(key), why));
        }
        Some(_) => {}
        None => faults.push(Error::not_supported(&at, kind, &known)),
    }
    if present.len() != 1 {
        let others = present.into_iter().filter(|key| Some(*key) != expected);
        let why = "must populate the given metric source only";
        faults.extend(others.map(|key| Error::forbidden(&path.child(key), why)));
    }
    faults
}

fn validate_source(source: &Value, kind: &str, path: &Path, strictness: Reference) -> Faults {
    let target = &source["target"];
    let at = path.child("target");
    let mut faults = Vec::new();
    if kind == "object" {
        let described = path.child("describedObject");
        faults.extend(validate_reference(&source["describedObject"], &described, strictness));
    }
    match kind {
        "resource" | "containerResource" => {
            let name = text(source, "name");
            if name.is_empty() {
                faults.push(Error::required(&path.child("name"), "must specify a resource name"));
            } else if kind == "containerResource" {
                faults.extend(container_resource(name, &path.child("name")));
            }
            if kind == "containerResource" {
                match text(source, "container") {
                    "" => faults.push(Error::required(&path.child("container"), "must specify a container")),
                    name => {
                        faults.extend(each_wrong(&path.child("container"), name, names::dns1123_label(name)));
                    }
                }
            }
        }
        _ => match text(&source["metric"], "name") {
            "" => {
                let name = path.child("metric").child("name");
                faults.push(Error::required(&name, "must specify a metric name"));
            }
            name => {
                let at = path.child("metric").child("name");
                faults.extend(each_wrong(&at, name, names::path_segment(name)));
            }
        },
    }
    faults.extend(validate_target(target, &at));
    let (value, average, utilization) =
        (has(target, "value"), has(target, "averageValue"), has(target, "averageUtilization"));
    match kind {
        "object" if !value && !average => {
            let why = "must set either a target value or averageValue";
            faults.push(Error::required(&at.child("averageValue"), why));
        }
        "external" if !value && !average => {
            let why = "must set either a target value for metric or a per-pod target";
            faults.push(Error::required(&at.child("averageValue"), why));
        }
        "external" if value && average => {
            let why = "may not set both a target value for metric and a per-pod target";
            faults.push(Error::forbidden(&at.child("value"), why));
        }
        "pods" if !average => {
            let why = "must specify a positive target averageValue";
            faults.push(Error::required(&at.child("averageValue"), why));
        }
        "resource" | "containerResource" if !utilization && !average => {
            let why = "must set either a target raw value or a target utilization";
            faults.push(Error::required(&at.child("averageUtilization"), why));
        }
        "resource" | "containerResource" if utilization && average => {
            let why = "may not set both a target raw value and a target utilization";
            faults.push(Error::forbidden(&at.child("averageValue"), why));
        }
        _ => {}
    }
    faults
}

fn validate_target(target: &Value, path: &Path) -> Faults {
    let mut faults = Vec::new();
    let kind = text(target, "type");
    if kind.is_empty() {
        faults.push(Error::required(&path.child("type"), "must specify a metric target type"));
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        let why = "must be either Utilization, Value, or AverageValue";
        faults.push(Error::invalid(&path.child("type"), kind, why));
    }
    for key in ["value", "averageValue"] {
        if has(target, key) && !quantity_is_positive(&target[key]) {
            faults.push(Error::invalid(&path.child(key), target[key].clone(), "must be positive"));
        }
    }
    if let Some(percent) = int(target, "averageUtilization").filter(|percent| *percent < 1) {
        faults.push(Error::invalid(&path.child("averageUtilization"), percent, "must be greater than 0"));
    }
    faults
}

/// A resource that containers ask for: one that Kubernetes knows, or a name with a domain.
fn container_resource(name: &str, path: &Path) -> Faults {
    let mut faults = pods::resources::validate_resource_name(name, path);
    let standard = ["cpu", "memory", "ephemeral-storage"].contains(&name) || name.starts_with("hugepages-");
    if !name.contains('/') && !standard {
        faults.push(Error::invalid(path, name, "must be a standard resource for containers"));
    }
    faults
}
