//! The custom resource definitions of membership, as objects to apply.

use serde_json::{Value, json};

use super::profile::cluster_profile_crd;
pub use crate::names::membership::{GROUP, VERSION};

/// More would not fit into what an API server takes as one object, nor into what it allows a rule to cost.
const MOST_MEMBERS: u32 = 2000;
/// A DNS subdomain; its length is limited beside it.
const ID_PATTERN: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// Every definition that membership needs.
pub fn crds() -> Vec<Value> {
    vec![cluster_claim_crd(), federation_crd(), cluster_profile_crd()]
}

/// The definition of `ClusterClaim`.
pub fn cluster_claim_crd() -> Value {
    let named_id =
        "(has(self.name) ? self.name : self.metadata.name) in ['id.k8s.io', 'cluster.clusterset.k8s.io']";
    let schema = json!({
        "type": "object",
        "description": "One thing that a cluster says of itself, such as its ID.",
        "required": ["value"],
        "properties": {
            "name": {
                "type": "string", "maxLength": 253,
                "description": "The claim's name where it cannot be the object's, as with clusterSet.k8s.io.",
            },
            "value": {"type": "string", "maxLength": 1024, "description": "What is claimed."},
        },
        "x-kubernetes-validations": [{
            "rule": format!("!({named_id}) || (self.value.size() < 128 && self.value.matches('{ID_PATTERN}'))"),
            "message": "a cluster's ID is a DNS name: lower-case letters, digits, '-' and '.', at most 127 characters",
            "fieldPath": ".value",
        }],
    });
    let columns = json!([
        {"name": "Claim", "type": "string", "jsonPath": ".name"},
        {"name": "Value", "type": "string", "jsonPath": ".value"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    definition("ClusterClaim", "clusterclaims", &["claim"], schema, columns, json!({}))
}

/// The definition of `Federation`.
pub fn federation_crd() -> Value {
    let member = json!({
        "type": "object", "required": ["clusterID"],
        "properties": {
            "clusterID": {
                "type": "object", "required": ["value"],
                "description": "The value of the member's ID claim.",
                "properties": {
                    "name": {"type": "string", "maxLength": 253},
                    "value": {"type": "string", "minLength": 1, "maxLength": 127, "pattern": ID_PATTERN},
                },
            },
            "server": {
                "type": "string", "maxLength": 2048,
                "description": "The URL of the member's API server; may be left out where the Secret has the key server or a kubeconfig, and is the same as there.",
                "x-kubernetes-validations": [{
                    "rule": "self == '' || self.startsWith('https://')",
                    "message": "the server is a URL such as https://10.0.0.1:6443",
                }],
            },
            "secret": {
                "type": "string", "maxLength": 253,
                "description": "The Secret beside this object with the label koinon.dev/member-secret=true and the keys token and ca.crt, or kubeconfig.",
            },
        },
    });
    let member_status = json!({
        "type": "object", "required": ["clusterID", "status"],
        "properties": {
            "clusterID": {"type": "string"},
            "status": {"type": "string", "enum": ["Joining", "Reachable", "Unreachable"]},
            "error": {"type": "string", "description": "What is wrong, if anything is."},
            "isLeader": {"type": "boolean", "description": "Whether this cluster leads the member."},
            "leader": {"type": "string", "description": "The cluster that leads the member."},
            "since": {"type": "string", "format": "date-time", "description": "Since when the status is what it is."},
            "lastSeen": {"type": "string", "format": "date-time", "description": "When it was seen for the last time, of a member that is unreachable."},
            "uid": {"type": "string", "description": "The UID of the member's kube-system namespace: another cluster at the same address is not the member."},
            "version": {"type": "string", "description": "The Kubernetes version of the member's API server."},
            "server": {"type": "string", "description": "The address at which the member answered: where its Secret names none, its token is sent to no other."},
            "warnings": {
                "type": "array", "items": {"type": "string"},
                "description": "What is not as safe as it should be about the way to the member.",
            },
        },
    });
    let schema = json!({
        "type": "object",
        "description": "The members of a federation. There is one in a cluster.",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "clusterSet": {
                        "type": "object", "required": ["value"],
                        "description": "The set of clusters that this federation is.",
                        "properties": {
                            "name": {"type": "string", "maxLength": 253},
                            "value": {"type": "string", "minLength": 1, "maxLength": 1024},
                        },
                    },
                    "members": {
                        "type": "array", "maxItems": MOST_MEMBERS, "items": member,
                        "description": "The members. In a cluster that leads nobody there need be none.",
                    },
                },
                // To compare each with each would cost too much; a map by ID is as large as the list.
                "x-kubernetes-validations": [{
                    "rule": "!has(self.members) || self.members.transformMapEntry(i, m, {m.clusterID.value: i}).size() == self.members.size()",
                    "message": "each clusterID may be there once",
                }],
            },
            "status": {
                "type": "object",
                "properties": {
                    "observedGeneration": {"type": "integer", "format": "int64"},
                    "clusterID": {"type": "string", "description": "The ID of this cluster, in force for as long as this object is there."},
                    "ignored": {"type": "string", "description": "Why this object is not followed, if it is not."},
                    "reachable": {"type": "string", "description": "How many members are reachable, of how many."},
                    "problems": {
                        "type": "array", "items": {"type": "string"},
                        "description": "What is wrong with this object or the claims, for as long as it is; the rest is followed.",
                    },
                    "memberStatus": {
                        "type": "array", "items": member_status,
                        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["clusterID"],
                    },
                },
            },
        },
    });
    let columns = json!([
        {"name": "ClusterSet", "type": "string", "jsonPath": ".spec.clusterSet.value"},
        {"name": "Reachable", "type": "string", "jsonPath": ".status.reachable"},
        {"name": "ID", "type": "string", "jsonPath": ".status.clusterID", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    definition("Federation", "federations", &["fed"], schema, columns, json!({"status": {}}))
}

pub(super) fn definition(
    kind: &str,
    plural: &str,
    short: &[&str],
    schema: Value,
    columns: Value,
    subresources: Value,
) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}"), "labels": {"app.kubernetes.io/managed-by": "koinon"}},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind, "listKind": format!("{kind}List"), "plural": plural,
                "singular": kind.to_lowercase(), "shortNames": short,
            },
            "scope": "Namespaced",
            "versions": [{
                "name": VERSION, "served": true, "storage": true, "subresources": subresources,
                "schema": {"openAPIV3Schema": schema}, "additionalPrinterColumns": columns,
            }],
        },
    })
}
