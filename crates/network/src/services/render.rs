//! The objects that a plan speaks of, as they are written.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ObjectReference, Service};
use k8s_openapi::api::discovery::v1::{
    self, EndpointConditions, EndpointHints, EndpointPort, EndpointSlice, ForNode, ForZone,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use koinon_api::names::network::{
    FEDERATED_SERVICE, MCS_SERVICE_NAME, MCS_SOURCE_CLUSTER, SERVICE_IMPORT, SOURCE_CLUSTER, SOURCE_SERVICE,
    VM_SERVICE,
};
use koinon_api::names::{MANAGED_BY, MANAGER};
use koinon_control::Key;
use serde_json::{Value, json};

use super::address::is_label_value;
use super::external_dns::Changes;
use super::machines::BETWEEN;
use super::model::{Endpoint, Protocol, Slice, SlicePort};
use super::packing::short;
use super::plan::CONFLICTS;
use super::records::{Manager, SERVICE_NAME, Shape, ShapePort};

/// Who looks after an EndpointSlice, as Kubernetes' own label says.
pub(crate) const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// On generated EndpointSlices: a short name of the cluster they came from, whose ID may not fit into a label.
const FROM: &str = "koinon.dev/source-cluster";

/// A federated Service that is not there yet.
pub fn service(key: &Key, shape: &Shape) -> Service {
    let mut spec = spec(shape);
    spec["ipFamilyPolicy"] = json!("PreferDualStack");
    let mut annotations = json!({FEDERATED_SERVICE: "true"});
    if let Some(conflicts) = &shape.conflicts {
        annotations[CONFLICTS] = json!(conflicts);
    }
    let object = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "namespace": key.namespace, "name": key.name,
            "labels": {MANAGED_BY: MANAGER},
            "annotations": annotations,
        },
        "spec": without_nulls(spec),
    });
    read(object)
}

/// The merge patch that makes a federated Service be so, if it is still this very one. Its addresses stay.
pub fn service_patch(uid: &str, version: &str, shape: &Shape, more: &Changes) -> Value {
    let mut annotations = json!({FEDERATED_SERVICE: "true", CONFLICTS: shape.conflicts});
    for (key, value) in more {
        annotations[key] = json!(value);
    }
    let mut spec = spec(shape);
    for never in
        ["selector", "externalIPs", "externalName", "externalTrafficPolicy", "loadBalancerSourceRanges"]
    {
        spec[never] = Value::Null;
    }
    json!({
        "metadata": {
            "uid": uid, "resourceVersion": version,
            "labels": {MANAGED_BY: MANAGER},
            "annotations": annotations,
        },
        "spec": spec,
    })
}

/// A port as Services and their imports say it.
pub(super) fn service_port(port: &ShapePort) -> Value {
    let mut rendered = json!({"protocol": port.protocol.as_str(), "port": port.port});
    if !port.name.is_empty() {
        rendered["name"] = json!(port.name);
    }
    if let Some(app) = &port.app_protocol {
        rendered["appProtocol"] = json!(app);
    }
    rendered
}

fn spec(shape: &Shape) -> Value {
    let ports: Vec<Value> = shape
        .ports
        .iter()
        .map(|one| {
            let mut rendered = service_port(one);
            rendered["targetPort"] = json!(one.port);
            rendered
        })
        .collect();
    let affinity = shape.affinity.map(|seconds| json!({"clientIP": {"timeoutSeconds": seconds}}));
    json!({
        "type": "ClusterIP",
        "ports": ports,
        "sessionAffinity": if shape.affinity.is_some() { "ClientIP" } else { "None" },
        "sessionAffinityConfig": affinity,
        "internalTrafficPolicy": "Cluster",
        "trafficDistribution": shape.traffic_distribution,
    })
}

/// What is written above is a Service; were it none, the server would refuse the empty one.
fn read(service: Value) -> Service {
    serde_json::from_value(service).unwrap_or_default()
}

fn without_nulls(mut object: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.retain(|_, value| !value.is_null());
    }
    object
}

/// A Service of virtual machines that is not there yet. Without ports it has no address of its own either.
pub fn machine_service(key: &Key, ports: &[(String, Protocol, u16)]) -> Service {
    let mut spec = json!({"type": "ClusterIP", "ports": machine_ports(ports)});
    if ports.is_empty() {
        spec = json!({"type": "ClusterIP", "clusterIP": "None"});
    }
    let object = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "namespace": key.namespace, "name": key.name,
            "labels": {MANAGED_BY: MANAGER},
            "annotations": {VM_SERVICE: "true"},
        },
        "spec": spec,
    });
    read(object)
}

/// The merge patch that says again that a Service is ours, if it is still this very one.
pub fn labelled(uid: &str, version: &str) -> Value {
    json!({"metadata": {"uid": uid, "resourceVersion": version, "labels": {MANAGED_BY: MANAGER}}})
}

/// The merge patch by which such a Service gives up its address, or that it has none, if it is still this very one.
pub fn machine_service_vacated(uid: &str, version: &str) -> Value {
    json!({
        "metadata": {"uid": uid, "resourceVersion": version},
        "spec": {"type": "ExternalName", "externalName": BETWEEN},
    })
}

/// The merge patch that gives it an address, or none, after that.
pub fn machine_service_occupied(uid: &str, version: &str, ports: &[(String, Protocol, u16)]) -> Value {
    let mut patch = machine_service_patch(uid, version, ports);
    patch["spec"]["type"] = json!("ClusterIP");
    patch["spec"]["externalName"] = Value::Null;
    if ports.is_empty() {
        patch["spec"]["clusterIP"] = json!("None");
        patch["spec"]["ports"] = Value::Null;
    }
    patch
}

/// The merge patch that gives such a Service its ports, if it is still this very one.
pub fn machine_service_patch(uid: &str, version: &str, ports: &[(String, Protocol, u16)]) -> Value {
    json!({
        "metadata": {"uid": uid, "resourceVersion": version},
        "spec": {"ports": machine_ports(ports), "selector": null},
    })
}

fn machine_ports(ports: &[(String, Protocol, u16)]) -> Value {
    let ports = ports.iter().map(|(name, protocol, port)| {
        let mut rendered = json!({"protocol": protocol.as_str(), "port": port, "targetPort": port});
        if !name.is_empty() {
            rendered["name"] = json!(name);
        }
        rendered
    });
    ports.collect()
}

/// The Service behind an import, from which it has its addresses.
pub fn derived_service(key: &Key, import: &str, shape: &Shape, headless: bool) -> Service {
    let mut spec = spec(shape);
    spec["ipFamilyPolicy"] = json!("PreferDualStack");
    if headless {
        spec["clusterIP"] = json!("None");
    }
    if shape.ports.is_empty() {
        spec["ports"] = Value::Null;
    }
    read(json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "namespace": key.namespace, "name": key.name,
            "labels": {MANAGED_BY: MANAGER},
            "annotations": {SERVICE_IMPORT: import},
        },
        "spec": without_nulls(spec),
    }))
}

/// The merge patch that makes such a Service be so, if it is still this very one.
pub fn derived_patch(uid: &str, version: &str, shape: &Shape) -> Value {
    let mut spec = spec(shape);
    for never in ["selector", "externalIPs"] {
        spec[never] = Value::Null;
    }
    let metadata = json!({"uid": uid, "resourceVersion": version, "labels": {MANAGED_BY: MANAGER}});
    json!({"metadata": metadata, "spec": spec})
}

/// A generated EndpointSlice; `over` is the one that it replaces.
pub fn slice(
    manager: Manager,
    key: &Key,
    slice: &Slice,
    owner: &str,
    over: Option<(&str, &str)>,
) -> EndpointSlice {
    let mut labels = BTreeMap::from([
        (SERVICE_NAME.to_owned(), key.name.clone()),
        (SLICE_MANAGED_BY.to_owned(), manager.as_str().to_owned()),
        (MANAGED_BY.to_owned(), MANAGER.to_owned()),
        (FROM.to_owned(), short(&[slice.cluster.as_str()])),
    ]);
    if manager == Manager::Imports {
        // The member has the name of the import: exports choose no names.
        let import = slice.service.rsplit('/').next().unwrap_or_default();
        labels.insert(MCS_SERVICE_NAME.to_owned(), import.to_owned());
        if is_label_value(slice.cluster.as_str()) {
            labels.insert(MCS_SOURCE_CLUSTER.to_owned(), slice.cluster.to_string());
        }
    }
    let annotations = BTreeMap::from([
        (SOURCE_CLUSTER.to_owned(), slice.cluster.to_string()),
        (SOURCE_SERVICE.to_owned(), slice.service.clone()),
    ]);
    EndpointSlice {
        metadata: ObjectMeta {
            namespace: Some(key.namespace.clone()),
            name: Some(slice.name.clone()),
            labels: Some(labels),
            annotations: Some(annotations),
            owner_references: Some(vec![owned_by(key, owner)]),
            uid: over.map(|(uid, _)| uid.to_owned()),
            resource_version: over.map(|(_, version)| version.to_owned()),
            ..ObjectMeta::default()
        },
        address_type: slice.family.as_str().to_owned(),
        ports: Some(slice.ports.iter().map(port).collect()),
        endpoints: Some(slice.endpoints.iter().map(endpoint).collect()),
    }
}

/// With this a garbage collector removes what is left when the Service goes.
pub(crate) fn owned_by(key: &Key, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: "v1".into(),
        kind: "Service".into(),
        name: key.name.clone(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

fn port(port: &SlicePort) -> EndpointPort {
    EndpointPort {
        name: Some(port.name.clone()),
        protocol: Some(port.protocol.as_str().to_owned()),
        port: port.port.map(i32::from),
        app_protocol: port.app_protocol.clone(),
    }
}

fn endpoint(endpoint: &Endpoint) -> v1::Endpoint {
    let home = endpoint.home.as_deref();
    let conditions = endpoint.conditions;
    let hints = home.and_then(|home| home.hints.as_ref()).map(|hints| {
        let zones = hints.zones.iter().map(|name| ForZone { name: name.clone() }).collect::<Vec<_>>();
        let nodes = hints.nodes.iter().map(|name| ForNode { name: name.clone() }).collect::<Vec<_>>();
        EndpointHints {
            for_zones: Some(zones).filter(|zones| !zones.is_empty()),
            for_nodes: Some(nodes).filter(|nodes| !nodes.is_empty()),
        }
    });
    v1::Endpoint {
        addresses: vec![endpoint.address.to_string()],
        conditions: Some(EndpointConditions {
            ready: conditions.ready,
            serving: conditions.serving,
            terminating: conditions.terminating,
        }),
        hostname: endpoint.hostname.as_deref().map(str::to_owned),
        zone: endpoint.zone.as_deref().map(str::to_owned),
        node_name: endpoint.node.as_deref().map(str::to_owned),
        target_ref: home.and_then(|home| home.target.as_ref()).map(|target| ObjectReference {
            kind: Some(target.kind.to_string()).filter(|kind| !kind.is_empty()),
            namespace: target.namespace.as_deref().map(str::to_owned),
            name: target.name.as_deref().map(str::to_owned),
            uid: target.uid.as_deref().map(str::to_owned),
            ..ObjectReference::default()
        }),
        hints,
        deprecated_topology: None,
    }
}
