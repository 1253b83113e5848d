//! What simulated nodes are like and how fast things happen on them.

use std::time::Duration;

use super::range::Range;

/// How many nodes there are at the start, what they can hold, and how fast things happen on them.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Nodes that are registered at the start; more can be added through the API.
    pub nodes: u32,
    /// Nodes are called by this and their number, which starts with 1.
    pub name_prefix: String,
    /// How many pods fit on a node.
    pub pods_per_node: u32,
    /// CPU of a node, as a quantity.
    pub cpu: String,
    /// Memory of a node, as a quantity.
    pub memory: String,
    /// Scratch space of a node, as a quantity.
    pub ephemeral_storage: String,
    /// From the arrival of a pod on its node until its containers run.
    pub start_after: Duration,
    /// From the start of the containers until they are ready.
    pub ready_after: Duration,
    /// From the deletion of a pod until its containers have ended; its grace period is the upper bound.
    pub terminate_after: Duration,
    /// How often each node renews its lease, which lasts four times as long.
    pub heartbeat: Duration,
    /// How often each node writes its status although nothing changed.
    pub status_every: Duration,
    /// Addresses of pods, cut into one piece for each node; one range, or two of different families.
    pub pod_ranges: Vec<Range>,
    /// Addresses of the nodes themselves, in the families of `pod_ranges`.
    pub node_ranges: Vec<Range>,
    /// Whether pods get the events that a kubelet writes. They are half of all writes, so a large fleet may
    /// go without.
    pub events: bool,
    /// The version of Kubernetes that nodes say they are.
    pub version: String,
}

impl Default for Settings {
    /// Three nodes, faster than those of a stock cluster: people wait for them.
    fn default() -> Self {
        Settings {
            nodes: 3,
            name_prefix: "node-".into(),
            pods_per_node: 110,
            cpu: "8".into(),
            memory: "32Gi".into(),
            ephemeral_storage: "100Gi".into(),
            start_after: Duration::from_millis(200),
            // As of containers without a readiness probe: whoever sees a pod running sees it ready.
            ready_after: Duration::ZERO,
            terminate_after: Duration::from_millis(200),
            heartbeat: Duration::from_secs(10),
            status_every: Duration::from_secs(300),
            pod_ranges: vec![Range::new([10, 244, 0, 0].into(), 16)],
            node_ranges: vec![Range::new([172, 18, 0, 0].into(), 16)],
            events: true,
            version: "v1.36.3".into(),
        }
    }
}
