//! What of an object is ours to say: its labels, annotations and spec, without what each server adds for itself.

use std::collections::BTreeMap;

use koinon_api::names::{FEDERATED, MANAGED_BY, MANAGER, workloads};
use kube::api::ObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};

use crate::digest::digest;

/// Annotations that a cluster's own controllers write.
const LOCAL: &str = "deployment.kubernetes.io/";
/// Annotations that speak to the federation, and mean nothing in a member.
const FEDERATION: [&str; 2] = ["koinon.dev/", "federation.kubernetes.io/"];
/// Labels and annotations by which other tools know what they own. What they own is the federated object: one that finds its mark
/// on a member's would think that it lost that one, and remove it.
const OTHER_TOOLS: [&str; 4] =
    ["argocd.argoproj.io/", "meta.helm.sh/", "kustomize.toolkit.fluxcd.io/", "helm.toolkit.fluxcd.io/"];

/// Selects what members have from us, but for objects of earlier releases: those are known by their names until they are
/// written the next time.
pub(crate) fn selector() -> String {
    format!("{FEDERATED}=true")
}

/// The labels of a member's object: the user's, and that it is ours.
pub(crate) fn labels(of: Option<&BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let mut labels = of.cloned().unwrap_or_default();
    labels.retain(|name, _| !is_of_another_tool(name));
    labels.insert(FEDERATED.to_owned(), "true".to_owned());
    labels
}

/// Whether these are the labels of an object that we manage, of this release or an earlier one.
pub(crate) fn is_ours(labels: &BTreeMap<String, String>) -> bool {
    let has = |name: &str, value: &str| labels.get(name).is_some_and(|one| one == value);
    has(FEDERATED, "true") || has(MANAGED_BY, MANAGER)
}

fn is_of_another_tool(name: &str) -> bool {
    OTHER_TOOLS.iter().any(|prefix| name.starts_with(prefix))
}

/// The annotations of a member's object: the user's, without those that steer the federation.
pub(crate) fn annotations(of: Option<&BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let mut annotations = of.cloned().unwrap_or_default();
    annotations.retain(|name, _| {
        !name.starts_with(LOCAL)
            && !FEDERATION.iter().any(|prefix| name.starts_with(prefix))
            && !is_of_another_tool(name)
            && name != workloads::LAST_APPLIED
    });
    annotations
}

/// What a federated object says to members, for a comparison with what they have. `spec` is its spec.
pub(crate) fn said(metadata: &ObjectMeta, spec: &impl Serialize) -> Value {
    let mut labels = metadata.labels.clone().unwrap_or_default();
    labels.retain(|name, _| !is_of_another_tool(name));
    json!({
        "metadata": {"labels": labels, "annotations": annotations(metadata.annotations.as_ref())},
        "spec": spec,
    })
}

/// How many bytes all annotations but the placement take.
pub(crate) fn size_beside_placement(annotations: &BTreeMap<String, String>) -> usize {
    let others = annotations.iter().filter(|(name, _)| *name != workloads::PLACEMENT);
    others.map(|(name, value)| name.len() + value.len()).sum::<usize>() + workloads::PLACEMENT.len()
}

/// A number for what an object says, apart from its count and from what its own cluster's controllers write.
pub(crate) fn of_object(
    labels: Option<&BTreeMap<String, String>>,
    annotations: Option<&BTreeMap<String, String>>,
    spec: &impl Serialize,
) -> u64 {
    let mut annotations = annotations.cloned().unwrap_or_default();
    annotations.retain(|name, _| !name.starts_with(LOCAL));
    of_parts(labels, &annotations, spec)
}

/// The same for a mirror on the federation's API server, where no controller but ours writes such annotations.
pub(crate) fn of_mirror(metadata: &ObjectMeta, spec: &impl Serialize) -> u64 {
    of_parts(metadata.labels.as_ref(), &metadata.annotations.clone().unwrap_or_default(), spec)
}

fn of_parts(
    labels: Option<&BTreeMap<String, String>>,
    annotations: &BTreeMap<String, String>,
    spec: &impl Serialize,
) -> u64 {
    let none = BTreeMap::new();
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
        let all = [
            workloads::PLACEMENT,
            workloads::DEPLOYMENT_PREFERENCES,
            workloads::LAST_APPLIED,
            "argocd.argoproj.io/tracking-id",
            "meta.helm.sh/release-name",
            "kustomize.toolkit.fluxcd.io/checksum",
            "helm.toolkit.fluxcd.io/driftDetection",
            "team",
        ];
        let all = all.into_iter().map(|name| (name.to_owned(), String::new())).collect();
        assert_eq!(annotations(Some(&all)).into_keys().collect::<Vec<_>>(), ["team"]);
    }

    #[test]
    fn users_labels_are_users_and_ours_is_our_own() {
        let of = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let helm = of(&[(MANAGED_BY, "Helm"), ("helm.toolkit.fluxcd.io/name", "web"), ("team", "blue")]);
        let expected = of(&[(FEDERATED, "true"), (MANAGED_BY, "Helm"), ("team", "blue")]);
        assert_eq!(labels(Some(&helm)), expected);
        assert!(is_ours(&expected) && !is_ours(&helm));
        assert!(is_ours(&of(&[(MANAGED_BY, MANAGER)])), "of an earlier release");
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
