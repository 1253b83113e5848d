//! Nodes: where NodePort Services are reached.

use k8s_openapi::api::core::v1;
use koinon_api::network::InterfaceAddress;
use koinon_fleet::Record;

use super::reachable;
use crate::services::model::Address;

/// A node of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// By which it is reached from elsewhere.
    pub addresses: Vec<Address>,
    pub ready: bool,
    pub zone: Option<String>,
}

impl Record for Node {
    type Object = v1::Node;

    fn fold(node: &v1::Node) -> Option<Node> {
        let status = node.status.as_ref();
        let addresses: Vec<InterfaceAddress> = status
            .and_then(|status| status.addresses.as_ref())
            .into_iter()
            .flatten()
            .map(|one| InterfaceAddress { address_type: one.type_.clone(), address: one.address.clone() })
            .collect();
        let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
        let ready = conditions.filter(|one| one.type_ == "Ready").any(|one| one.status == "True");
        let labels = node.metadata.labels.as_ref();
        let zone = labels.and_then(|labels| labels.get("topology.kubernetes.io/zone")).cloned();
        Some(Node { addresses: reachable(&addresses), ready, zone })
    }
}
