//! Which slices Endpoints that a user wrote are mirrored to: one for each family and set of ports.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointSubset, Endpoints, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt as _;

use super::super::classic::subsets::repack;
use super::super::endpoint::{Family, Identity, PortMap, says_the_same};
use super::super::plan::{MANAGED_BY, Plan, SERVICE_NAME, TRIGGER_TIME};

pub(super) const CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// So many addresses of a subset are mirrored.
pub(super) const CAPACITY: usize = 1000;

/// What to write, and what could not be mirrored.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Mirror {
    pub(super) plan: Plan,
    pub(super) invalid: usize,
    /// Those that are too many.
    pub(super) skipped: usize,
}

/// Whether Endpoints are there to be mirrored: not those that say no, nor those that are a lock.
pub(super) fn is_mirrored(endpoints: &Endpoints, service: Option<&Service>) -> bool {
    let skips = endpoints.labels().get(SKIP_MIRROR).is_some_and(|value| value == "true");
    let selects = |service: &Service| service.spec.as_ref().is_some_and(|spec| spec.selector.is_some());
    !skips
        && !endpoints.annotations().contains_key(LEADER)
        && service.is_some_and(|service| !selects(service))
}

type Group = (Family, PortMap);

/// The slices that mirror these Endpoints, from those that did so before.
pub(super) fn plan(endpoints: &Endpoints, existing: &[Arc<EndpointSlice>]) -> Mirror {
    let mut mirror = Mirror::default();
    let mut wanted: BTreeMap<Group, (Vec<EndpointPort>, BTreeMap<Identity, Endpoint>)> = BTreeMap::new();
    for subset in repack(endpoints.subsets.as_deref().unwrap_or_default()) {
        let ports = ports(&subset);
        let mut added = 0;
        let ready = subset.addresses.iter().flatten().map(|address| (address, true));
        let not_ready = subset.not_ready_addresses.iter().flatten().map(|address| (address, false));
        for (address, ready) in ready.chain(not_ready) {
            if added >= CAPACITY {
                mirror.skipped += 1;
                continue;
            }
            let Some((family, endpoint)) = endpoint(address, ready) else {
                mirror.invalid += 1;
                continue;
            };
            added += 1;
            let (_, group) = wanted
                .entry((family, PortMap::of(&ports)))
                .or_insert_with(|| (ports.clone(), BTreeMap::new()));
            group.insert(Identity::of(&endpoint), endpoint);
        }
    }
    let mut groups: BTreeMap<Group, Vec<&Arc<EndpointSlice>>> = BTreeMap::new();
    let mut unused: Vec<&Arc<EndpointSlice>> = Vec::new();
    for slice in existing {
        let group = Family::parse(&slice.address_type)
            .map(|family| (family, PortMap::of(slice.ports.as_deref().unwrap_or_default())));
        match group.filter(|group| wanted.contains_key(group)) {
            Some(group) => groups.entry(group).or_default().push(slice),
            None => unused.push(slice),
        }
    }
    let mut create = Vec::new();
    for ((family, ports_key), (ports, desired)) in wanted {
        let own = groups.remove(&(family, ports_key)).unwrap_or_default();
        let mut own = own.into_iter();
        let kept = own.next();
        unused.extend(own);
        let mut new = new_slice(endpoints, family, ports);
        match kept {
            Some(slice) if is_as_wanted(slice, &new, &desired) => {}
            Some(slice) => {
                new.endpoints = Some(desired.into_values().collect());
                mirror.plan.update.push(in_place_of(slice, new));
            }
            None => {
                new.endpoints = Some(desired.into_values().collect());
                create.push(new);
            }
        }
    }
    // A slice that would go takes the place of one of its family that would come: one write instead of two.
    for new in create {
        match unused.iter().position(|slice| slice.address_type == new.address_type) {
            Some(index) => mirror.plan.update.push(in_place_of(unused.remove(index), new)),
            None if endpoints.metadata.deletion_timestamp.is_none() => mirror.plan.create.push(new),
            None => {}
        }
    }
    mirror.plan.delete = unused.into_iter().cloned().collect();
    mirror
}

/// Whether a slice says what it should; a new slice of the group tells what labels and owner that is.
fn is_as_wanted(slice: &EndpointSlice, new: &EndpointSlice, desired: &BTreeMap<Identity, Endpoint>) -> bool {
    let has = slice.endpoints.as_deref().unwrap_or_default();
    has.len() == desired.len()
        && has
            .iter()
            .all(|one| desired.get(&Identity::of(one)).is_some_and(|wanted| says_the_same(wanted, one)))
        && slice.labels() == new.labels()
        && slice.annotations() == new.annotations()
        && slice.owner_references() == new.owner_references()
}

fn in_place_of(old: &EndpointSlice, new: EndpointSlice) -> EndpointSlice {
    let metadata = ObjectMeta {
        name: old.metadata.name.clone(),
        resource_version: old.metadata.resource_version.clone(),
        generate_name: None,
        ..new.metadata
    };
    EndpointSlice { metadata, ..new }
}

fn new_slice(endpoints: &Endpoints, family: Family, ports: Vec<EndpointPort>) -> EndpointSlice {
    let mut labels = endpoints.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_NAME.into(), endpoints.name_any());
    labels.insert(MANAGED_BY.into(), CONTROLLER.into());
    let mut annotations = endpoints.metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| key != TRIGGER_TIME && key != LAST_APPLIED);
    let owner = OwnerReference {
        api_version: "v1".into(),
        kind: "Endpoints".into(),
        name: endpoints.name_any(),
        uid: endpoints.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let metadata = ObjectMeta {
        generate_name: Some(format!("{}-", endpoints.name_any())),
        namespace: endpoints.namespace(),
        labels: Some(labels),
        annotations: (!annotations.is_empty()).then_some(annotations),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    EndpointSlice { address_type: family.as_str().into(), endpoints: None, ports: Some(ports), metadata }
}

fn ports(subset: &EndpointSubset) -> Vec<EndpointPort> {
    let port = |port: &k8s_openapi::api::core::v1::EndpointPort| EndpointPort {
        name: Some(port.name.clone().unwrap_or_default()),
        port: Some(port.port),
        protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".into())),
        app_protocol: port.app_protocol.clone(),
    };
    subset.ports.iter().flatten().map(port).collect()
}

/// An address as slices have it, unless it is none.
fn endpoint(address: &EndpointAddress, ready: bool) -> Option<(Family, Endpoint)> {
    let ip = address.ip.parse::<IpAddr>().ok()?.to_canonical();
    let endpoint = Endpoint {
        addresses: vec![ip.to_string()],
        conditions: Some(EndpointConditions { ready: Some(ready), ..EndpointConditions::default() }),
        hostname: address.hostname.clone().filter(|hostname| !hostname.is_empty()),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    };
    Some((Family::of(&ip), endpoint))
}
