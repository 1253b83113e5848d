//! `GlobalDeploymentPolicy`: what is published globally, and how traffic is split.

use serde_json::{Value, json};

use super::{Names, age, column, definition, text};

const NAMES: Names = Names {
    kind: "GlobalDeploymentPolicy",
    plural: "globaldeploymentpolicies",
    singular: "globaldeploymentpolicy",
    short: &["gdp"],
};

const HASH: &str = "GSLB_ALGORITHM_CONSISTENT_HASH";
const GEO: &str = "GSLB_ALGORITHM_GEO";
const ROUND_ROBIN: &str = "GSLB_ALGORITHM_ROUND_ROBIN";
const TOPOLOGY: &str = "GSLB_ALGORITHM_TOPOLOGY";
const FALLBACK: &str = "GSLB_SERVICE_DOWN_RESPONSE_FALLBACK_IP";

pub(super) fn crd() -> Value {
    let spec = json!({
        "type": "object",
        "properties": {
            "matchRules": {
                "type": "object",
                "description": "Which applications: by their labels, by those of their namespace, or both.",
                "properties": {"appSelector": selector(), "namespaceSelector": selector()},
            },
            "matchClusters": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"cluster": {"type": "string"}, "syncVipOnly": {"type": "boolean"}},
                },
            },
            "trafficSplit": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "cluster": {"type": "string"},
                        "weight": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 20, "default": 1},
                        "priority": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 100, "default": 10},
                    },
                },
            },
            "ttl": {"type": "integer", "minimum": 0, "maximum": 86400, "description": "Seconds that a DNS answer is kept."},
            "healthMonitorRefs": {
                "type": "array",
                "maxItems": 256,
                "items": {"type": "string", "minLength": 1},
                "description": "Health monitors on the Avi controller; not together with healthMonitorTemplate.",
            },
            "healthMonitorTemplate": {"type": "string"},
            "controlPlaneHmOnly": {"type": "boolean"},
            "sitePersistenceRef": {"type": "string"},
            "pkiProfileRef": {"type": "string"},
            "defaultDomain": {"type": "string"},
            "poolAlgorithmSettings": algorithm(),
            "downResponse": {
                "type": "object",
                "required": ["type"],
                "properties": {
                    "type": {"type": "string", "enum": [
                        "GSLB_SERVICE_DOWN_RESPONSE_NONE", "GSLB_SERVICE_DOWN_RESPONSE_ALL_RECORDS", FALLBACK,
                        "GSLB_SERVICE_DOWN_RESPONSE_EMPTY",
                    ]},
                    "fallbackIP": text("Given as answer while the service is down."),
                },
                "x-kubernetes-validations": [{
                    "rule": format!("(self.type == '{FALLBACK}') == has(self.fallbackIP)"),
                    "message": format!("fallbackIP is needed with {FALLBACK}, and allowed with nothing else"),
                }],
            },
        },
        "x-kubernetes-validations": [{
            "rule": "!(has(self.healthMonitorRefs) && self.healthMonitorRefs.size() > 0 && \
                     has(self.healthMonitorTemplate) && self.healthMonitorTemplate != '')",
            "message": "healthMonitorRefs and healthMonitorTemplate cannot be used together",
        }],
    });
    // No status subresource: AMKO writes its status with the object.
    definition(
        &NAMES,
        json!({
            "name": "v1alpha2",
            "served": true,
            "storage": true,
            "additionalPrinterColumns": [column("Status", "string", ".status.errorStatus"), age()],
            "schema": {"openAPIV3Schema": {
                "type": "object",
                "required": ["spec"],
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "metadata": {"type": "object"},
                    "spec": spec,
                    "status": {"type": "object", "properties": {"errorStatus": {"type": "string"}}},
                },
            }},
        }),
    )
}

fn selector() -> Value {
    json!({
        "type": "object",
        "properties": {"label": {
            "type": "object",
            "maxProperties": 64,
            "additionalProperties": {"type": "string", "minLength": 1},
            "x-kubernetes-validations": [{
                "rule": "!('' in self)",
                "message": "a label needs a key",
            }],
        }},
    })
}

fn mask() -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": 31, "description": "How many bits of the client's address count."})
}

/// A mask belongs to the hash, always and only.
fn mask_rule() -> Value {
    json!({
        "rule": format!("(has(self.lbAlgorithm) && self.lbAlgorithm == '{HASH}') == has(self.hashMask)"),
        "message": format!("hashMask is needed with {HASH}, and allowed with nothing else"),
    })
}

fn algorithm() -> Value {
    json!({
        "type": "object",
        "properties": {
            "lbAlgorithm": {"type": "string", "enum": [HASH, GEO, ROUND_ROBIN, TOPOLOGY]},
            "hashMask": mask(),
            "geoFallback": {
                "type": "object",
                "properties": {
                    "lbAlgorithm": {"type": "string", "enum": [ROUND_ROBIN, HASH]},
                    "hashMask": mask(),
                },
                "x-kubernetes-validations": [mask_rule()],
            },
        },
        "x-kubernetes-validations": [mask_rule(), {
            "rule": format!("(has(self.lbAlgorithm) && self.lbAlgorithm == '{GEO}') == has(self.geoFallback)"),
            "message": format!("geoFallback is needed with {GEO}, and allowed with nothing else"),
        }],
    })
}
