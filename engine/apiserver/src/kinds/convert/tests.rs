//! Pairs of the same object in two versions, as a kube-apiserver of the release shows them, and round trips
//! of objects that nobody wrote down.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{convert, storage};
use crate::kinds::other::look::text;
use crate::kinds::strategy;

fn version_of(object: &Value) -> (String, String) {
    let version = text(object, "apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    (group.to_owned(), version.to_owned())
}

fn to(object: &Value, like: &Value) -> Value {
    let ((from_group, from_version), (group, version)) = (version_of(object), version_of(like));
    convert(&from_group, &from_version, text(object, "kind"), object.clone(), &group, &version)
}

#[test]
fn versions_look_as_the_real_server_shows_them() {
    let pairs: Vec<Value> = serde_json::from_str(include_str!("pairs.json")).expect("the pairs are JSON");
    assert!(!pairs.is_empty());
    for pair in &pairs {
        let (stored, other) = (&pair["stored"], &pair["other"]);
        let (group, version) = version_of(stored);
        assert_eq!(
            storage(&version_of(other).0, text(other, "kind")),
            Some((group.as_str(), version.as_str()))
        );
        assert_eq!(&to(stored, other), other);
        assert_eq!(&to(other, stored), stored);
    }
}

#[test]
fn what_is_served_once_stays_as_it_is() {
    let job = json!({"apiVersion": "batch/v1", "kind": "Job"});
    assert_eq!(convert("batch", "v1", "Job", job.clone(), "batch", "v1"), job);
}

fn amount() -> impl Strategy<Value = Value> {
    (1u32..1000).prop_map(|number| json!(format!("{number}m")))
}

fn selector() -> impl Strategy<Value = Option<Value>> {
    proptest::option::of("[a-z]{1,5}".prop_map(|value| json!({"matchLabels": {"k": value}})))
}

fn metric_id() -> impl Strategy<Value = Value> {
    ("[a-z]{1,6}", selector()).prop_map(|(name, selector)| match selector {
        Some(selector) => json!({"name": name, "selector": selector}),
        None => json!({"name": name}),
    })
}

fn metric() -> impl Strategy<Value = Value> {
    let average = || amount().prop_map(|value| json!({"type": "AverageValue", "averageValue": value}));
    let value = || amount().prop_map(|value| json!({"type": "Value", "value": value}));
    let used =
        || (1u32..100).prop_map(|percent| json!({"type": "Utilization", "averageUtilization": percent}));
    prop_oneof![
        average().prop_map(|target| json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})),
        prop_oneof![average(), used()]
            .prop_map(|target| json!({"type": "Resource", "resource": {"name": "memory", "target": target}})),
        (metric_id(), average())
            .prop_map(|(metric, target)| json!({"type": "Pods", "pods": {"metric": metric, "target": target}})),
        (metric_id(), prop_oneof![average(), value()]).prop_map(|(metric, target)| {
            json!({"type": "External", "external": {"metric": metric, "target": target}})
        }),
        (metric_id(), prop_oneof![average(), value()]).prop_map(|(metric, target)| {
            let described = json!({"kind": "Service", "name": "s", "apiVersion": "v1"});
            json!({"type": "Object", "object": {"metric": metric, "target": target, "describedObject": described}})
        }),
        prop_oneof![average(), used()].prop_map(|target| {
            let source = json!({"name": "cpu", "container": "c", "target": target});
            json!({"type": "ContainerResource", "containerResource": source})
        }),
    ]
}

fn autoscaler() -> impl Strategy<Value = Value> {
    let metrics = (proptest::collection::vec(metric(), 0..4), proptest::option::of(1i64..100));
    (metrics, proptest::option::of(0u32..3000), 1u32..9, proptest::option::of(0u32..9)).prop_map(
        |((mut metrics, used), window, most, seen)| {
            // Version 1 has one place for the use of processors, behind all other metrics.
            metrics.extend(used.map(crate::kinds::other::autoscaling::cpu_utilization));
            let mut autoscaler = json!({
                "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
                "metadata": {"name": "x", "annotations": {"a": "b"}},
                "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
                         "maxReplicas": most, "metrics": metrics},
                "status": {"desiredReplicas": most, "currentMetrics": null},
            });
            if let Some(window) = window {
                autoscaler["spec"]["behavior"] = json!({"scaleUp": {"stabilizationWindowSeconds": window}});
            }
            if let Some(seen) = seen {
                autoscaler["status"]["observedGeneration"] = seen.into();
                autoscaler["status"]["conditions"] = json!([
                    {"type": "AbleToScale", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z"}
                ]);
            }
            (strategy("autoscaling", "HorizontalPodAutoscaler").default)(&mut autoscaler);
            autoscaler
        },
    )
}

proptest! {
    #[test]
    fn autoscalers_come_back_from_the_older_version(autoscaler in autoscaler()) {
        let older = json!({"apiVersion": "autoscaling/v1"});
        prop_assert_eq!(&to(&to(&autoscaler, &older), &autoscaler), &autoscaler);
    }

    #[test]
    fn events_come_back_from_the_newer_group(
        message in "[a-z ]{0,9}", reason in "[A-Z][a-z]{0,9}", count in 0i64..9, reporter in "[a-z]{0,5}",
        time in proptest::option::of(Just("2024-01-01T00:00:00.000000Z")),
    ) {
        let mut event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "n"},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "n"}, "reason": reason,
            "source": {}, "firstTimestamp": null, "lastTimestamp": null, "eventTime": time,
            "reportingComponent": reporter, "reportingInstance": "",
        });
        if count > 0 {
            event["count"] = count.into();
        }
        if !message.is_empty() {
            event["message"] = message.into();
        }
        let newer = json!({"apiVersion": "events.k8s.io/v1"});
        prop_assert_eq!(&to(&to(&event, &newer), &event), &event);
    }
}
