//! What a simulated node looks like, as a kubelet would write it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference, Time};

use super::Settings;
use super::range::Range;
use super::status::{digest, seconds};

/// Label or annotation: this node is simulated. Whoever makes a Node with it has added a node.
pub const SIMULATED: &str = "koinon.dev/simulated";
/// Annotation: this node is silent, as if its machine had lost its network.
pub const BROKEN: &str = "koinon.dev/broken";
/// Annotation: what the node is short of, `memory`, `disk` or `pid`, or several of them with commas.
pub const PRESSURE: &str = "koinon.dev/pressure";
/// Where nodes renew their leases.
pub(crate) const LEASES: &str = "kube-node-lease";

const HOSTNAME: &str = "kubernetes.io/hostname";

/// A condition of pressure: its name, its word in [`PRESSURE`], and the reason and message of each state.
struct Pressure {
    type_: &'static str,
    word: &'static str,
    without: (&'static str, &'static str),
    with: (&'static str, &'static str),
}

const PRESSURES: [Pressure; 3] = [
    Pressure {
        type_: "MemoryPressure",
        word: "memory",
        without: ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        with: ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
    },
    Pressure {
        type_: "DiskPressure",
        word: "disk",
        without: ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        with: ("KubeletHasDiskPressure", "kubelet has disk pressure"),
    },
    Pressure {
        type_: "PIDPressure",
        word: "pid",
        without: ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        with: ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
    },
];

/// Whether a node says of itself that it can run pods.
pub fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True")
}

/// Whether a node is simulated, rather than somebody's machine.
pub fn is_simulated(node: &Node) -> bool {
    let says = |map: &Option<BTreeMap<String, String>>| {
        map.as_ref().and_then(|map| map.get(SIMULATED)).is_some_and(|value| value == "true")
    };
    says(&node.metadata.labels) || says(&node.metadata.annotations)
}

/// Whether a node is simulated and says so: it was neither broken nor deleted.
pub(super) fn speaks(node: &Node) -> bool {
    is_simulated(node) && annotation(node, BROKEN) != Some("true")
}

/// The node as it is registered at first, beside all `others`.
pub(super) fn registration(settings: &Settings, name: &str, others: &[Arc<Node>], now: Timestamp) -> Node {
    let labels = BTreeMap::from([(SIMULATED.to_owned(), "true".to_owned())]);
    let metadata = ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
    let mut node = Node { metadata, ..Node::default() };
    let lacks = lacks(settings, &node, others);
    node.metadata.labels.get_or_insert_default().extend(lacks.labels);
    node.spec = Some(spec_of(&lacks.pieces));
    node.status = status(settings, &node, &free_addresses(settings, others), now);
    node
}

/// What a node should have and lacks besides its status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lacks {
    pub(super) labels: BTreeMap<String, String>,
    /// The addresses of its pods.
    pub(super) pieces: Vec<Range>,
}

/// Completes a node that somebody else may have made; `others` are all nodes.
pub(super) fn lacks(settings: &Settings, node: &Node, others: &[Arc<Node>]) -> Lacks {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let mut lacks = Lacks { labels: labels(name), ..Lacks::default() };
    for key in node.metadata.labels.iter().flat_map(|labels| labels.keys()) {
        lacks.labels.remove(key);
    }
    if pieces(node).is_empty() {
        let used: Vec<Range> = others.iter().flat_map(|other| pieces(other)).collect();
        let free =
            settings.pod_ranges.iter().filter_map(|range| range.free_piece(settings.pods_per_node, &used));
        lacks.pieces = free.collect();
    }
    lacks
}

/// The part of a node's spec that says which addresses its pods have.
pub(super) fn spec_of(pieces: &[Range]) -> NodeSpec {
    let pieces: Vec<String> = pieces.iter().map(|piece| piece.to_string()).collect();
    NodeSpec {
        pod_cidr: pieces.first().cloned(),
        pod_cidrs: (!pieces.is_empty()).then_some(pieces),
        ..NodeSpec::default()
    }
}

/// The ranges that the pods of a node have their addresses from.
pub(super) fn pieces(node: &Node) -> Vec<Range> {
    let spec = node.spec.as_ref();
    let several = spec.and_then(|spec| spec.pod_cidrs.as_deref()).unwrap_or_default();
    let one = spec.and_then(|spec: &NodeSpec| spec.pod_cidr.as_ref()).filter(|_| several.is_empty());
    several.iter().chain(one).filter_map(|text| text.parse().ok()).collect()
}

/// The addresses of a node itself.
pub(super) fn addresses(node: &Node) -> Vec<String> {
    let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    addresses.filter(|one| one.type_ == "InternalIP").map(|one| one.address.clone()).collect()
}

/// The addresses of each range that no node has yet.
pub(super) fn free_addresses(settings: &Settings, others: &[Arc<Node>]) -> Vec<IpAddr> {
    let used = others.iter().flat_map(|other| addresses(other)).filter_map(|address| address.parse().ok());
    let used = used.collect();
    settings.node_ranges.iter().filter_map(|range| range.free_address(None, &used)).collect()
}

/// The status that a node should write now, if any. What it has of its own, such as its capacity, stays;
/// `free` are addresses for a node that has none.
pub(super) fn status(
    settings: &Settings,
    node: &Node,
    free: &[IpAddr],
    now: Timestamp,
) -> Option<NodeStatus> {
    let old = node.status.clone().unwrap_or_default();
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let mut status = old.clone();
    let has = status.capacity.get_or_insert_default();
    for (resource, amount) in capacity(settings) {
        has.entry(resource).or_insert(amount);
    }
    let allocatable = status.allocatable.get_or_insert_default();
    for (resource, amount) in status.capacity.iter().flatten() {
        allocatable.entry(resource.clone()).or_insert_with(|| amount.clone());
    }
    if addresses(node).is_empty() {
        let own = free.iter().map(|address| ("InternalIP", address.to_string()));
        let all = own.chain([("Hostname", name.to_owned())]);
        let all = all.map(|(type_, address)| NodeAddress { type_: type_.to_owned(), address });
        status.addresses = Some(all.collect());
    }
    status.node_info.get_or_insert_with(|| info(settings, node));
    status.conditions = Some(conditions(node, &old, now));
    let due = last_heartbeat(&old).is_none_or(|last| {
        now.duration_since(last)
            >= SignedDuration::try_from(settings.status_every).unwrap_or(SignedDuration::MAX)
    });
    let changed = without_heartbeats(&status) != without_heartbeats(&old);
    (due || changed).then_some(status)
}

/// When a node last wrote its status.
pub(super) fn last_heartbeat(status: &NodeStatus) -> Option<Timestamp> {
    let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready")?;
    ready.last_heartbeat_time.as_ref().map(|time| time.0)
}

/// The lease of a node at its first heartbeat.
pub(super) fn lease(settings: &Settings, node: &Node, now: Timestamp) -> Lease {
    let name = node.metadata.name.clone().unwrap_or_default();
    let owner = OwnerReference {
        api_version: "v1".into(),
        kind: "Node".into(),
        name: name.clone(),
        uid: node.metadata.uid.clone().unwrap_or_default(),
        ..OwnerReference::default()
    };
    let duration = (4 * settings.heartbeat).as_secs().max(1);
    Lease {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(LEASES.to_owned()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(name),
            lease_duration_seconds: Some(i32::try_from(duration).unwrap_or(i32::MAX)),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
    }
}

fn annotation<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn labels(name: &str) -> BTreeMap<String, String> {
    let labels = [
        ("beta.kubernetes.io/arch", "amd64"),
        ("beta.kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        (HOSTNAME, name),
        ("kubernetes.io/os", "linux"),
    ];
    labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn capacity(settings: &Settings) -> BTreeMap<String, Quantity> {
    let amounts = [
        ("cpu", settings.cpu.clone()),
        ("memory", settings.memory.clone()),
        ("ephemeral-storage", settings.ephemeral_storage.clone()),
        ("pods", settings.pods_per_node.to_string()),
    ];
    amounts.into_iter().map(|(name, amount)| (name.to_owned(), Quantity(amount))).collect()
}

fn conditions(node: &Node, old: &NodeStatus, now: Timestamp) -> Vec<NodeCondition> {
    let pressure = annotation(node, PRESSURE).unwrap_or_default();
    let under = |word: &str| pressure.split(',').any(|one| one.trim() == word);
    let mut all: Vec<(&str, &str, (&str, &str))> = Vec::new();
    for Pressure { type_, word, without, with } in PRESSURES {
        all.push(if under(word) { (type_, "True", with) } else { (type_, "False", without) });
    }
    all.push(("Ready", "True", ("KubeletReady", "kubelet is posting ready status")));
    let before = old.conditions.as_deref().unwrap_or_default();
    let ours = all.iter().map(|(type_, status, (reason, message))| {
        let same = before.iter().find(|before| before.type_ == *type_ && before.status == *status);
        NodeCondition {
            type_: (*type_).to_owned(),
            status: (*status).to_owned(),
            reason: Some((*reason).to_owned()),
            message: Some((*message).to_owned()),
            last_heartbeat_time: Some(seconds(now)),
            last_transition_time: same
                .and_then(|same| same.last_transition_time.clone())
                .or_else(|| Some(seconds(now))),
        }
    });
    // Others may have conditions of their own on the node, such as a network that is not up.
    let theirs =
        before.iter().filter(|before| !all.iter().any(|(type_, ..)| before.type_ == *type_)).cloned();
    theirs.chain(ours).collect()
}

fn without_heartbeats(status: &NodeStatus) -> NodeStatus {
    let mut status = status.clone();
    for condition in status.conditions.iter_mut().flatten() {
        condition.last_heartbeat_time = None::<Time>;
    }
    status
}

fn info(settings: &Settings, node: &Node) -> NodeSystemInfo {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let id = |what: &str| {
        let hash = digest(&[name, what]);
        format!("{}-{}-4{}-8{}-{}", &hash[..8], &hash[8..12], &hash[12..15], &hash[15..18], &hash[18..30])
    };
    NodeSystemInfo {
        architecture: "amd64".into(),
        boot_id: id("boot"),
        container_runtime_version: "simulated://1.0.0".into(),
        kernel_version: "simulated".into(),
        kubelet_version: settings.version.clone(),
        machine_id: id("machine").replace('-', ""),
        operating_system: "linux".into(),
        os_image: "Koinon simulated node".into(),
        system_uuid: id("system"),
        ..NodeSystemInfo::default()
    }
}
