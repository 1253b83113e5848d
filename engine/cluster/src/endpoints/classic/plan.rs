//! What the Endpoints of a Service should say.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, ObjectReference, Pod, Service,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;

use super::super::endpoint::{self, Family};
use super::super::plan::{HEADLESS, stamp};
use super::subsets::repack;

pub(super) const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
pub(super) const CONTROLLER: &str = "endpoint-controller";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// So many addresses Endpoints have at most: all of them travel with every change.
const CAPACITY: usize = 1000;

/// Everything that the Endpoints of one Service follow from.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) service: Arc<Service>,
    /// The pods that the Service selects.
    pub(super) pods: Vec<Arc<Pod>>,
    pub(super) current: Option<Arc<Endpoints>>,
    /// When the change happened that the Endpoints follow now.
    pub(super) trigger: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Plan {
    Nothing,
    Create(Box<Endpoints>),
    /// With the version that it replaces.
    Update(Box<Endpoints>),
}

pub(super) fn plan(look: &Look) -> Plan {
    let mut subsets = subsets(&look.service, &look.pods);
    let over_capacity = truncate(&mut subsets);
    let wanted_labels = labels(&look.service);
    let Some(current) = &look.current else {
        let mut metadata = ObjectMeta {
            name: look.service.metadata.name.clone(),
            namespace: look.service.metadata.namespace.clone(),
            ..ObjectMeta::default()
        };
        finish(&mut metadata, wanted_labels, over_capacity, look.trigger);
        return Plan::Create(Box::new(Endpoints { metadata, subsets: some(subsets) }));
    };
    let said = current.annotations().contains_key(OVER_CAPACITY);
    let same = same_subsets(current.subsets.as_deref().unwrap_or_default(), &subsets);
    let plain = |labels: &BTreeMap<String, String>| -> BTreeMap<String, String> {
        let reserved = |key: &str| [MANAGED_BY, HEADLESS].contains(&key);
        labels.iter().filter(|(key, _)| !reserved(key)).map(|(a, b)| (a.clone(), b.clone())).collect()
    };
    if same && said == over_capacity && plain(current.labels()) == plain(&wanted_labels) {
        return Plan::Nothing;
    }
    let mut metadata = current.metadata.clone();
    finish(&mut metadata, wanted_labels, over_capacity, look.trigger);
    Plan::Update(Box::new(Endpoints { metadata, subsets: some(subsets) }))
}

fn some(subsets: Vec<EndpointSubset>) -> Option<Vec<EndpointSubset>> {
    (!subsets.is_empty()).then_some(subsets)
}

fn finish(
    metadata: &mut ObjectMeta,
    labels: BTreeMap<String, String>,
    over_capacity: bool,
    trigger: Option<Timestamp>,
) {
    metadata.labels = Some(labels);
    stamp(metadata, trigger);
    if over_capacity {
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(OVER_CAPACITY.into(), "truncated".into());
    } else if let Some(annotations) = &mut metadata.annotations {
        annotations.remove(OVER_CAPACITY);
    }
}

fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS);
    if endpoint::is_headless(service) {
        labels.insert(HEADLESS.into(), String::new());
    }
    labels.insert(MANAGED_BY.into(), CONTROLLER.into());
    labels
}

fn subsets(service: &Service, pods: &[Arc<Pod>]) -> Vec<EndpointSubset> {
    let all = endpoint::publishes_all(service);
    let mut subsets = Vec::new();
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    for pod in pods {
        let leaves = pod.metadata.deletion_timestamp.is_some();
        if !endpoint::is_reachable(pod) || (leaves && !all) {
            continue;
        }
        let Some(address) = address(service, pod) else { continue };
        let ready = all || endpoint::is_ready(pod);
        let mut add = |ports: Option<Vec<EndpointPort>>| {
            let (addresses, not_ready_addresses) =
                if ready { (Some(vec![address.clone()]), None) } else { (None, Some(vec![address.clone()])) };
            subsets.push(EndpointSubset { addresses, not_ready_addresses, ports });
        };
        // A headless Service need not have ports.
        if ports.is_empty() && endpoint::is_headless(service) {
            add(None);
        }
        for wanted in ports {
            let Some(port) = endpoint::target_port(pod, wanted) else { continue };
            add(Some(vec![EndpointPort {
                name: wanted.name.clone(),
                port,
                protocol: wanted.protocol.clone(),
                app_protocol: wanted.app_protocol.clone(),
            }]));
        }
    }
    repack(&subsets)
}

/// A pod's address in the one family that Endpoints have: the first of the Service, or the pod's own.
fn address(service: &Service, pod: &Pod) -> Option<EndpointAddress> {
    let own = endpoint::addresses(pod);
    let family = endpoint::first_family(service).or_else(|| Family::of_text(own.first()?));
    let ip = own.into_iter().find(|ip| Family::of_text(ip) == family)?;
    Some(EndpointAddress {
        ip: ip.to_owned(),
        hostname: endpoint::hostname(service, pod),
        node_name: endpoint::node_name(pod).map(str::to_owned),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".into()),
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
            ..ObjectReference::default()
        }),
    })
}

/// Leaves out what is too much, addresses that are not ready first, from each subset in proportion. Whether any was.
fn truncate(subsets: &mut [EndpointSubset]) -> bool {
    let count = |list: &Option<Vec<EndpointAddress>>| list.as_ref().map_or(0, Vec::len);
    let ready: usize = subsets.iter().map(|subset| count(&subset.addresses)).sum();
    let not_ready: usize = subsets.iter().map(|subset| count(&subset.not_ready_addresses)).sum();
    if ready + not_ready <= CAPACITY {
        return false;
    }
    let too_many_ready = ready > CAPACITY;
    let (room, total) = if too_many_ready { (CAPACITY, ready) } else { (CAPACITY - ready, not_ready) };
    let mut left = room;
    for subset in subsets {
        if too_many_ready {
            subset.not_ready_addresses = None;
        }
        let list = if too_many_ready { &mut subset.addresses } else { &mut subset.not_ready_addresses };
        let share = (count(list) * room).div_ceil(total).min(left);
        if let Some(addresses) = list {
            addresses.truncate(share);
            left -= addresses.len();
        }
        if list.as_ref().is_some_and(Vec::is_empty) {
            *list = None;
        }
    }
    true
}

/// Whether what is there says the same, however it was packed.
fn same_subsets(current: &[EndpointSubset], wanted: &[EndpointSubset]) -> bool {
    let mut current = repack(current);
    for subset in &mut current {
        for address in subset.addresses.iter_mut().chain(&mut subset.not_ready_addresses).flatten() {
            if let Some(target) = &mut address.target_ref {
                target.resource_version = None;
            }
        }
    }
    current == wanted
}
