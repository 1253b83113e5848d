//! Whether a node still says something, and what its conditions say when it does not.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Settings;

/// The conditions that nobody knows any more of a silent node.
const KNOWN_BY_KUBELET: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// When each node was last heard, by our own clock: those of the nodes may differ.
#[derive(Default)]
pub(super) struct Heard {
    nodes: BTreeMap<String, Last>,
}

#[derive(Default)]
struct Last {
    uid: Option<String>,
    at: Timestamp,
    heartbeat: Option<Timestamp>,
    renewed: Option<Timestamp>,
    /// How long the node says that its lease holds.
    lease: Option<Duration>,
}

impl Heard {
    /// Takes in a node as it is now.
    pub(super) fn node(&mut self, node: &Node, now: Timestamp) {
        let last = self.nodes.entry(node.metadata.name.clone().unwrap_or_default()).or_default();
        if last.uid != node.metadata.uid {
            // A node that never said anything is counted from its beginning, others from when they were found.
            let created = node.metadata.creation_timestamp.as_ref().map(|time| time.0);
            let at = if ready(node).is_none() { created.unwrap_or(now) } else { now };
            let (renewed, lease) = (last.renewed, last.lease);
            *last = Last { uid: node.metadata.uid.clone(), at, heartbeat: None, renewed, lease };
        }
        let heartbeat = ready(node).and_then(|ready| ready.last_heartbeat_time.as_ref()).map(|time| time.0);
        if heartbeat != last.heartbeat {
            last.heartbeat = heartbeat;
            last.at = now;
        }
    }

    /// Takes in the lease of a node as it is now.
    pub(super) fn lease(&mut self, lease: &Lease, now: Timestamp) {
        let Some(spec) = &lease.spec else { return };
        let last = self.nodes.entry(lease.metadata.name.clone().unwrap_or_default()).or_default();
        let renewed = spec.renew_time.as_ref().map(|time| time.0);
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        last.lease = seconds.map(Duration::from_secs);
        if renewed > last.renewed {
            last.renewed = renewed;
            last.at = now;
        }
    }

    pub(super) fn forget(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    /// Until when a node may stay silent. Nodes with slow heartbeats say so in their leases.
    pub(super) fn until(&self, settings: &Settings, node: &Node) -> Timestamp {
        let Some(last) = node.metadata.name.as_ref().and_then(|name| self.nodes.get(name)) else {
            return Timestamp::MAX;
        };
        let grace = if ready(node).is_some() { settings.grace } else { settings.startup_grace };
        let grace = grace.max(last.lease.unwrap_or_default());
        last.at.checked_add(grace).unwrap_or(Timestamp::MAX)
    }
}

/// The conditions of a node that is silent, unless they say so already.
pub(super) fn unknown(node: &Node, now: Timestamp) -> Option<Vec<NodeCondition>> {
    let before = node.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let mut conditions = before.clone();
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    for type_ in KNOWN_BY_KUBELET {
        match conditions.iter_mut().find(|condition| condition.type_ == type_) {
            Some(condition) if condition.status == "Unknown" => {}
            Some(condition) => {
                condition.status = "Unknown".into();
                condition.reason = Some("NodeStatusUnknown".into());
                condition.message = Some("Kubelet stopped posting node status.".into());
                condition.last_transition_time = Some(Time(now));
            }
            None => conditions.push(NodeCondition {
                type_: type_.into(),
                status: "Unknown".into(),
                reason: Some("NodeStatusNeverUpdated".into()),
                message: Some("Kubelet never posted node status.".into()),
                last_heartbeat_time: node.metadata.creation_timestamp.clone(),
                last_transition_time: Some(Time(now)),
            }),
        }
    }
    (conditions != before).then_some(conditions)
}

/// What a node says about being ready.
pub(super) fn ready(node: &Node) -> Option<&NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "Ready")
}

pub(super) fn is_ready(node: &Node) -> bool {
    ready(node).is_some_and(|ready| ready.status == "True")
}
