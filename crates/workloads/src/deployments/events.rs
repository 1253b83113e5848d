//! Events about a rollout: what a user would ask about an update.

use k8s_openapi::api::apps::v1::Deployment;
use koinon_control::events::Weight;

use crate::events::Told;
use crate::rollout::{Plan, WaitingOn};

/// What an update has come to, beside where the replicas are.
pub(super) fn tell(deployment: &Deployment, plan: &Plan) -> Vec<Told> {
    let mut told = Vec::new();
    let status = deployment.status.as_ref();
    let progressing = |reason: &str| {
        let mut conditions = status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.any(|one| one.type_ == "Progressing" && one.reason.as_deref() == Some(reason))
    };
    let Some(now) = plan.status.conditions.iter().find(|one| one.kind == "Progressing") else { return told };
    let mut say = |weight, reason, message| told.push(Told { weight, reason, message });
    match now.reason {
        "ProgressDeadlineExceeded" if !progressing(now.reason) => {
            let stalled = |waiting: &WaitingOn| matches!(waiting, WaitingOn::Stalled { .. });
            let stops = if plan.waiting.iter().any(stalled) { "no other cluster is updated: " } else { "" };
            say(Weight::Warning, "RolloutStopped", format!("{stops}{}", now.message));
        }
        "NewReplicaSetAvailable" if status.is_some() && !progressing(now.reason) => {
            say(Weight::Normal, "RolledOut", now.message.clone());
        }
        _ => {}
    }
    let looked_at = status.and_then(|status| status.observed_generation) == deployment.metadata.generation;
    if !looked_at {
        for warning in &plan.warnings {
            say(Weight::Warning, "UnknownCluster", warning.to_string());
        }
    }
    told
}

/// That clusters are started.
pub(super) fn started(plan: &Plan) -> Option<Told> {
    let clusters: Vec<&str> = plan.started.iter().map(String::as_str).collect();
    let words = match clusters.as_slice() {
        [] => return None,
        [one] => format!("cluster {one} is being updated"),
        several => format!("clusters {} are being updated", several.join(", ")),
    };
    Some(Told { weight: Weight::Normal, reason: "Updating", message: words })
}
