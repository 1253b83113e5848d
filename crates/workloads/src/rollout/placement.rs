//! The placement annotation of a federated Deployment.

use koinon_api::placement::{ClusterPlacement, ClusterState, Placement};

use super::input::{Desired, Member, Reach, View};
use super::output::{Phase, Plan, Step};
use super::shadows::Split;

/// Where the replicas are and what each cluster is doing, for the annotation.
pub fn placement(desired: &Desired, view: &View, plan: &Plan) -> Placement {
    let clusters = view
        .members
        .iter()
        .map(|(name, member)| {
            let replaced = plan.record.clusters.contains_key(name);
            (name.clone(), cluster(desired, member, plan.steps.get(name), replaced))
        })
        .collect();
    Placement { observed_generation: desired.generation, clusters }
}

fn cluster(desired: &Desired, member: &Member, step: Option<&Step>, replaced: bool) -> ClusterPlacement {
    let mut placement = ClusterPlacement { state: state(member, step), ..ClusterPlacement::default() };
    let mut why = Vec::new();
    if let Some(share) = &member.share {
        placement.desired = share.replicas;
        placement.overflow = share.overflow;
        why.push(share.reason.to_string());
    }
    match (member.reach, step) {
        (Reach::Online, Some(step)) if step.phase != Phase::Done => why.push(step.phase.to_string()),
        (Reach::Online, _) => {}
        (Reach::Unsure, _) => why.push("nothing is known of it at the moment".to_owned()),
        (Reach::Offline, _) => why.push("it is offline; the counts are the last ones known".to_owned()),
    }
    placement.why = why.join("; ");
    if let Some(local) = &member.local {
        placement.replicas = local.replicas;
        placement.ready = local.ready;
        placement.available = local.available;
        placement.unschedulable = local.unschedulable;
        if local.template.as_ref() == Some(&desired.template) {
            placement.updated = Split::of(local, replaced).new;
        }
    }
    placement
}

fn state(member: &Member, step: Option<&Step>) -> ClusterState {
    match (member.reach, step.map(|step| &step.phase)) {
        (Reach::Offline, _) => ClusterState::Offline,
        (Reach::Unsure, _) => ClusterState::Unknown,
        (_, None | Some(Phase::Done)) => ClusterState::Ready,
        (_, Some(Phase::Updating(_))) => ClusterState::Updating,
        (_, Some(Phase::Settling(_) | Phase::Creating | Phase::Refusing(_))) => ClusterState::Progressing,
        (_, Some(Phase::Waiting | Phase::Held)) => ClusterState::Waiting,
        (_, Some(Phase::Stalled(_))) => ClusterState::Stalled,
    }
}
