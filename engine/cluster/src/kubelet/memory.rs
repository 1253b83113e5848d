//! What a kubelet remembers of its pods besides what their status says: exact times and given addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

use super::pod::Times;
use super::range::Range;
use super::stage::{Stage, is_finished};

/// What is remembered of all pods, by uid, and of the addresses on each node.
#[derive(Default)]
pub(super) struct Memory {
    pods: BTreeMap<String, Remembered>,
    nodes: BTreeMap<String, Addresses>,
}

struct Remembered {
    stage: Stage,
    since: Timestamp,
    deleted: Option<Timestamp>,
    /// What was said about its annotations.
    complaints: Vec<String>,
}

#[derive(Default)]
struct Addresses {
    given: BTreeMap<IpAddr, String>,
    /// The last address that was given from each range.
    last: BTreeMap<Range, IpAddr>,
}

/// Whether something is seen for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Novelty {
    News,
    Known,
}

impl Memory {
    /// Takes in a pod as it is now, and keeps the addresses that it has from being given again.
    pub(super) fn note(&mut self, pod: &Pod) {
        let (Some(uid), Some(node)) = (pod.metadata.uid.as_ref(), node_of(pod)) else { return };
        if is_finished(pod) {
            return self.release(uid, node);
        }
        if pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true) {
            return;
        }
        let addresses = pod.status.iter().flat_map(|status| status.pod_ips.iter().flatten());
        for address in addresses.filter_map(|one| one.ip.parse().ok()) {
            self.nodes.entry(node.to_owned()).or_default().given.insert(address, uid.clone());
        }
    }

    /// Forgets a pod that is gone.
    pub(super) fn forget(&mut self, pod: &Pod) {
        let Some(uid) = pod.metadata.uid.as_ref() else { return };
        self.pods.remove(uid);
        if let Some(node) = node_of(pod) {
            self.release(uid, node);
        }
    }

    fn release(&mut self, uid: &str, node: &str) {
        if let Some(addresses) = self.nodes.get_mut(node) {
            addresses.given.retain(|_, owner| owner != uid);
        }
    }

    /// The addresses that a pod of a node has, or gets now: one of each range.
    pub(super) fn addresses(&mut self, uid: &str, node: &str, pieces: &[Range]) -> Vec<IpAddr> {
        let addresses = self.nodes.entry(node.to_owned()).or_default();
        let has: Vec<IpAddr> =
            addresses.given.iter().filter(|(_, owner)| *owner == uid).map(|(address, _)| *address).collect();
        if !has.is_empty() {
            return has;
        }
        let used: BTreeSet<IpAddr> = addresses.given.keys().copied().collect();
        let mut given = Vec::new();
        for piece in pieces {
            if let Some(address) = piece.free_address(addresses.last.get(piece).copied(), &used) {
                addresses.last.insert(*piece, address);
                addresses.given.insert(address, uid.to_owned());
                given.push(address);
            }
        }
        given
    }

    /// The times of a pod: those remembered, else those that its status tells, else now. Also whether its
    /// deletion is news.
    pub(super) fn times(&mut self, pod: &Pod, now: Timestamp) -> (Times, Novelty) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let stage = Stage::of(pod);
        let since = || stage.recorded_since(pod).unwrap_or(now).min(now);
        let entry = self.pods.entry(uid).or_insert_with(|| Remembered {
            stage,
            since: since(),
            deleted: None,
            complaints: Vec::new(),
        });
        if entry.stage != stage {
            entry.stage = stage;
            entry.since = since();
        }
        let mut novelty = Novelty::Known;
        if let Some(deleted) = &pod.metadata.deletion_timestamp
            && entry.deleted.is_none()
        {
            let grace = SignedDuration::from_secs(pod.metadata.deletion_grace_period_seconds.unwrap_or(0));
            // The server keeps whole seconds; what is seen within one of them began just now.
            let began = deleted.0.saturating_sub(grace).unwrap_or(now);
            let fresh = now.duration_since(began) < SignedDuration::from_secs(1);
            entry.deleted = Some(if fresh { now } else { began.min(now) });
            novelty = Novelty::News;
        }
        (Times { now, since: entry.since, deleted: entry.deleted }, novelty)
    }

    /// Remembers exactly when the stage began that is now in the pod's status.
    pub(super) fn entered(&mut self, uid: &str, stage: Stage, since: Timestamp) {
        if let Some(entry) = self.pods.get_mut(uid) {
            entry.stage = stage;
            entry.since = since;
        }
    }

    /// Whether these complaints about a pod were made before.
    pub(super) fn complaints(&mut self, uid: &str, complaints: &[String]) -> Novelty {
        match self.pods.get_mut(uid) {
            Some(entry) if entry.complaints != complaints => {
                entry.complaints = complaints.to_vec();
                Novelty::News
            }
            Some(_) | None => Novelty::Known,
        }
    }
}

pub(super) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}
