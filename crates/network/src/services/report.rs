//! What can be said of a federated Service from what is in one cluster: who joins there, what is used there, and conflicts.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use koinon_api::names::network::{FEDERATED_SERVICE, SOURCE_CLUSTER, SOURCE_SERVICE};
use koinon_api::network::NativeService;
use koinon_control::Key;
use koinon_fleet::Record as _;
use kube::ResourceExt as _;
use serde::Serialize;

use super::model::{Joining, Kind, Reach};
use super::plan::CONFLICTS;
use super::records::{Occupant, SERVICE_NAME};

/// A federated Service as one cluster sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// Where it is reached in this cluster.
    pub addresses: Vec<String>,
    pub ports: Vec<String>,
    /// What is used here: endpoints by cluster and object.
    pub members: BTreeMap<String, BTreeMap<String, Endpoints>>,
    /// The endpoints of the member that has its very name and stands in for it here; then no other is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stand_in: Option<Endpoints>,
    /// What its members do not agree on.
    pub conflicts: Vec<String>,
}

/// How many endpoints there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Endpoints {
    pub all: usize,
    pub ready: usize,
}

impl Endpoints {
    /// Those of all these slices.
    pub fn of<'a>(slices: impl IntoIterator<Item = &'a EndpointSlice>) -> Endpoints {
        let mut count = Endpoints::default();
        for endpoint in slices.into_iter().flat_map(|slice| slice.endpoints.iter().flatten()) {
            count.all += 1;
            let ready = endpoint.conditions.as_ref().is_none_or(|one| one.ready != Some(false));
            count.ready += usize::from(ready);
        }
        count
    }

    fn add(&mut self, other: Endpoints) {
        self.all += other.all;
        self.ready += other.ready;
    }
}

/// What a Service is called as a member, if it joins this federated one.
pub fn joins(service: &Service, key: &Key) -> Option<String> {
    match Occupant::fold(service)? {
        Occupant::Member(joining) if joining.joins.contains(key) => {
            Some(format!("{} {}", Kind::Service.as_str(), Key::of(service)))
        }
        _ => None,
    }
}

/// The same of a NativeService, with its endpoints, which it has itself.
pub fn native_joins(native: &NativeService, key: &Key) -> Option<(String, Endpoints)> {
    let joining = Joining::fold(native).filter(|joining| joining.joins.contains(key))?;
    let all = match joining.reach {
        Reach::Native(addresses) => addresses.len(),
        _ => 0,
    };
    let name = format!("{} {}", Kind::NativeService.as_str(), Key::of(native));
    Some((name, Endpoints { all, ready: all }))
}

/// Says what a federated Service is like here, from its object and all EndpointSlices of its namespace; `None` if it is
/// no federated Service, and stands in for none.
pub fn report(service: &Service, slices: &[EndpointSlice]) -> Option<Seen> {
    let stands_in = joins(service, &Key::of(service)).is_some();
    if !stands_in && !service.annotations().contains_key(FEDERATED_SERVICE) {
        return None;
    }
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
        conflicts: conflicts.unwrap_or_default(),
        ..Seen::default()
    };
    let name = service.name_any();
    let of_service = slices.iter().filter(|slice| {
        slice.namespace() == service.namespace() && slice.labels().get(SERVICE_NAME) == Some(&name)
    });
    if stands_in {
        seen.stand_in = Some(Endpoints::of(of_service));
        return Some(seen);
    }
    for slice in of_service {
        let Some(cluster) = slice.annotations().get(SOURCE_CLUSTER) else { continue };
        let member = slice.annotations().get(SOURCE_SERVICE).cloned().unwrap_or_default();
        let count = seen.members.entry(cluster.clone()).or_default().entry(member).or_default();
        count.add(Endpoints::of([slice]));
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

    #[test]
    fn a_member_of_the_very_name_is_reported_as_what_it_stands_in_for() {
        let joining = |name: &str| -> Service {
            serde_json::from_value(json!({
                "metadata": {"namespace": "shop", "name": name, "annotations": {
                    "svc.federated.antreaplus.vmware-tanzu.com": "web",
                }},
                "spec": {"clusterIPs": ["10.96.0.5"], "ports": [{"port": 80}]},
            }))
            .unwrap()
        };
        let slice: EndpointSlice = serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": "x", "labels": {SERVICE_NAME: "web"}}, "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"], "conditions": {"ready": false}}],
        }))
        .unwrap();
        let seen = report(&joining("web"), &[slice]).unwrap();
        assert_eq!(seen.stand_in, Some(Endpoints { all: 2, ready: 1 }));
        assert_eq!((seen.addresses, seen.members.len()), (vec!["10.96.0.5".to_owned()], 0));
        let web = Key::new("shop", "web");
        assert_eq!(joins(&joining("other"), &web), Some("Service shop/other".to_owned()));
        assert_eq!(report(&joining("other"), &[]), None, "it joins, but under another name");
        let native: NativeService = serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": "db", "annotations": {
                "svc.federated.antreaplus.vmware-tanzu.com": "web",
            }},
            "spec": {"ports": [{"port": 80}]},
            "status": {"networkInterfaces": [{"ips": [{"addressType": "ExternalIP", "address": "198.51.100.3"}]}]},
        }))
        .unwrap();
        let found = native_joins(&native, &web);
        assert_eq!(found, Some(("NativeService shop/db".to_owned(), Endpoints { all: 1, ready: 1 })));
    }
}
