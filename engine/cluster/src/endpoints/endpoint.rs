//! What a pod contributes to the slices of a Service, and which slices a Service has at all.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{
    Container, Node, ObjectReference, Pod, PodCondition, Service, ServicePort, ServiceSpec,
};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

const ZONE: &str = "topology.kubernetes.io/zone";

/// A family of addresses. A slice has addresses of one family only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    /// As slices and Services spell it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Family> {
        [Family::V4, Family::V6].into_iter().find(|family| family.as_str() == text)
    }

    pub(super) fn of(address: &IpAddr) -> Family {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// The family of an address as it is written, if it is one.
    pub(super) fn of_text(address: &str) -> Option<Family> {
        address.parse::<IpAddr>().ok().map(|address| Family::of(&address.to_canonical()))
    }
}

/// The families that a Service has slices for. One that does not say gets what its address tells, or both.
pub(super) fn families(service: &Service) -> BTreeSet<Family> {
    let Some(spec) = &service.spec else { return BTreeSet::new() };
    let said: BTreeSet<Family> =
        spec.ip_families.iter().flatten().filter_map(|family| Family::parse(family)).collect();
    if !said.is_empty() {
        return said;
    }
    match spec.cluster_ip.as_deref().and_then(|address| address.parse::<IpAddr>().ok()) {
        Some(address) => BTreeSet::from([Family::of(&address)]),
        None => BTreeSet::from([Family::V4, Family::V6]),
    }
}

/// The family that a Service names first; none if neither its families nor its address tell.
pub(super) fn first_family(service: &Service) -> Option<Family> {
    let spec = service.spec.as_ref()?;
    let said = spec.ip_families.iter().flatten().find_map(|family| Family::parse(family));
    said.or_else(|| Family::of_text(spec.cluster_ip.as_deref()?))
}

/// Whether no address stands for the Service as a whole.
pub(super) fn is_headless(service: &Service) -> bool {
    let address = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref());
    matches!(address, None | Some("" | "None"))
}

/// Whether a pod can be reached at all: it has an address and has not ended for good.
pub(super) fn is_reachable(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let ended = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    !ended && !addresses(pod).is_empty()
}

/// A pod's addresses as they are written, the first one first.
pub(super) fn addresses(pod: &Pod) -> Vec<&str> {
    let Some(status) = &pod.status else { return Vec::new() };
    let all: Vec<&str> = status.pod_ips.iter().flatten().map(|address| address.ip.as_str()).collect();
    if !all.is_empty() {
        return all;
    }
    status.pod_ip.as_deref().filter(|address| !address.is_empty()).into_iter().collect()
}

/// The condition that says whether a pod is ready.
pub(super) fn readiness(pod: &Pod) -> Option<&PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "Ready")
}

pub(super) fn is_ready(pod: &Pod) -> bool {
    readiness(pod).is_some_and(|condition| condition.status == "True")
}

/// The zone of a node, if it has one.
pub(super) fn zone(node: &Node) -> Option<String> {
    node.metadata.labels.as_ref()?.get(ZONE).filter(|zone| !zone.is_empty()).cloned()
}

/// A pod in the slices of one family, unless it has no address there.
pub(super) fn endpoint(service: &Service, pod: &Pod, zone: Option<&str>, family: Family) -> Option<Endpoint> {
    let mut own: Vec<String> = addresses(pod)
        .into_iter()
        .filter_map(|address| address.parse::<IpAddr>().ok())
        .map(|address| address.to_canonical())
        .filter(|address| Family::of(address) == family)
        .map(|address| address.to_string())
        .collect();
    if own.is_empty() {
        return None;
    }
    own.sort_unstable();
    let serving = is_ready(pod);
    let terminating = pod.metadata.deletion_timestamp.is_some();
    let ready = publishes_all(service) || (serving && !terminating);
    let metadata = &pod.metadata;
    Some(Endpoint {
        addresses: own,
        conditions: Some(EndpointConditions {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hostname: hostname(service, pod),
        node_name: node_name(pod).map(str::to_owned),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".into()),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            ..ObjectReference::default()
        }),
        zone: zone.map(str::to_owned),
        ..Endpoint::default()
    })
}

pub(super) fn node_name(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|node| !node.is_empty())
}

/// Whether addresses are published whatever state their pods are in.
pub(super) fn publishes_all(service: &Service) -> bool {
    service.spec.as_ref().is_some_and(|spec| spec.publish_not_ready_addresses == Some(true))
}

/// A pod has a name of its own below the Service that it names as its subdomain.
pub(super) fn hostname(service: &Service, pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let hostname = spec.hostname.as_ref().filter(|hostname| !hostname.is_empty())?;
    let below = spec.subdomain.as_deref().unwrap_or_default()
        == service.metadata.name.as_deref().unwrap_or_default()
        && service.metadata.namespace == pod.metadata.namespace;
    below.then(|| hostname.clone())
}

/// The ports at which a pod serves a Service. A port that it does not have is left out.
pub(super) fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let wanted = service.spec.iter().flat_map(|spec: &ServiceSpec| spec.ports.iter().flatten());
    let mut ports: Vec<EndpointPort> = wanted
        .filter_map(|wanted| {
            Some(EndpointPort {
                name: Some(wanted.name.clone().unwrap_or_default()),
                port: Some(target_port(pod, wanted)?),
                protocol: Some(protocol(&wanted.protocol).to_owned()),
                app_protocol: wanted.app_protocol.clone(),
            })
        })
        .collect();
    ports.sort_by(|one, other| PortMap::entry(one).cmp(&PortMap::entry(other)));
    ports
}

/// The number behind a port of a Service; a name means what each pod calls so, sidecars included.
pub(super) fn target_port(pod: &Pod, wanted: &ServicePort) -> Option<i32> {
    let name = match &wanted.target_port {
        Some(IntOrString::Int(number)) => return Some(*number),
        Some(IntOrString::String(name)) => name,
        None => return Some(wanted.port),
    };
    let spec = pod.spec.as_ref()?;
    let is_sidecar = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
    let sidecars = spec.init_containers.iter().flatten().filter(is_sidecar);
    let mut ports = spec.containers.iter().chain(sidecars).flat_map(|one| one.ports.iter().flatten());
    let found = ports.find(|port| {
        port.name.as_ref() == Some(name) && protocol(&port.protocol) == protocol(&wanted.protocol)
    })?;
    Some(found.container_port)
}

fn protocol(protocol: &Option<String>) -> &str {
    protocol.as_deref().unwrap_or("TCP")
}

/// The ports of a slice, in an order that does not matter: slices with the same ones are filled together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PortMap(Vec<PortEntry>);

type PortEntry = (Option<String>, Option<String>, Option<i32>, Option<String>);

impl PortMap {
    pub(super) fn of(ports: &[EndpointPort]) -> PortMap {
        let mut entries: Vec<PortEntry> = ports.iter().map(PortMap::entry).collect();
        entries.sort();
        PortMap(entries)
    }

    fn entry(port: &EndpointPort) -> PortEntry {
        (port.name.clone(), port.protocol.clone(), port.port, port.app_protocol.clone())
    }
}

/// What makes two endpoints the same one. Everything else about it can change in place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    namespace: Option<String>,
    name: Option<String>,
    hostname: Option<String>,
    addresses: Vec<String>,
}

impl Identity {
    pub(super) fn of(endpoint: &Endpoint) -> Identity {
        let target = endpoint.target_ref.as_ref();
        let mut addresses = endpoint.addresses.clone();
        addresses.sort_unstable();
        Identity {
            namespace: target.and_then(|target| target.namespace.clone()),
            name: target.and_then(|target| target.name.clone()),
            hostname: endpoint.hostname.clone().filter(|hostname| !hostname.is_empty()),
            addresses,
        }
    }
}

/// Whether two endpoints of the same identity say the same; hints are decided apart from that.
pub(super) fn says_the_same(one: &Endpoint, other: &Endpoint) -> bool {
    let target = |endpoint: &Endpoint| {
        let target = endpoint.target_ref.clone();
        target.map(|target| ObjectReference { resource_version: None, ..target })
    };
    let conditions = |endpoint: &Endpoint| {
        endpoint.conditions.clone().map(|said| (said.ready, said.serving, said.terminating))
    };
    one.node_name == other.node_name
        && one.zone == other.zone
        && conditions(one) == conditions(other)
        && target(one) == target(other)
}
