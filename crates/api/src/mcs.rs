//! The kinds of the Multi-Cluster Services API: a Service is exported under its own name, and imported wherever its
//! namespace is.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::membership::object::namespaced;
use crate::names::network::{MCS_GROUP, MCS_VERSION};

/// Says that the Service of its name is for all clusters.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ServiceExport {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: Option<ExportSpec>,
    #[serde(default)]
    pub status: Option<ExportStatus>,
}

/// What goes along with an exported Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportSpec {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub exported_labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub exported_annotations: BTreeMap<String, String>,
}

/// What became of an export.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExportStatus {
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// A Service of all clusters that export it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ServiceImport {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: Value,
    #[serde(default)]
    pub status: Option<Value>,
}

namespaced!(version MCS_VERSION, ServiceExport, "serviceexports", MCS_GROUP, [metadata], [spec, status]);
namespaced!(version MCS_VERSION, ServiceImport, "serviceimports", MCS_GROUP, [metadata, spec], [status]);

/// Definitions of both kinds, wide enough for tests; real clusters have those of the API itself.
pub fn crds() -> Vec<Value> {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = |kind: &str, plural: &str| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": format!("{plural}.{MCS_GROUP}"),
                // A group below `x-k8s.io` is for those who say so.
                "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/tree/master/keps/sig-multicluster/1645-multi-cluster-services-api"},
            },
            "spec": {
                "group": MCS_GROUP,
                "scope": "Namespaced",
                "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
                "versions": [{
                    "name": MCS_VERSION, "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
                    "subresources": {"status": {}},
                }],
            },
        })
    };
    vec![definition("ServiceExport", "serviceexports"), definition("ServiceImport", "serviceimports")]
}
