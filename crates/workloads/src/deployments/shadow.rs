//! Shadow ReplicaSets as objects: what they say, and how that compares with what is there.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetStatus};
use koinon_api::names::workloads;
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};

use super::read::TEMPLATE_HASH;
use crate::rollout::ShadowWanted;

/// Annotations that speak of the Deployment itself, and not of one of its revisions.
const NOT_COPIED: [&str; 7] = [
    workloads::LAST_APPLIED,
    workloads::PLACEMENT,
    workloads::ROLLOUT,
    workloads::REVISION,
    workloads::REVISIONS,
    workloads::CHANGE_CAUSE,
    workloads::SHADOW,
];

/// What a shadow says, for a server-side apply. `cause` is what its revision was for.
///
/// kubectl's undo gives the Deployment all annotations of the shadow. So each one carries those that the Deployment has now,
/// and only the cause of the change is its own: preferences and order stay what they are.
pub(super) fn manifest(
    deployment: &Deployment,
    wanted: &ShadowWanted,
    template: &Value,
    cause: Option<String>,
) -> Value {
    let spec = deployment.spec.as_ref();
    let mut annotations: BTreeMap<String, String> = deployment.annotations().clone();
    annotations.retain(|name, _| !NOT_COPIED.contains(&name.as_str()));
    annotations.extend(cause.map(|cause| (workloads::CHANGE_CAUSE.to_owned(), cause)));
    annotations.insert(workloads::REVISION.to_owned(), wanted.revision.to_string());
    annotations.insert(workloads::SHADOW.to_owned(), "true".to_owned());
    let mut template = template.clone();
    template["metadata"]["labels"][TEMPLATE_HASH] = wanted.template.as_str().into();
    let mut selector = serde_json::to_value(spec.map(|spec| &spec.selector)).unwrap_or_default();
    selector["matchLabels"][TEMPLATE_HASH] = wanted.template.as_str().into();
    let mut said = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": wanted.name,
            "namespace": deployment.namespace(),
            "labels": template["metadata"]["labels"],
            "annotations": annotations,
            "ownerReferences": [deployment.controller_owner_ref(&())],
        },
        "spec": {"replicas": wanted.replicas, "selector": selector, "template": template},
    });
    if let Some(seconds) = spec.and_then(|spec| spec.min_ready_seconds) {
        said["spec"]["minReadySeconds"] = seconds.into();
    }
    said
}

/// The status of a shadow: what members have of its template.
pub(super) fn status(wanted: &ShadowWanted, there: &ReplicaSet) -> ReplicaSetStatus {
    let count = |count: i64| i32::try_from(count.max(0)).unwrap_or(i32::MAX);
    ReplicaSetStatus {
        replicas: count(wanted.replicas),
        fully_labeled_replicas: Some(count(wanted.replicas)),
        ready_replicas: Some(count(wanted.ready)),
        available_replicas: Some(count(wanted.available)),
        observed_generation: there.metadata.generation,
        ..ReplicaSetStatus::default()
    }
}

/// Whether the counts of a shadow are other than they should be.
pub(super) fn miscounts(wanted: &ShadowWanted, there: &ReplicaSet) -> bool {
    let asked = there.spec.as_ref().and_then(|spec| spec.replicas).map_or(1, i64::from);
    asked != wanted.replicas
}
