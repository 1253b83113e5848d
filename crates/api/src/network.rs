//! What federated Services can stand for besides Services: a cloud's own services, and virtual machines.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

use crate::membership::object::namespaced;
use crate::names::network::{NATIVE_SERVICE_GROUP, VIRTUAL_MACHINE_GROUP};

/// A service that a cloud runs itself, such as a database.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct NativeService {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: NativeServiceSpec,
    #[serde(default)]
    pub status: Option<NativeServiceStatus>,
}

/// What a cloud's service offers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NativeServiceSpec {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<NativePort>,
}

/// One port of a cloud's service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NativePort {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub port: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
}

/// Where a cloud's service is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NativeServiceStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network_interfaces: Vec<NetworkInterface>,
}

/// One interface of a cloud's service or virtual machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkInterface {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<InterfaceAddress>,
}

/// An address of an interface, with `InternalIP` or `ExternalIP` as its type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InterfaceAddress {
    #[serde(default)]
    pub address_type: String,
    #[serde(default)]
    pub address: String,
}

/// A virtual machine of a cloud, as nephe shows it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct VirtualMachine {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: VirtualMachineSpec,
    #[serde(default)]
    pub status: Option<VirtualMachineStatus>,
}

/// What was asked of a virtual machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VirtualMachineSpec {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

/// How a virtual machine is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineStatus {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network_interfaces: Vec<NetworkInterface>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_id: Option<String>,
}

namespaced!(NativeService, "nativeservices", NATIVE_SERVICE_GROUP, [metadata, spec], [status]);
namespaced!(VirtualMachine, "virtualmachines", VIRTUAL_MACHINE_GROUP, [metadata, spec], [status]);

/// The definition of `NativeService`.
pub fn native_service_crd() -> Value {
    let schema = json!({
        "type": "object",
        "description": "A service that a cloud runs itself; annotated like a Service, it joins federated Services.",
        "properties": {
            "spec": {"type": "object", "properties": {"ports": {
                "type": "array", "maxItems": 100,
                "items": {"type": "object", "required": ["port"], "properties": {
                    "name": {"type": "string", "maxLength": 63},
                    "port": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535},
                    "protocol": {"type": "string", "enum": ["TCP", "UDP", "SCTP"], "default": "TCP"},
                }},
            }}},
            "status": {"type": "object", "properties": {"networkInterfaces": interfaces()}},
        },
    });
    definition(NATIVE_SERVICE_GROUP, "NativeService", "nativeservices", schema)
}

/// A definition of `VirtualMachine` for clusters that have no nephe, which serves the kind itself.
pub fn virtual_machine_crd() -> Value {
    let tags = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let schema = json!({
        "type": "object",
        "description": "A virtual machine of a cloud.",
        "properties": {
            "spec": {"type": "object", "properties": {"tags": tags}},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                "tags": tags,
                "networkInterfaces": interfaces(),
                "state": {"type": "string"},
                "cloudId": {"type": "string"},
            }},
        },
    });
    definition(VIRTUAL_MACHINE_GROUP, "VirtualMachine", "virtualmachines", schema)
}

fn interfaces() -> Value {
    json!({"type": "array", "items": {"type": "object", "properties": {
        "name": {"type": "string"},
        "mac": {"type": "string"},
        "ips": {"type": "array", "items": {"type": "object", "required": ["address"], "properties": {
            "addressType": {"type": "string", "enum": ["InternalIP", "ExternalIP"]},
            "address": {"type": "string"},
        }}},
    }}})
}

fn definition(group: &str, kind: &str, plural: &str, schema: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}},
            }],
        },
    })
}
