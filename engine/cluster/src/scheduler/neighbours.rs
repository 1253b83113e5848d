//! Pods that want to be near others, or far from them, or evenly spread.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Pod, PodAffinityTerm, PodSpec, TopologySpreadConstraint};

use super::ledger::{Guest, Ledger};
use super::selector::{selects, wants_node};

/// What a pod asks of its neighbours, counted once for all nodes.
pub(super) struct Neighbours {
    /// For each term of affinity: the places where somebody it looks for is, or none if anywhere is right.
    near: Vec<(String, Option<BTreeSet<String>>)>,
    /// For each term of its own anti-affinity: the places where somebody it avoids is.
    far: Vec<(String, BTreeSet<String>)>,
    /// Places where somebody is who avoids it: by topology key.
    avoided: BTreeMap<String, BTreeSet<String>>,
    spread: Vec<Spread>,
}

/// One hard spread constraint.
struct Spread {
    key: String,
    most: i64,
    counts: BTreeMap<String, i64>,
}

/// Why a pod cannot be beside the neighbours that a node would give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    Spread,
    SpreadLabelMissing,
    Avoided,
    Near,
    Far,
}

impl Neighbours {
    pub(super) fn of(pod: &Pod, ledger: &Ledger) -> Neighbours {
        let empty = PodSpec::default();
        let spec = pod.spec.as_ref().unwrap_or(&empty);
        let this = Guest::of(pod);
        let affinity = spec.affinity.as_ref();
        let near = affinity.and_then(|one| one.pod_affinity.as_ref());
        let near = near.and_then(|one| one.required_during_scheduling_ignored_during_execution.as_deref());
        let far = affinity.and_then(|one| one.pod_anti_affinity.as_ref());
        let far = far.and_then(|one| one.required_during_scheduling_ignored_during_execution.as_deref());
        let near = near.unwrap_or_default();
        // The first of a group that wants to be together has nobody to be near to.
        let near_places: Vec<_> = near.iter().map(|term| places(term, &this, ledger)).collect();
        let is_first = near_places.iter().all(BTreeSet::is_empty)
            && near.iter().all(|term| meant(term, &this, &this, ledger));
        Neighbours {
            near: near
                .iter()
                .zip(near_places)
                .map(|(term, places)| (term.topology_key.clone(), (!is_first).then_some(places)))
                .collect(),
            far: far
                .unwrap_or_default()
                .iter()
                .map(|term| (term.topology_key.clone(), places(term, &this, ledger)))
                .collect(),
            avoided: avoided(&this, ledger),
            spread: spec
                .topology_spread_constraints
                .iter()
                .flatten()
                .filter(|one| one.when_unsatisfiable == "DoNotSchedule")
                .map(|one| Spread::of(one, spec, &this, ledger))
                .collect(),
        }
    }

    /// What is wrong with a node's neighbourhood, if anything.
    pub(super) fn wrong(&self, node: &Node) -> Option<Wrong> {
        for spread in &self.spread {
            let Some(place) = label(node, &spread.key) else { return Some(Wrong::SpreadLabelMissing) };
            let fewest = spread.counts.values().min().copied().unwrap_or(0);
            let here = spread.counts.get(place).copied().unwrap_or(0);
            if here + 1 - fewest > spread.most {
                return Some(Wrong::Spread);
            }
        }
        let is_in = |key: &str, places: &BTreeSet<String>| {
            label(node, key).is_some_and(|place| places.contains(place))
        };
        let near = self.near.iter().all(|(key, places)| match places {
            Some(places) => is_in(key, places),
            None => label(node, key).is_some(),
        });
        if !near {
            return Some(Wrong::Near);
        }
        if self.far.iter().any(|(key, places)| is_in(key, places)) {
            return Some(Wrong::Far);
        }
        self.avoided.iter().any(|(key, places)| is_in(key, places)).then_some(Wrong::Avoided)
    }
}

impl Spread {
    fn of(constraint: &TopologySpreadConstraint, spec: &PodSpec, this: &Guest, ledger: &Ledger) -> Spread {
        let mut counts = BTreeMap::new();
        // Only nodes that the pod could be on count as places at all.
        for (node, room) in ledger.rooms().filter(|(node, _)| wants_node(spec, node)) {
            let Some(place) = label(node, &constraint.topology_key) else { continue };
            let here = room.guests.values().filter(|guest| {
                guest.namespace == this.namespace
                    && selects(constraint.label_selector.as_ref(), &guest.labels)
            });
            *counts.entry(place.to_owned()).or_insert(0) += here.count() as i64;
        }
        let too_few = constraint.min_domains.is_some_and(|least| (counts.len() as i64) < i64::from(least));
        if too_few {
            // As if there were a place with nobody in it.
            counts.insert(String::new(), 0);
        }
        // A pod that does not count itself adds nothing.
        let counts_itself = selects(constraint.label_selector.as_ref(), &this.labels);
        let most = i64::from(constraint.max_skew) + i64::from(!counts_itself);
        Spread { key: constraint.topology_key.clone(), most, counts }
    }
}

/// Whether the place of a pod depends on which pods are where.
pub(super) fn cares(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let affinity = spec.affinity.as_ref();
    affinity.is_some_and(|one| one.pod_affinity.is_some() || one.pod_anti_affinity.is_some())
        || spec.topology_spread_constraints.as_ref().is_some_and(|all| !all.is_empty())
}

/// The places, by the term's topology key, where somebody is whom the term means.
fn places(term: &PodAffinityTerm, this: &Guest, ledger: &Ledger) -> BTreeSet<String> {
    let mut places = BTreeSet::new();
    for (node, room) in ledger.rooms() {
        let Some(place) = label(node, &term.topology_key) else { continue };
        if room.guests.values().any(|guest| meant(term, this, guest, ledger)) {
            places.insert(place.to_owned());
        }
    }
    places
}

/// The places, by topology key, of pods that keep this one away.
fn avoided(this: &Guest, ledger: &Ledger) -> BTreeMap<String, BTreeSet<String>> {
    let mut avoided: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (node, room) in ledger.rooms().filter(|(_, room)| room.keepers > 0) {
        for guest in room.guests.values() {
            for term in guest.keeps_away.iter().filter(|term| meant(term, guest, this, ledger)) {
                if let Some(place) = label(node, &term.topology_key) {
                    avoided.entry(term.topology_key.clone()).or_default().insert(place.to_owned());
                }
            }
        }
    }
    avoided
}

/// Whether a term of the pod `of` means the pod `other`.
fn meant(term: &PodAffinityTerm, of: &Guest, other: &Guest, ledger: &Ledger) -> bool {
    let named = term.namespaces.as_deref().unwrap_or_default();
    let in_namespace = if named.is_empty() && term.namespace_selector.is_none() {
        of.namespace == other.namespace
    } else {
        let empty = BTreeMap::new();
        let labels = ledger.namespaces.get(&other.namespace).unwrap_or(&empty);
        named.contains(&other.namespace) || selects(term.namespace_selector.as_ref(), labels)
    };
    in_namespace && selects(term.label_selector.as_ref(), &other.labels)
}

fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.labels.as_ref()?.get(key).map(String::as_str)
}
