//! What runs where: the rooms that nodes have, and how full they are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, PodAffinityTerm};

use super::amounts::{Amounts, asked};
use crate::kubelet::is_finished;

type Labels = BTreeMap<String, String>;

const LEAST: Weight = Weight { cpu: 100, memory: 200 << 20 };

/// All nodes and what is taken of them, also by pods that were only just placed.
#[derive(Default)]
pub(crate) struct Ledger {
    rooms: BTreeMap<String, Room>,
    /// Where each pod that takes room is, by uid.
    places: BTreeMap<String, String>,
    /// Pods that were placed and that nobody has seen there yet.
    assumed: BTreeSet<String>,
    pub(super) namespaces: BTreeMap<String, Labels>,
}

/// A node, if there is one, and the pods on it.
#[derive(Default)]
pub(super) struct Room {
    pub(super) node: Option<Arc<Node>>,
    pub(super) has: Amounts,
    pub(super) taken: Amounts,
    pub(super) guests: BTreeMap<String, Guest>,
    /// What the guests weigh when nodes are compared.
    pub(super) weight: Weight,
    /// How many guests each owner has here.
    siblings: BTreeMap<String, usize>,
    /// How many guests keep others away.
    pub(super) keepers: usize,
}

/// CPU and memory that count when nodes are compared: somebody who asks for nothing is somewhere too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weight {
    pub(super) cpu: i64,
    pub(super) memory: i64,
}

/// What the scheduler needs to know of a pod that has a place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Guest {
    pub(super) namespace: String,
    pub(super) labels: Labels,
    pub(super) asked: Amounts,
    pub(super) weight: Weight,
    pub(super) owner: Option<String>,
    pub(super) ports: BTreeSet<Port>,
    /// Whom it keeps away.
    pub(super) keeps_away: Vec<PodAffinityTerm>,
}

/// A port of a node that a pod takes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Port {
    port: i32,
    protocol: String,
    address: String,
}

/// Whether a change may let a pod fit that did not fit before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Gain {
    Nothing,
    /// Other neighbours, which matter to pods that ask for or avoid some.
    Neighbours,
    Room,
}

impl Ledger {
    /// Takes in a node as it is now.
    pub(crate) fn put_node(&mut self, node: &Arc<Node>) -> Gain {
        let name = node.metadata.name.clone().unwrap_or_default();
        let room = self.rooms.entry(name).or_default();
        let before = room.node.replace(node.clone());
        let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
        room.has = allocatable.map(Amounts::of).unwrap_or_default();
        // Heartbeats change nothing that matters here.
        let matters = |node: &Node| {
            let allocatable = node.status.as_ref().and_then(|status| status.allocatable.clone());
            (node.metadata.uid.clone(), node.metadata.labels.clone(), node.spec.clone(), allocatable)
        };
        if before.is_some_and(|before| matters(&before) == matters(node)) {
            Gain::Nothing
        } else {
            Gain::Room
        }
    }

    /// Takes in that a node is gone. Its pods still count, should it come back.
    pub(crate) fn drop_node(&mut self, name: &str) {
        if let Some(room) = self.rooms.get_mut(name) {
            room.node = None;
            if room.guests.is_empty() {
                self.rooms.remove(name);
            }
        }
    }

    /// Takes in a pod as it is now.
    pub(crate) fn put_pod(&mut self, pod: &Pod) -> Gain {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        if is_finished(pod) {
            return self.drop_pod(uid);
        }
        match node_of(pod) {
            Some(node) => {
                self.assumed.remove(uid);
                self.seat(pod, node)
            }
            None => Gain::Nothing,
        }
    }

    /// Takes in that a pod is gone, or takes no room any more.
    pub(crate) fn drop_pod(&mut self, uid: &str) -> Gain {
        self.assumed.remove(uid);
        let Some(place) = self.places.remove(uid) else { return Gain::Nothing };
        if let Some(room) = self.rooms.get_mut(&place) {
            room.leave(uid);
            if room.node.is_none() && room.guests.is_empty() {
                self.rooms.remove(&place);
            }
        }
        Gain::Room
    }

    /// Counts with a pod on a node before anybody has seen it there.
    pub(super) fn assume(&mut self, pod: &Pod, node: &str) {
        self.seat(pod, node);
        self.assumed.extend(pod.metadata.uid.clone());
    }

    /// Where a pod was placed, if nobody has seen it there yet.
    pub(super) fn assumed(&self, uid: &str) -> Option<&str> {
        self.assumed.get(uid).and_then(|uid| self.places.get(uid)).map(String::as_str)
    }

    /// The pod did not come where it was placed.
    pub(super) fn recall(&mut self, uid: &str) {
        if self.assumed.contains(uid) {
            self.drop_pod(uid);
        }
    }

    fn seat(&mut self, pod: &Pod, node: &str) -> Gain {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let guest = Guest::of(pod);
        if self.places.get(&uid).is_some_and(|place| place == node)
            && self.rooms.get(node).and_then(|room| room.guests.get(&uid)) == Some(&guest)
        {
            return Gain::Nothing;
        }
        let gain = self.drop_pod(&uid).max(Gain::Neighbours);
        let room = self.rooms.entry(node.to_owned()).or_default();
        room.enter(uid.clone(), guest);
        self.places.insert(uid, node.to_owned());
        gain
    }

    /// The rooms of nodes that exist, by name.
    pub(super) fn rooms(&self) -> impl Iterator<Item = (&Node, &Room)> {
        self.rooms.values().filter_map(|room| Some((&**room.node.as_ref()?, room)))
    }
}

impl Room {
    fn enter(&mut self, uid: String, guest: Guest) {
        self.taken.add(&guest.asked);
        self.weight.cpu += guest.weight.cpu;
        self.weight.memory += guest.weight.memory;
        self.keepers += usize::from(!guest.keeps_away.is_empty());
        if let Some(owner) = &guest.owner {
            *self.siblings.entry(owner.clone()).or_default() += 1;
        }
        self.guests.insert(uid, guest);
    }

    fn leave(&mut self, uid: &str) {
        let Some(guest) = self.guests.remove(uid) else { return };
        self.taken.subtract(&guest.asked);
        self.weight.cpu -= guest.weight.cpu;
        self.weight.memory -= guest.weight.memory;
        self.keepers -= usize::from(!guest.keeps_away.is_empty());
        if let Some(owner) = &guest.owner
            && let Some(count) = self.siblings.get_mut(owner)
        {
            *count -= 1;
            if *count == 0 {
                self.siblings.remove(owner);
            }
        }
    }

    /// How many guests of the same owner are here.
    pub(super) fn siblings(&self, guest: &Guest) -> i64 {
        let count = guest.owner.as_ref().and_then(|owner| self.siblings.get(owner)).copied().unwrap_or(0);
        i64::try_from(count).unwrap_or(i64::MAX)
    }
}

impl Guest {
    pub(super) fn of(pod: &Pod) -> Guest {
        let spec = pod.spec.as_ref();
        let owners = pod.metadata.owner_references.iter().flatten();
        let mut owners = owners.filter(|owner| owner.controller == Some(true));
        let affinity = spec.and_then(|spec| spec.affinity.as_ref()?.pod_anti_affinity.as_ref());
        let asked = asked(pod);
        let keeps_away =
            affinity.and_then(|one| one.required_during_scheduling_ignored_during_execution.clone());
        Guest {
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            labels: pod.metadata.labels.clone().unwrap_or_default(),
            weight: Weight {
                cpu: asked.get("cpu").max(LEAST.cpu),
                memory: asked.get("memory").max(LEAST.memory),
            },
            asked,
            owner: owners.next().map(|owner| owner.uid.clone()),
            ports: ports(pod),
            keeps_away: keeps_away.unwrap_or_default(),
        }
    }
}

impl Port {
    /// Whether both cannot be on one node.
    pub(super) fn collides(&self, other: &Port) -> bool {
        let any = |address: &str| address.is_empty() || address == "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (any(&self.address) || any(&other.address) || self.address == other.address)
    }
}

/// The ports of its node that a pod takes.
fn ports(pod: &Pod) -> BTreeSet<Port> {
    let Some(spec) = &pod.spec else { return BTreeSet::new() };
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|one| one.restart_policy.as_deref() == Some("Always"));
    let all = spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
    all.filter_map(|port| {
        Some(Port {
            port: port.host_port.filter(|port| *port > 0)?,
            protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
            address: port.host_ip.clone().unwrap_or_default(),
        })
    })
    .collect()
}

pub(super) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}
