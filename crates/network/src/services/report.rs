//! What can be said of a federated Service from what is in one cluster: its members, their endpoints, and conflicts.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use koinon_api::names::network::{FEDERATED_SERVICE, SOURCE_CLUSTER, SOURCE_SERVICE};
use kube::ResourceExt as _;
use serde::Serialize;

use super::plan::CONFLICTS;
use super::records::SERVICE_NAME;

/// A federated Service as one cluster sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// Where it is reached in this cluster.
    pub addresses: Vec<String>,
    pub ports: Vec<String>,
    /// The members that are used here, by cluster and object.
    pub members: BTreeMap<String, BTreeMap<String, Endpoints>>,
    /// What its members do not agree on.
    pub conflicts: Vec<String>,
}

/// How many endpoints there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Endpoints {
    pub all: usize,
    pub ready: usize,
}

/// Says what a federated Service is like here, from its object and all EndpointSlices of its namespace; `None` if it is
/// no federated Service.
pub fn report(service: &Service, slices: &[EndpointSlice]) -> Option<Seen> {
    service.annotations().get(FEDERATED_SERVICE)?;
    let spec = service.spec.clone().unwrap_or_default();
    let ports = spec.ports.iter().flatten().map(|port| {
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        match port.name.as_deref().filter(|name| !name.is_empty()) {
            Some(name) => format!("{name} {}/{protocol}", port.port),
            None => format!("{}/{protocol}", port.port),
        }
    });
    let conflicts = service.annotations().get(CONFLICTS).and_then(|text| serde_json::from_str(text).ok());
    let mut seen = Seen {
        addresses: spec.cluster_ips.clone().unwrap_or_default(),
        ports: ports.collect(),
        members: BTreeMap::new(),
        conflicts: conflicts.unwrap_or_default(),
    };
    let name = service.name_any();
    let of_service = slices.iter().filter(|slice| {
        slice.namespace() == service.namespace() && slice.labels().get(SERVICE_NAME) == Some(&name)
    });
    for slice in of_service {
        let Some(cluster) = slice.annotations().get(SOURCE_CLUSTER) else { continue };
        let member = slice.annotations().get(SOURCE_SERVICE).cloned().unwrap_or_default();
        let count = seen.members.entry(cluster.clone()).or_default().entry(member).or_default();
        for endpoint in slice.endpoints.iter().flatten() {
            count.all += 1;
            let ready = endpoint.conditions.as_ref().is_none_or(|one| one.ready != Some(false));
            count.ready += usize::from(ready);
        }
    }
    Some(seen)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_says_who_is_used_and_what_is_disputed() {
        let service: Service = serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": "foo", "annotations": {
                FEDERATED_SERVICE: "true", CONFLICTS: "[\"port http\"]",
            }},
            "spec": {"clusterIPs": ["10.96.0.4"], "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]},
        }))
        .unwrap();
        let slice = |service: &str, ready: bool| -> EndpointSlice {
            serde_json::from_value(json!({
                "metadata": {
                    "namespace": "ns", "name": "x", "labels": {SERVICE_NAME: service},
                    "annotations": {SOURCE_CLUSTER: "a", SOURCE_SERVICE: "Service x/one"},
                },
                "addressType": "IPv4",
                "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}],
            }))
            .unwrap()
        };
        let seen = report(&service, &[slice("foo", true), slice("foo", false), slice("bar", true)]).unwrap();
        assert_eq!(seen.members["a"]["Service x/one"], Endpoints { all: 2, ready: 1 });
        assert_eq!(
            (seen.conflicts, seen.ports),
            (vec!["port http".to_owned()], vec!["http 80/TCP".to_owned()])
        );
        assert_eq!(report(&Service::default(), &[]), None);
    }
}
