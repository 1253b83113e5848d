//! `GSLBConfig`: how AMKO reaches the load balancers, and which clusters it looks at.

use serde_json::{Value, json};

use super::{Names, age, column, definition, text};

const NAMES: Names =
    Names { kind: "GSLBConfig", plural: "gslbconfigs", singular: "gslbconfig", short: &["gc"] };

pub(super) fn crd() -> Value {
    let spec = json!({
        "type": "object",
        "properties": {
            "gslbLeader": {
                "type": "object",
                "description": "The Avi controller that leads the GSLB sites.",
                "properties": {
                    "credentials": text("The Secret with the controller's user name and password."),
                    "controllerVersion": {"type": "string"},
                    "controllerIP": {"type": "string"},
                    "tenant": text("The tenant on the controller; admin unless said otherwise."),
                },
            },
            "memberClusters": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"clusterContext": text("A context in the kubeconfig of gslb-config-secret.")},
                },
            },
            "refreshInterval": {"type": "integer", "description": "Seconds between full comparisons; 600 if not positive."},
            "logLevel": {"type": "string", "enum": ["DEBUG", "INFO", "WARN", "ERROR"]},
            "useCustomGlobalFqdn": {"type": "boolean"},
        },
    });
    // No status subresource: AMKO writes its status with the object.
    definition(
        &NAMES,
        json!({
            "name": "v1alpha1",
            "served": true,
            "storage": true,
            "additionalPrinterColumns": [
                column("Controller", "string", ".spec.gslbLeader.controllerIP"),
                column("State", "string", ".status.state"),
                age(),
            ],
            "schema": {"openAPIV3Schema": {
                "type": "object",
                "required": ["spec"],
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "metadata": {"type": "object"},
                    "spec": spec,
                    "status": {"type": "object", "properties": {"state": {"type": "string"}}},
                },
            }},
        }),
    )
}
