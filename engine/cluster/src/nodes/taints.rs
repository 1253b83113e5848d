//! Which taints a node should have by its conditions, and whether they may send pods away.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::health::{is_ready, ready};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// A user says that the machine is gone for good.
pub(super) const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Each condition and status with its taint.
const BY_CONDITION: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// What a cluster with silent nodes does about the pods on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mood {
    /// Single nodes fail: their pods are sent away.
    Normal,
    /// So many failed that no more are emptied; what was begun goes on.
    Cautious,
    /// All failed: more likely the fault is ours, and nobody is sent away.
    Blind,
}

/// The mood of each zone.
pub(super) fn moods<'a>(nodes: impl Iterator<Item = &'a Node>) -> BTreeMap<String, Mood> {
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for node in nodes.filter(|node| !has_label(node, "node.kubernetes.io/exclude-disruption")) {
        let (all, silent) = counts.entry(zone(node)).or_default();
        *all += 1;
        *silent += usize::from(!is_ready(node));
    }
    let everywhere = counts.values().all(|(all, silent)| all == silent);
    let mood = |(all, silent): (usize, usize)| {
        if everywhere {
            Mood::Blind
        } else if silent > 2 && silent < all && 100 * silent >= 55 * all {
            Mood::Cautious
        } else {
            Mood::Normal
        }
    };
    counts.into_iter().map(|(zone, counts)| (zone, mood(counts))).collect()
}

/// The zone of a node, empty if it is in none.
pub(super) fn zone(node: &Node) -> String {
    let label = |key: &str| node.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
    let region = label("topology.kubernetes.io/region").unwrap_or_default();
    format!("{region}:{}", label("topology.kubernetes.io/zone").unwrap_or_default())
}

/// Whether a node may begin to send its pods away now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MayEmpty {
    Now,
    NotYet,
}

/// The taints that a node should have, unless it has them. Taints of others stay.
pub(super) fn change(node: &Node, mood: Mood, may_empty: MayEmpty, now: Timestamp) -> Option<Vec<Taint>> {
    let has = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    for (type_, status, key) in BY_CONDITION {
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        if conditions.into_iter().any(|one| one.type_ == type_ && one.status == status) {
            wanted.push((key, "NoSchedule"));
        }
    }
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    if let Some(key) = emptying(node) {
        let begun = has.iter().any(|taint| taint.effect == "NoExecute" && is_emptying(&taint.key));
        match mood {
            Mood::Blind => {}
            _ if begun => wanted.push((key, "NoExecute")),
            Mood::Normal if may_empty == MayEmpty::Now => wanted.push((key, "NoExecute")),
            Mood::Normal | Mood::Cautious => {}
        }
    }
    let ours = |taint: &Taint| match taint.effect.as_str() {
        "NoExecute" => is_emptying(&taint.key),
        "NoSchedule" => taint.key == UNSCHEDULABLE || BY_CONDITION.iter().any(|(.., key)| *key == taint.key),
        _ => false,
    };
    let is = |taint: &Taint, (key, effect): (&str, &str)| taint.key == key && taint.effect == effect;
    let mut taints: Vec<Taint> = has
        .iter()
        .filter(|taint| !ours(taint) || wanted.iter().any(|wanted| is(taint, *wanted)))
        .cloned()
        .collect();
    for (key, effect) in wanted {
        if !taints.iter().any(|taint| is(taint, (key, effect))) {
            taints.push(Taint {
                key: key.to_owned(),
                effect: effect.to_owned(),
                value: None,
                time_added: Timestamp::from_second(now.as_second()).ok().map(Time),
            });
        }
    }
    (taints != has).then_some(taints)
}

/// Whether a node waits to be emptied: it is silent or not ready, and nothing has begun.
pub(super) fn waits_to_empty(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let mut begun = taints.filter(|taint| taint.effect == "NoExecute" && is_emptying(&taint.key));
    emptying(node).is_some() && begun.next().is_none()
}

/// The taint that sends pods away from a node that does not work, by what it says of itself.
fn emptying(node: &Node) -> Option<&'static str> {
    match ready(node)?.status.as_str() {
        "False" => Some(NOT_READY),
        "Unknown" => Some(UNREACHABLE),
        _ => None,
    }
}

fn is_emptying(key: &str) -> bool {
    key == NOT_READY || key == UNREACHABLE
}

fn has_label(node: &Node, key: &str) -> bool {
    node.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(key))
}
