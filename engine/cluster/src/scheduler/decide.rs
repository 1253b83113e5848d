//! Where a pod goes: the node that it fits on best, or why it fits on none.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod, PodSpec, Taint};

use super::ledger::{Guest, Ledger, Room};
use super::neighbours::{Neighbours, Wrong};
use super::selector::{likes_node, tolerates, wants_node};

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// What becomes of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Place(String),
    /// It fits nowhere, for this reason.
    Wait(String),
}

/// Why a pod does not fit on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Misfit {
    reasons: Vec<String>,
    /// Whether it would fit if other pods were not there.
    others_in_the_way: bool,
}

/// Decides from the pod and the ledger alone; equal nodes go by name.
pub(super) fn decide(pod: &Pod, ledger: &Ledger) -> Decision {
    let empty = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&empty);
    let this = Guest::of(pod);
    let neighbours = Neighbours::of(pod, ledger);
    let (mut fitting, mut misfits) = (Vec::new(), Vec::new());
    for (node, room) in ledger.rooms() {
        match misfit(spec, &this, &neighbours, node, room) {
            Some(misfit) => misfits.push(misfit),
            None => fitting.push((node, room)),
        }
    }
    match best(spec, &this, &fitting) {
        Some(node) => Decision::Place(node),
        None => Decision::Wait(message(spec, &misfits)),
    }
}

/// The first thing that is wrong with a node, in the order in which clusters look.
fn misfit(spec: &PodSpec, this: &Guest, neighbours: &Neighbours, node: &Node, room: &Room) -> Option<Misfit> {
    let for_good = |reason: &str| Some(Misfit { reasons: vec![reason.to_owned()], others_in_the_way: false });
    let for_now = |reason: &str| Some(Misfit { reasons: vec![reason.to_owned()], others_in_the_way: true });
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let node_spec = node.spec.as_ref();
    let cordon = Taint { key: UNSCHEDULABLE.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
    if node_spec.and_then(|spec| spec.unschedulable) == Some(true) && !tolerates(tolerations, &cordon) {
        return for_good("node(s) were unschedulable");
    }
    let mut taints = node_spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    if taints.any(|taint| taint.effect != "PreferNoSchedule" && !tolerates(tolerations, taint)) {
        return for_good("node(s) had untolerated taint(s)");
    }
    if !wants_node(spec, node) {
        return for_good("node(s) didn't match Pod's node affinity/selector");
    }
    let collides =
        |guest: &Guest| this.ports.iter().any(|port| guest.ports.iter().any(|other| port.collides(other)));
    if !this.ports.is_empty() && room.guests.values().any(collides) {
        return for_now("node(s) didn't have free ports for the requested pod ports");
    }
    if let Some(misfit) = too_full(this, room) {
        return Some(misfit);
    }
    match neighbours.wrong(node)? {
        Wrong::Spread => for_now("node(s) didn't match pod topology spread constraints"),
        Wrong::SpreadLabelMissing => {
            for_good("node(s) didn't match pod topology spread constraints (missing required label)")
        }
        Wrong::Near => for_good("node(s) didn't match pod affinity rules"),
        Wrong::Far => for_now("node(s) didn't match pod anti-affinity rules"),
        Wrong::Avoided => for_now("node(s) didn't satisfy existing pods anti-affinity rules"),
    }
}

fn too_full(this: &Guest, room: &Room) -> Option<Misfit> {
    let mut reasons = Vec::new();
    let mut others_in_the_way = true;
    if room.guests.len() as i64 + 1 > room.has.get("pods") {
        reasons.push("Too many pods".to_owned());
    }
    // Clusters name these three first, and the rest by name.
    let common = ["cpu", "memory", "ephemeral-storage"];
    let rest = this.asked.iter().map(|(name, _)| name).filter(|name| !common.contains(name));
    for name in common.into_iter().chain(rest) {
        let (asks, has) = (this.asked.get(name), room.has.get(name));
        if asks > 0 && asks > has.saturating_sub(room.taken.get(name)) {
            reasons.push(format!("Insufficient {name}"));
            others_in_the_way &= asks <= has;
        }
    }
    (!reasons.is_empty()).then_some(Misfit { reasons, others_in_the_way })
}

fn best(spec: &PodSpec, this: &Guest, fitting: &[(&Node, &Room)]) -> Option<String> {
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let disliked = |node: &Node| {
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        taints.filter(|taint| taint.effect == "PreferNoSchedule" && !tolerates(tolerations, taint)).count()
            as i64
    };
    let scores: Vec<[i64; 4]> = fitting
        .iter()
        .map(|(node, room)| {
            [free_share(this, room), room.siblings(this), disliked(node), likes_node(spec, node)]
        })
        .collect();
    let most = |which: usize| scores.iter().map(|score| score[which]).max().unwrap_or(0);
    let (most_siblings, most_disliked, most_liked) = (most(1), most(2), most(3));
    let few = |count: i64, most: i64| if most == 0 { 100 } else { 100 * (most - count) / most };
    let total = |[free, siblings, disliked, likes]: [i64; 4]| {
        let liked = if most_liked == 0 { 0 } else { 100 * likes / most_liked };
        free + 2 * few(siblings, most_siblings) + 3 * few(disliked, most_disliked) + 2 * liked
    };
    let mut best: Option<(i64, &Node)> = None;
    for ((node, _), score) in fitting.iter().zip(scores) {
        let score = total(score);
        if best.is_none_or(|(highest, _)| score > highest) {
            best = Some((score, node));
        }
    }
    best.and_then(|(_, node)| node.metadata.name.clone())
}

/// How much of a node would be free with this pod on it, of a hundred.
fn free_share(this: &Guest, room: &Room) -> i64 {
    let share = |name: &str, taken: i64| {
        let has = i128::from(room.has.get(name));
        if has == 0 { 0 } else { (100 * (has - i128::from(taken)).max(0) / has) as i64 }
    };
    let cpu = share("cpu", room.weight.cpu.saturating_add(this.weight.cpu));
    let memory = share("memory", room.weight.memory.saturating_add(this.weight.memory));
    (cpu + memory) / 2
}

/// Says in the words of clusters why a pod fits nowhere.
fn message(spec: &PodSpec, misfits: &[Misfit]) -> String {
    if misfits.is_empty() {
        return "no nodes available to schedule pods".to_owned();
    }
    let all = misfits.len();
    let counted = |reasons: &mut dyn Iterator<Item = &str>| {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for reason in reasons {
            *counts.entry(reason).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        counts.sort();
        counts.join(", ")
    };
    let why = counted(&mut misfits.iter().flat_map(|misfit| misfit.reasons.iter().map(String::as_str)));
    let preemption = if spec.preemption_policy.as_deref() == Some("Never") {
        "not eligible due to preemptionPolicy=Never.".to_owned()
    } else {
        let help = |misfit: &Misfit| match misfit.others_in_the_way {
            true => "No preemption victims found for incoming pod",
            false => "Preemption is not helpful for scheduling",
        };
        format!("0/{all} nodes are available: {}.", counted(&mut misfits.iter().map(help)))
    };
    // There are no claims to devices here, and clusters say so first.
    format!("0/{all} nodes are available: {why}. no new claims to deallocate, preemption: {preemption}")
}
