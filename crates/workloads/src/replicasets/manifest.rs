//! What a member's ReplicaSet says: everything that the federated one does, and that it is ours.

use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::content;

/// The member's object without its count.
pub(super) fn manifest(set: &ReplicaSet) -> Value {
    let mut spec = serde_json::to_value(&set.spec).unwrap_or_default();
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("replicas");
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": set.name_any(),
            "namespace": set.namespace(),
            "labels": content::labels(set.metadata.labels.as_ref()),
            "annotations": content::annotations(set.metadata.annotations.as_ref()),
        },
        "spec": spec,
    })
}
