//! What a federated Deployment wants, and what its shadows and annotations remember, as plain values.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use koinon_api::failover::Failover;
use koinon_api::names::workloads;
use koinon_api::rollout::{ClusterOrder, MaxConcurrent};
use kube::ResourceExt as _;
use serde_json::Value;

use crate::digest::{digest, letters};
use crate::rollout::{Amount, Counting, Desired, Record, Said, Shadow, Strategy};
use crate::takeover::Policy;

/// The label that tells the pods of a Deployment's ReplicaSets apart.
pub(super) const TEMPLATE_HASH: &str = "pod-template-hash";
/// Kubernetes' own limit where the user gives none.
const HISTORY: usize = 10;

/// The name by which a template is known.
pub(crate) fn hash(template: &PodTemplateSpec) -> String {
    letters(digest(&plain(template)))
}

/// A template without the label that shadows add to it.
pub(super) fn plain(template: &PodTemplateSpec) -> Value {
    let mut template = template.clone();
    if let Some(labels) = template.metadata.as_mut().and_then(|metadata| metadata.labels.as_mut()) {
        labels.remove(TEMPLATE_HASH);
    }
    serde_json::to_value(template).unwrap_or_default()
}

/// What the user wants, and what is wrong with how it is said.
pub(super) fn desired(
    deployment: &Deployment,
    spec: &DeploymentSpec,
    counting: Counting,
) -> (Desired, Vec<String>) {
    let mut faults = Vec::new();
    let annotation = |name: &str| deployment.annotations().get(name).map(String::as_str);
    let mut fault =
        |name: &str, why: String| faults.push(format!("the annotation {name} cannot be used: {why}"));
    let order =
        annotation(workloads::CLUSTER_ORDER).map_or_else(|| Ok(ClusterOrder::default()), ClusterOrder::parse);
    let order = order.unwrap_or_else(|why| {
        fault(workloads::CLUSTER_ORDER, why.to_string());
        ClusterOrder::default()
    });
    let concurrent = annotation(workloads::MAX_CONCURRENT_CLUSTERS)
        .map_or_else(|| Ok(MaxConcurrent::default()), MaxConcurrent::parse);
    let concurrent = concurrent.unwrap_or_else(|why| {
        fault(workloads::MAX_CONCURRENT_CLUSTERS, why.to_string());
        MaxConcurrent::default()
    });
    faults.extend(Policy::fault(deployment.annotations()));
    faults.extend(Failover::fault(deployment.annotations()));
    let seconds = |seconds: i32| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let desired = Desired {
        name: deployment.name_any(),
        generation: deployment.metadata.generation.unwrap_or(0),
        template: hash(&spec.template),
        replicas: i64::from(spec.replicas.unwrap_or(1)),
        strategy: strategy(spec),
        paused: spec.paused.unwrap_or(false),
        progress_deadline: spec.progress_deadline_seconds.filter(|most| *most < i32::MAX).map(seconds),
        revision_history_limit: spec
            .revision_history_limit
            .map_or(HISTORY, |limit| usize::try_from(limit).unwrap_or(0)),
        order,
        concurrent,
        counting,
    };
    (desired, faults)
}

fn strategy(spec: &DeploymentSpec) -> Strategy {
    match spec.strategy.as_ref() {
        Some(strategy) if strategy.type_.as_deref() == Some("Recreate") => Strategy::Recreate,
        strategy => {
            let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
            Strategy::RollingUpdate {
                max_unavailable: amount(rolling.and_then(|one| one.max_unavailable.as_ref())),
                max_surge: amount(rolling.and_then(|one| one.max_surge.as_ref())),
            }
        }
    }
}

/// A number or a part; a quarter where nothing is said, as in Kubernetes.
pub(crate) fn amount(value: Option<&IntOrString>) -> Amount {
    match value {
        Some(IntOrString::Int(count)) => Amount::Count(i64::from(*count)),
        Some(IntOrString::String(text)) => {
            let percent = text.strip_suffix('%').and_then(|percent| percent.parse().ok());
            percent.map_or(Amount::Count(0), Amount::Percent)
        }
        None => Amount::Percent(25),
    }
}

/// Whether a ReplicaSet is marked as a mirror.
pub(crate) fn is_shadow(set: &ReplicaSet) -> bool {
    set.annotations().get(workloads::SHADOW).is_some_and(|value| value == "true")
}

/// Whether a ReplicaSet mirrors a revision of this Deployment.
pub(super) fn is_shadow_of(set: &ReplicaSet, deployment: &Deployment) -> bool {
    is_shadow(set) && is_owned_by(set, deployment)
}

/// Whether a ReplicaSet belongs to this Deployment.
pub(super) fn is_owned_by(set: &ReplicaSet, deployment: &Deployment) -> bool {
    let mut owners = set.owner_references().iter();
    owners.any(|owner| owner.controller == Some(true) && Some(&owner.uid) == deployment.metadata.uid.as_ref())
}

/// Whether it is one that lost its owner, or whose Deployment went and left it behind: as in one cluster, whoever selects it has it.
pub(super) fn is_left_for(set: &ReplicaSet, deployment: &Deployment) -> bool {
    let owned = set.owner_references().iter().any(|owner| owner.controller == Some(true));
    let named = shadow(set).is_some_and(|shadow| {
        shadow.name.strip_suffix(&shadow.template).and_then(|rest| rest.strip_suffix('-'))
            == Some(&deployment.name_any())
    });
    let selector = deployment.spec.as_ref().and_then(|spec| spec.selector.match_labels.as_ref());
    let selected = selector
        .is_some_and(|labels| labels.iter().all(|(name, value)| set.labels().get(name) == Some(value)));
    is_shadow(set) && !owned && named && selected && set.metadata.deletion_timestamp.is_none()
}

/// What a shadow stands for.
pub(super) fn shadow(set: &ReplicaSet) -> Option<Shadow> {
    let template = set.labels().get(TEMPLATE_HASH)?.clone();
    let revision = set.annotations().get(workloads::REVISION).and_then(|text| text.parse().ok()).unwrap_or(0);
    Some(Shadow { name: set.name_any(), template, revision })
}

/// Whether it says that members do not have what they should.
pub(super) fn has_failure(deployment: &Deployment) -> bool {
    let mut conditions = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|one| one.type_ == "ReplicaFailure" && one.status == "True")
}

/// What it says of its update.
pub(super) fn said(deployment: &Deployment) -> Said {
    let mut conditions = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let Some(progressing) = conditions.find(|one| one.type_ == "Progressing") else { return Said::Nothing };
    match progressing.reason.as_deref() {
        Some("NewReplicaSetAvailable") => Said::Ended,
        Some("ProgressDeadlineExceeded") => Said::Failed,
        Some("ReplicaSetUpdated") => {
            progressing.last_update_time.as_ref().map_or(Said::Nothing, |since| Said::Progressing(since.0))
        }
        _ => Said::Nothing,
    }
}

/// Who was started before; what somebody else wrote there is no record.
pub(super) fn record(deployment: &Deployment) -> Option<Record> {
    serde_json::from_str(deployment.annotations().get(workloads::ROLLOUT)?).ok()
}
