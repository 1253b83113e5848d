//! EndpointSlices: of members' Services, and how those of one's own read back.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::discovery::v1::{self, EndpointSlice};
use koinon_fleet::Record;
use kube::ResourceExt as _;

use crate::services::address::{is_label, is_label_value, is_qualified};
use crate::services::interned::intern;
use crate::services::model::{
    Address, Conditions, Endpoint, Family, Flaw, Hints, Home, Protocol, SlicePort, Target,
};

/// The Service that a slice belongs to, as Kubernetes' own label says.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// More than this no server of ours takes, so whoever says more lies.
const MOST_ENDPOINTS: usize = 1000;
const MOST_PORTS: usize = 100;

/// The endpoints of a Service, or some of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSlice {
    /// The Service's name; it is in the namespace of the slice.
    pub service: String,
    pub family: Family,
    pub ports: Vec<SlicePort>,
    pub endpoints: Vec<Endpoint>,
    /// What was left out, and why.
    pub flaws: Vec<Flaw>,
}

impl Record for SourceSlice {
    type Object = EndpointSlice;

    fn fold(slice: &EndpointSlice) -> Option<SourceSlice> {
        let service = slice.labels().get(SERVICE_NAME)?.clone();
        let family = family(&slice.address_type)?;
        let mut flaws = Vec::new();
        let endpoints = endpoints(family, slice, &mut flaws);
        Some(SourceSlice { service, family, ports: ports(slice), endpoints, flaws })
    }
}

pub(super) fn family(address_type: &str) -> Option<Family> {
    match address_type {
        "IPv4" => Some(Family::V4),
        "IPv6" => Some(Family::V6),
        "FQDN" => Some(Family::Name),
        _ => None,
    }
}

pub(super) fn ports(slice: &EndpointSlice) -> Vec<SlicePort> {
    let mut names = BTreeSet::new();
    let mut ports: Vec<SlicePort> = slice
        .ports
        .iter()
        .flatten()
        .take(MOST_PORTS)
        .filter_map(|port| {
            let name = port.name.clone().unwrap_or_default();
            let number = match port.port {
                Some(number) => Some(u16::try_from(number).ok().filter(|number| *number > 0)?),
                None => None,
            };
            let is_usable = (name.is_empty() || is_label(&name)) && names.insert(name.clone());
            is_usable.then_some(SlicePort {
                name,
                protocol: Protocol::read(port.protocol.as_deref())?,
                port: number,
                app_protocol: port.app_protocol.clone().filter(|app| is_qualified(app)),
            })
        })
        .collect();
    ports.sort();
    ports
}

pub(super) fn endpoints(family: Family, slice: &EndpointSlice, flaws: &mut Vec<Flaw>) -> Vec<Endpoint> {
    let all = slice.endpoints.as_deref().unwrap_or_default();
    let mut refused = 0;
    let mut why = None;
    // Of the very size: there are many of them, and they stay.
    let mut endpoints: Vec<Endpoint> = Vec::with_capacity(all.len().min(MOST_ENDPOINTS));
    for endpoint in all.iter().take(MOST_ENDPOINTS) {
        // Only the first address counts, as for kube-proxy.
        let text = endpoint.addresses.first().map(String::as_str).unwrap_or_default();
        match Address::read(family, text) {
            Ok(address) => endpoints.push(read(address.text, endpoint)),
            Err(error) => {
                refused += 1;
                why.get_or_insert(error);
            }
        }
    }
    endpoints.sort();
    endpoints.dedup();
    if let Some(why) = why {
        let message = format!("{refused} of its endpoints cannot be published: {why}");
        flaws.push(Flaw { reason: "AddressRefused", message });
    }
    if all.len() > MOST_ENDPOINTS {
        let message = format!("an EndpointSlice of it has {} endpoints: {MOST_ENDPOINTS} count", all.len());
        flaws.push(Flaw { reason: "TooManyEndpoints", message });
    }
    endpoints
}

fn read(address: Box<str>, endpoint: &v1::Endpoint) -> Endpoint {
    let conditions = endpoint.conditions.clone().unwrap_or_default();
    let hints = endpoint.hints.clone().unwrap_or_default();
    let target = endpoint.target_ref.as_ref().map(|target| Target {
        kind: intern(target.kind.as_deref().unwrap_or_default()),
        namespace: target.namespace.as_deref().map(intern),
        name: target.name.as_deref().map(Into::into),
        uid: target.uid.as_deref().map(Into::into),
    });
    let hints = Hints {
        zones: hints.for_zones.into_iter().flatten().map(|zone| zone.name).collect(),
        nodes: hints.for_nodes.into_iter().flatten().map(|node| node.name).collect(),
    };
    let hints = (hints != Hints::default()).then(|| Box::new(hints));
    let home = Home { target, hints };
    Endpoint {
        address,
        conditions: Conditions {
            ready: conditions.ready,
            serving: conditions.serving,
            terminating: conditions.terminating,
        },
        hostname: endpoint.hostname.as_deref().filter(|text| is_label(text)).map(Into::into),
        zone: endpoint.zone.as_deref().filter(|text| is_label_value(text)).map(intern),
        node: endpoint.node_name.as_deref().map(intern),
        home: (home != Home::default()).then(|| Arc::new(home)),
    }
}
