//! `AMKOCluster`: who leads, and whom it federates to.

use serde_json::{Value, json};

use super::{Names, age, column, definition, text};
use crate::names::condition;

const NAMES: Names =
    Names { kind: "AMKOCluster", plural: "amkoclusters", singular: "amkocluster", short: &[] };

pub(super) fn crd() -> Value {
    // Nothing is required and empty text is let through: what is wrong is said in the status, in AMKO's words.
    let spec = json!({
        "type": "object",
        "properties": {
            "isLeader": {"type": "boolean", "description": "Whether this cluster's configuration is the one that all others follow. Only one cluster may say so."},
            "clusterContext": text("The context of this cluster in the kubeconfig of gslb-config-secret."),
            "version": text("The version of AMKO here; members must have the same."),
            "clusters": {
                "type": "array",
                "items": {"type": "string"},
                "description": "The contexts of the clusters to federate to. This cluster may be among them.",
            },
            "objects": {
                "type": "array",
                "maxItems": 32,
                "description": "Further custom resources to federate in the same way.",
                "items": {
                    "type": "object",
                    "required": ["apiVersion", "kind"],
                    "properties": {
                        "apiVersion": {
                            "type": "string",
                            "maxLength": 317,
                            "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+/[a-z]([-a-z0-9]*[a-z0-9])?$",
                            "description": "Group and version; the group has a dot, as that of every custom resource.",
                        },
                        "kind": {"type": "string", "minLength": 1, "maxLength": 63},
                        "namespace": {
                            "type": "string",
                            "maxLength": 63,
                            "description": "Where they are: avi-system unless another namespace is named; * stands for all.",
                        },
                    },
                },
            },
        },
    });
    let status = json!({
        "type": "object",
        "properties": {
            "conditions": {
                "type": "array",
                "description": "The stages of federation, as far as they were reached.",
                "items": {
                    "type": "object",
                    "properties": {
                        "type": {"type": "string"},
                        "status": {"type": "string"},
                        "reason": {"type": "string"},
                    },
                },
            },
        },
    });
    let says = |name, stage: &str| {
        column(name, "string", &format!(".status.conditions[?(@.type==\"{stage}\")].status"))
    };
    definition(
        &NAMES,
        json!({
            "name": "v1alpha1",
            "served": true,
            "storage": true,
            "subresources": {"status": {}},
            "additionalPrinterColumns": [
                column("Leader", "boolean", ".spec.isLeader"),
                column("Context", "string", ".spec.clusterContext"),
                column("Version", "string", ".spec.version"),
                says("Current", condition::CURRENT),
                says("Members", condition::VALIDATION),
                age(),
            ],
            "schema": {"openAPIV3Schema": {
                "type": "object",
                "description": "Governs the federation of configuration from this cluster, or to it.",
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "metadata": {"type": "object"},
                    "spec": spec,
                    "status": status,
                },
            }},
        }),
    )
}
