//! `ClusterProfile`, by which other tools find the members: an interface of SIG Multicluster (KEP-4322).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::crds::definition;
use super::object::namespaced;

const GROUP: &str = "multicluster.x-k8s.io";
/// Who keeps a profile, as a label on it and in its spec.
pub const PROFILE_MANAGER: &str = "koinon";

/// One cluster, for whoever wants to know which there are.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ClusterProfile {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: ProfileSpec,
    #[serde(default)]
    pub status: Option<ProfileStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProfileSpec {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    #[serde(default)]
    pub cluster_manager: Manager,
}

/// Who keeps the profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manager {
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProfileStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(default)]
    pub version: Version,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<Property>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<String>,
}

/// Something that the cluster claims, or that is known of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Property {
    pub name: String,
    pub value: String,
}

namespaced!(ClusterProfile, "clusterprofiles", GROUP, [metadata, spec], [status]);

/// The definition of `ClusterProfile`, as far as it is used here.
pub fn cluster_profile_crd() -> Value {
    let condition = json!({
        "type": "object", "required": ["type", "status", "lastTransitionTime", "reason", "message"],
        "properties": {
            "type": {"type": "string", "maxLength": 316},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": {"type": "string", "minLength": 1, "maxLength": 1024},
            "message": {"type": "string", "maxLength": 32768},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        },
    });
    let schema = json!({
        "type": "object", "required": ["spec"],
        "description": "One cluster of a federation.",
        "properties": {
            "spec": {
                "type": "object", "required": ["clusterManager"],
                "properties": {
                    "displayName": {"type": "string"},
                    "clusterManager": {
                        "type": "object", "required": ["name"], "properties": {"name": {"type": "string"}},
                        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "who keeps a profile does not change"}],
                    },
                },
            },
            "status": {
                "type": "object",
                "properties": {
                    "conditions": {
                        "type": "array", "items": condition,
                        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                    },
                    "version": {"type": "object", "properties": {"kubernetes": {"type": "string"}}},
                    "properties": {
                        "type": "array",
                        "items": {
                            "type": "object", "required": ["name", "value"],
                            "properties": {
                                "name": {"type": "string", "maxLength": 253},
                                "value": {"type": "string", "minLength": 1, "maxLength": 1024},
                            },
                        },
                    },
                },
            },
        },
    });
    let columns = json!([
        {"name": "Version", "type": "string", "jsonPath": ".status.version.kubernetes"},
        {"name": "Healthy", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"ControlPlaneHealthy\")].status"},
        {"name": "Joined", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Joined\")].status"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    let mut definition =
        definition("ClusterProfile", "clusterprofiles", &[], schema, columns, json!({"status": {}}));
    definition["metadata"]["name"] = format!("clusterprofiles.{GROUP}").into();
    definition["spec"]["group"] = GROUP.into();
    // Groups of the Kubernetes community are protected; this is where the interface was agreed upon.
    definition["metadata"]["annotations"] =
        json!({"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/issues/4322"});
    definition
}
