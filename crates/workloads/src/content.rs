//! What of an object is ours to say: its labels, annotations and spec, without what each server adds for itself.

use std::collections::BTreeMap;

use koinon_api::names::{MANAGED_BY, MANAGER, workloads};
use serde::Serialize;
use serde_json::{Value, json};

use crate::digest::digest;

/// Annotations that a cluster's own controllers write.
const LOCAL: &str = "deployment.kubernetes.io/";
/// Annotations that speak to the federation, and mean nothing in a member.
const FEDERATION: [&str; 2] = ["koinon.dev/", "federation.kubernetes.io/"];

/// The labels of a member's object: the user's, and that it is ours.
pub(crate) fn labels(of: Option<&BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let mut labels = of.cloned().unwrap_or_default();
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    labels
}

/// The annotations of a member's object: the user's, without those that steer the federation.
pub(crate) fn annotations(of: Option<&BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let mut annotations = of.cloned().unwrap_or_default();
    annotations.retain(|name, _| {
        !name.starts_with(LOCAL)
            && !FEDERATION.iter().any(|prefix| name.starts_with(prefix))
            && name != workloads::LAST_APPLIED
    });
    annotations
}

/// How many bytes all annotations but the placement take.
pub(crate) fn size_beside_placement(annotations: &BTreeMap<String, String>) -> usize {
    let others = annotations.iter().filter(|(name, _)| *name != workloads::PLACEMENT);
    others.map(|(name, value)| name.len() + value.len()).sum::<usize>() + workloads::PLACEMENT.len()
}

/// A number for what an object says, apart from its count.
pub(crate) fn of_object(
    labels: Option<&BTreeMap<String, String>>,
    annotations: Option<&BTreeMap<String, String>>,
    spec: &impl Serialize,
) -> u64 {
    let none = BTreeMap::new();
    let annotations: BTreeMap<_, _> =
        annotations.unwrap_or(&none).iter().filter(|(name, _)| !name.starts_with(LOCAL)).collect();
    let mut spec = serde_json::to_value(spec).unwrap_or_default();
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("replicas");
    }
    digest(&json!({"labels": labels.unwrap_or(&none), "annotations": annotations, "spec": spec}))
}

/// The same number for a manifest that is to be applied.
pub(crate) fn of_manifest(manifest: &Value) -> u64 {
    let mut spec = manifest["spec"].clone();
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("replicas");
    }
    let metadata = &manifest["metadata"];
    digest(&json!({"labels": metadata["labels"], "annotations": metadata["annotations"], "spec": spec}))
}

/// A number for what a manifest is about: the same, however fast and whether at all its pods are being replaced.
pub(crate) fn subject(manifest: &Value) -> u64 {
    let mut manifest = manifest.clone();
    if let Some(spec) = manifest["spec"].as_object_mut() {
        spec.remove("strategy");
        spec.remove("paused");
    }
    of_manifest(&manifest)
}

/// Whether two statuses say the same. Servers leave out counts that are zero.
pub(crate) fn is_same_status(one: &impl Serialize, other: &impl Serialize) -> bool {
    let counts = |status: Value| match status {
        Value::Object(mut fields) => {
            fields.retain(|_, value| !value.is_null() && *value != 0);
            Value::Object(fields)
        }
        other => other,
    };
    match (serde_json::to_value(one), serde_json::to_value(other)) {
        (Ok(one), Ok(other)) => counts(one) == counts(other),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::ReplicaSet;

    use super::*;

    #[test]
    fn what_is_applied_is_recognised_when_it_comes_back() {
        let manifest = json!({
            "metadata": {"labels": {"app": "web"}, "annotations": {}},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {}, "spec": {"containers": []}}},
        });
        let mut back: ReplicaSet = serde_json::from_value(manifest.clone()).unwrap();
        back.spec.as_mut().unwrap().replicas = Some(7);
        back.metadata.annotations = Some([("deployment.kubernetes.io/revision".into(), "1".into())].into());
        let of = |one: &ReplicaSet| {
            of_object(one.metadata.labels.as_ref(), one.metadata.annotations.as_ref(), &one.spec)
        };
        assert_eq!(of(&back), of_manifest(&manifest));
        back.spec.as_mut().unwrap().min_ready_seconds = Some(1);
        assert_ne!(of(&back), of_manifest(&manifest));
    }

    #[test]
    fn what_steers_the_federation_stays_there() {
        let all = [workloads::PLACEMENT, workloads::DEPLOYMENT_PREFERENCES, workloads::LAST_APPLIED, "team"];
        let all = all.into_iter().map(|name| (name.to_owned(), String::new())).collect();
        assert_eq!(annotations(Some(&all)).into_keys().collect::<Vec<_>>(), ["team"]);
        assert_eq!(labels(None)[MANAGED_BY], MANAGER);
    }

    #[test]
    fn a_count_of_zero_is_none() {
        assert!(is_same_status(
            &json!({"replicas": 0, "ready": 0, "a": 1}),
            &json!({"a": 1, "conditions": null})
        ));
        assert!(!is_same_status(&json!({"a": 0}), &json!({"a": 1})));
    }
}
