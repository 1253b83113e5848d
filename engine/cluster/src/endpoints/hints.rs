//! Hints to whoever routes: which zones and nodes an endpoint should serve.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointHints, EndpointSlice, ForNode, ForZone};

/// These ask for hints by the share of processors in each zone; whoever sets them gets none by distance.
const BY_CAPACITY: [&str; 2] =
    ["service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"];

/// How near traffic should stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preference {
    Anywhere,
    SameZone,
    SameNode,
}

impl Preference {
    pub(super) fn of(service: &Service) -> Preference {
        let annotations = service.metadata.annotations.as_ref();
        let by_capacity = BY_CAPACITY.iter().find_map(|key| annotations?.get(*key));
        if matches!(by_capacity.map(String::as_str), Some("Auto" | "auto")) {
            return Preference::Anywhere;
        }
        match service.spec.as_ref().and_then(|spec| spec.traffic_distribution.as_deref()) {
            Some("PreferClose" | "PreferSameZone") => Preference::SameZone,
            Some("PreferSameNode") => Preference::SameNode,
            _ => Preference::Anywhere,
        }
    }

    /// Whether the hints of a slice are not what they should be.
    pub(super) fn is_missed_by(self, slice: &EndpointSlice) -> bool {
        let mut endpoints = slice.endpoints.iter().flatten().filter(|endpoint| self.concerns(endpoint));
        endpoints.any(|endpoint| !same(endpoint.hints.as_ref(), self.hints(endpoint).as_ref()))
    }

    /// Sets the hints of a slice.
    pub(super) fn apply(self, slice: &mut EndpointSlice) {
        for endpoint in slice.endpoints.iter_mut().flatten().filter(|endpoint| self.concerns(endpoint)) {
            endpoint.hints = self.hints(endpoint);
        }
    }

    /// Nobody is sent to an endpoint that is not ready, so its hints say nothing; stale ones still go.
    fn concerns(self, endpoint: &Endpoint) -> bool {
        let ready = endpoint.conditions.as_ref().is_some_and(|conditions| conditions.ready == Some(true));
        ready || self == Preference::Anywhere
    }

    fn hints(self, endpoint: &Endpoint) -> Option<EndpointHints> {
        let zone = endpoint.zone.clone().filter(|_| self != Preference::Anywhere);
        let node = endpoint.node_name.clone().filter(|_| self == Preference::SameNode);
        if zone.is_none() && node.is_none() {
            return None;
        }
        Some(EndpointHints {
            for_zones: zone.map(|name| vec![ForZone { name }]),
            for_nodes: node.map(|name| vec![ForNode { name }]),
        })
    }
}

/// Equal, where an empty list and none mean the same.
fn same(one: Option<&EndpointHints>, other: Option<&EndpointHints>) -> bool {
    fn zones(hints: Option<&EndpointHints>) -> &[ForZone] {
        hints.and_then(|hints| hints.for_zones.as_deref()).unwrap_or_default()
    }
    fn nodes(hints: Option<&EndpointHints>) -> &[ForNode] {
        hints.and_then(|hints| hints.for_nodes.as_deref()).unwrap_or_default()
    }
    zones(one) == zones(other) && nodes(one) == nodes(other)
}
