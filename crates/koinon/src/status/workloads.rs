//! The federated workloads: where their replicas are, how far an update is, and who is waited for.

use std::collections::BTreeMap;

use anyhow::Context as _;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, ReplicaSet};
use koinon_api::names::workloads;
use koinon_api::placement::{ClusterPlacement, ClusterState, Placement};
use koinon_control::call::within_deadline;
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Scope;
use crate::table::table;

/// One federated workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Workload {
    pub(super) kind: &'static str,
    pub(super) namespace: String,
    pub(super) name: String,
    /// How many there should be.
    pub(super) replicas: i64,
    pub(super) ready: i64,
    pub(super) available: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) updated: Option<i64>,
    /// By cluster; nothing as long as nobody looked at it.
    pub(super) clusters: BTreeMap<String, ClusterPlacement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rollout: Option<Rollout>,
    /// Who is waited for, and what is wrong, in words.
    pub(super) waiting: Vec<String>,
}

/// How far an update is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Rollout {
    pub(super) state: Progress,
    /// The cluster that it is at, counted from 1.
    pub(super) step: usize,
    /// How many clusters take part.
    pub(super) of: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum Progress {
    Done,
    Updating,
    Paused,
    /// A cluster makes no progress, and nobody else is updated.
    Stopped,
    /// The role has not looked at the last change.
    Unseen,
}

pub(super) async fn gather(scope: &Scope<'_>) -> anyhow::Result<Vec<Workload>> {
    let deployments = list::<Deployment>(scope.client, scope.namespace, "Deployments");
    let sets = list::<ReplicaSet>(scope.client, scope.namespace, "ReplicaSets");
    let (deployments, sets) = tokio::try_join!(deployments, sets)?;
    let mut all: Vec<Workload> = deployments.iter().map(Workload::of_deployment).collect();
    all.extend(sets.iter().filter(|set| is_federated(set)).map(Workload::of_set));
    all.sort_by(|one, other| {
        (&one.namespace, one.kind, &one.name).cmp(&(&other.namespace, other.kind, &other.name))
    });
    Ok(all)
}

async fn list<K>(client: &Client, namespace: Option<&str>, what: &str) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let api: Api<K> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let listed = within_deadline(api.list(&ListParams::default())).await;
    Ok(listed.with_context(|| format!("the federation's {what} cannot be listed"))?.items)
}

/// Whether it is spread itself, and not the mirror of a Deployment's revision.
fn is_federated(set: &ReplicaSet) -> bool {
    !set.annotations().contains_key(workloads::SHADOW)
        && set.owner_references().iter().all(|owner| owner.controller != Some(true))
}

impl Workload {
    pub(super) fn of_deployment(deployment: &Deployment) -> Workload {
        let status = deployment.status.clone().unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let seen = status.observed_generation >= deployment.metadata.generation;
        let clusters = clusters(deployment.annotations());
        let paused = deployment.spec.as_ref().and_then(|spec| spec.paused) == Some(true);
        let rollout = rollout(&conditions, &clusters, seen, paused);
        let waiting = waiting(&conditions, rollout.as_ref());
        Workload {
            kind: "deployment",
            namespace: deployment.namespace().unwrap_or_default(),
            name: deployment.name_any(),
            replicas: deployment.spec.as_ref().and_then(|spec| spec.replicas).map_or(1, i64::from),
            ready: count(status.ready_replicas),
            available: count(status.available_replicas),
            updated: Some(count(status.updated_replicas)),
            clusters,
            rollout,
            waiting,
        }
    }

    pub(super) fn of_set(set: &ReplicaSet) -> Workload {
        let status = set.status.clone().unwrap_or_default();
        let mut waiting: Vec<String> =
            status.conditions.into_iter().flatten().filter_map(|condition| condition.message).collect();
        if status.observed_generation < set.metadata.generation {
            waiting.push(UNSEEN.to_owned());
        }
        Workload {
            kind: "replicaset",
            namespace: set.namespace().unwrap_or_default(),
            name: set.name_any(),
            replicas: set.spec.as_ref().and_then(|spec| spec.replicas).map_or(1, i64::from),
            ready: count(status.ready_replicas),
            available: count(status.available_replicas),
            updated: None,
            clusters: clusters(set.annotations()),
            rollout: None,
            waiting,
        }
    }

    /// Where the replicas are: `a=4 b=2/4`, what is available and what there should be where that differs.
    fn layout(&self) -> String {
        let part = |(name, one): (&String, &ClusterPlacement)| match one.state {
            ClusterState::Offline => format!("{name}=?"),
            _ if one.available == one.desired => format!("{name}={}", one.desired),
            _ => format!("{name}={}/{}", one.available, one.desired),
        };
        self.clusters.iter().map(part).collect::<Vec<_>>().join(" ")
    }
}

const UNSEEN: &str = "nobody has looked at the last change yet: does koinon run workloads run?";

fn count(count: Option<i32>) -> i64 {
    i64::from(count.unwrap_or(0))
}

fn clusters(annotations: &BTreeMap<String, String>) -> BTreeMap<String, ClusterPlacement> {
    let placement = annotations.get(workloads::PLACEMENT).and_then(|text| Placement::parse(text));
    placement.map(|placement| placement.clusters).unwrap_or_default()
}

fn rollout(
    conditions: &[DeploymentCondition],
    clusters: &BTreeMap<String, ClusterPlacement>,
    seen: bool,
    paused: bool,
) -> Option<Rollout> {
    let progressing = conditions.iter().find(|one| one.type_ == "Progressing");
    let takes_part =
        |one: &&ClusterPlacement| (one.desired > 0 || one.replicas > 0) && one.state != ClusterState::Offline;
    let part: Vec<&ClusterPlacement> = clusters.values().filter(takes_part).collect();
    let busy = |one: &ClusterPlacement| matches!(one.state, ClusterState::Updating | ClusterState::Stalled);
    let done = |one: &ClusterPlacement| {
        !busy(one) && one.state != ClusterState::Waiting && one.updated >= one.replicas
    };
    let at = part.iter().filter(|one| done(one) || busy(one)).count();
    let state = match progressing?.reason.as_deref() {
        _ if !seen => Progress::Unseen,
        Some("NewReplicaSetAvailable") => Progress::Done,
        Some("ProgressDeadlineExceeded") => Progress::Stopped,
        _ if paused => Progress::Paused,
        _ => Progress::Updating,
    };
    Some(Rollout { state, step: at, of: part.len() })
}

/// What keeps it from being done, and what is wrong with how it is said.
fn waiting(conditions: &[DeploymentCondition], rollout: Option<&Rollout>) -> Vec<String> {
    let mut waiting = Vec::new();
    if rollout.is_none_or(|rollout| rollout.state == Progress::Unseen) {
        waiting.push(UNSEEN.to_owned());
    }
    let unfinished = rollout.is_some_and(|rollout| rollout.state != Progress::Done);
    let told = conditions.iter().filter(|one| match one.type_.as_str() {
        "Progressing" => unfinished,
        "Available" | "ReplicaFailure" => one.type_ == "ReplicaFailure" && one.status == "True",
        _ => one.status == "False",
    });
    waiting.extend(told.filter_map(|one| one.message.clone()).filter(|message| !message.is_empty()));
    waiting
}

impl Rollout {
    /// As people read it.
    pub(super) fn words(&self) -> String {
        let Rollout { step, of, .. } = self;
        match self.state {
            Progress::Done => "done".to_owned(),
            Progress::Updating => format!("{step}/{of}"),
            Progress::Paused => format!("{step}/{of} paused"),
            Progress::Stopped => format!("{step}/{of} stopped"),
            Progress::Unseen => "unseen".to_owned(),
        }
    }
}

pub(super) fn render(all: &[Workload]) -> String {
    if all.is_empty() {
        return "none\n".to_owned();
    }
    let head = ["NAMESPACE", "WORKLOAD", "READY", "UPDATED", "LAYOUT", "STEP", "WAITING FOR"];
    let row = |one: &Workload| {
        vec![
            one.namespace.clone(),
            format!("{}/{}", one.kind, one.name),
            format!("{}/{}", one.ready, one.replicas),
            one.updated.map_or_else(|| "-".to_owned(), |updated| updated.to_string()),
            one.layout(),
            one.rollout.as_ref().map_or_else(|| "-".to_owned(), Rollout::words),
            one.waiting.join("; "),
        ]
    };
    let rows: Vec<Vec<String>> =
        std::iter::once(head.map(str::to_owned).to_vec()).chain(all.iter().map(row)).collect();
    table(&rows)
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A Deployment over three clusters, the second of which is being updated.
    pub(in crate::status) fn half_way() -> Deployment {
        let cluster = |state: &str, updated: i64, available: i64| {
            json!({"desired": 3, "replicas": 3, "ready": available, "available": available, "updated": updated,
                   "unschedulable": 0, "overflow": 0, "state": state, "why": "3 for its weight of 1 in 3"})
        };
        let clusters = json!({"a": cluster("Ready", 3, 3), "b": cluster("Updating", 1, 2), "c": cluster("Waiting", 0, 3)});
        let message = "b: 2 of its pods still have an older template; to be updated: c";
        deployment(clusters, "True", "ReplicaSetUpdated", message)
    }

    fn deployment(clusters: Value, status: &str, reason: &str, message: &str) -> Deployment {
        let placement = json!({"observedGeneration": 2, "clusters": clusters}).to_string();
        serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "default", "generation": 2, "annotations": {workloads::PLACEMENT: placement}},
            "spec": {"replicas": 9, "selector": {}, "template": {}},
            "status": {
                "observedGeneration": 2, "replicas": 9, "readyReplicas": 8, "availableReplicas": 8, "updatedReplicas": 4,
                "conditions": [{"type": "Progressing", "status": status, "reason": reason, "message": message}],
            },
        }))
        .unwrap()
    }

    #[test]
    fn an_update_half_way() {
        let text = render(&[Workload::of_deployment(&half_way())]);
        assert_eq!(
            text,
            "NAMESPACE   WORKLOAD         READY   UPDATED   LAYOUT        STEP   WAITING FOR\n\
             default     deployment/web   8/9     4         a=3 b=2/3 c=3   2/3    b: 2 of its pods still have an older template; to be updated: c\n"
                .replace("LAYOUT        ", "LAYOUT          ")
        );
    }

    #[test]
    fn what_is_done_waits_for_nobody_and_what_is_stopped_says_where() {
        let ready =
            json!({"a": {"desired": 9, "replicas": 9, "available": 9, "updated": 9, "state": "Ready"}});
        let done =
            Workload::of_deployment(&deployment(ready, "True", "NewReplicaSetAvailable", "all is well"));
        assert_eq!(done.rollout.as_ref().unwrap().words(), "done");
        assert_eq!(done.waiting, [""; 0]);
        let stalled = json!({"a": {"desired": 9, "replicas": 9, "updated": 1, "state": "Stalled"},
                             "b": {"desired": 0, "state": "Offline"}});
        let message = "a makes no progress: timed out";
        let stopped =
            Workload::of_deployment(&deployment(stalled, "False", "ProgressDeadlineExceeded", message));
        assert_eq!(stopped.rollout.as_ref().unwrap().words(), "1/1 stopped");
        assert_eq!(stopped.waiting, [message]);
        assert_eq!(stopped.layout(), "a=0/9 b=?");
    }

    #[test]
    fn what_nobody_looks_after_says_so() {
        let mut unseen = half_way();
        unseen.metadata.generation = Some(3);
        let unseen = Workload::of_deployment(&unseen);
        assert_eq!(unseen.rollout.as_ref().unwrap().words(), "unseen");
        assert!(unseen.waiting[0].contains("does koinon run workloads run?"), "{:?}", unseen.waiting);
        let never = Deployment { status: None, ..half_way() };
        assert_eq!(Workload::of_deployment(&never).rollout, None);
    }
}
