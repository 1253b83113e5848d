//! What is kept of a member's objects: counts, and numbers that stand for contents.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use koinon_fleet::Record;
use kube::ResourceExt as _;
use serde::{Deserialize, Serialize};

use crate::placing::{self, Wait};
use crate::writing::Written;
use crate::{content, startup};

/// A member's ReplicaSet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SetRecord {
    /// Stands for labels, annotations and spec, apart from the count.
    pub(crate) content: u64,
    pub(crate) spec_replicas: i64,
    pub(crate) replicas: i64,
    pub(crate) fully_labeled: i64,
    pub(crate) ready: i64,
    pub(crate) available: i64,
    pub(crate) observed: bool,
    pub(crate) failing: Option<Failing>,
}

/// Why pods cannot be created, and since when.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failing {
    pub(crate) since: Timestamp,
    pub(crate) message: Box<str>,
}

impl Record for SetRecord {
    type Object = ReplicaSet;

    fn fold(set: &ReplicaSet) -> Option<SetRecord> {
        let (spec, status) = (set.spec.as_ref()?, set.status.clone().unwrap_or_default());
        let count = |count: Option<i32>| i64::from(count.unwrap_or(0));
        let failing = status.conditions.iter().flatten().find(|one| one.type_ == "ReplicaFailure");
        Some(SetRecord {
            content: content::of_object(
                set.metadata.labels.as_ref(),
                set.metadata.annotations.as_ref(),
                &set.spec,
            ),
            spec_replicas: count(spec.replicas),
            replicas: i64::from(status.replicas),
            fully_labeled: count(status.fully_labeled_replicas),
            ready: count(status.ready_replicas),
            available: count(status.available_replicas),
            observed: is_observed(&set.metadata, status.observed_generation),
            failing: failing
                .filter(|one| one.status == "True")
                .and_then(|one| Failing::of(one.last_transition_time.as_ref(), one.message.as_deref())),
        })
    }
}

impl Written for SetRecord {
    const KIND: Kind = Kind::ReplicaSet;

    fn content(&self) -> u64 {
        self.content
    }
}

impl SetRecord {
    /// What shows whether its pods do not start, of which so many wait for a node.
    pub(crate) fn startup(&self, waiting: usize) -> startup::Counts {
        startup::Counts {
            content: self.content,
            scheduled: self.replicas - i64::try_from(waiting).unwrap_or(i64::MAX),
            available: self.available,
            gave_up: false,
        }
    }

    pub(crate) fn local(&self) -> placing::Local {
        placing::Local {
            spec_replicas: self.spec_replicas,
            replicas: self.replicas,
            available: self.available,
            failing_since: self.failing.as_ref().map(|failing| failing.since),
            observed: self.observed,
        }
    }
}

impl Failing {
    pub(crate) fn of(since: Option<&Time>, message: Option<&str>) -> Option<Failing> {
        Some(Failing { since: since?.0, message: message.unwrap_or_default().into() })
    }
}

pub(crate) fn is_observed(metadata: &ObjectMeta, observed: Option<i64>) -> bool {
    observed.unwrap_or(0) >= metadata.generation.unwrap_or(0)
}

/// The kinds that are federated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Kind {
    ReplicaSet,
    Deployment,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Kind::ReplicaSet => "ReplicaSet",
            Kind::Deployment => "Deployment",
        }
    }
}

/// A pod without a node, and the workload it belongs to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WaitingPod {
    pub(crate) kind: Kind,
    /// The workload's name; it is in the pod's namespace.
    pub(crate) workload: Box<str>,
    pub(crate) wait: Wait,
}

/// The label by which a Deployment tells the pods of its ReplicaSets apart; it is also the end of their names.
const TEMPLATE_HASH: &str = "pod-template-hash";

impl Record for WaitingPod {
    type Object = Pod;

    /// Nothing for a pod that is going, has a node, is held back on purpose, or belongs to nobody of interest.
    fn fold(pod: &Pod) -> Option<WaitingPod> {
        let has_node =
            pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_deref().is_some_and(|n| !n.is_empty()));
        if pod.metadata.deletion_timestamp.is_some() || has_node {
            return None;
        }
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let scheduled = conditions.into_iter().find(|one| one.type_ == "PodScheduled");
        if scheduled.is_some_and(|one| one.reason.as_deref() == Some("SchedulingGated")) {
            return None;
        }
        let wait = match scheduled.and_then(refused_since) {
            Some(since) => Wait::Refused(since.0),
            None => Wait::Unseen(pod.metadata.creation_timestamp.as_ref()?.0),
        };
        let owner = pod.owner_references().iter().find(|owner| owner.controller == Some(true))?;
        let (kind, workload) = workload(owner, pod.labels())?;
        Some(WaitingPod { kind, workload: workload.into(), wait })
    }
}

fn refused_since(scheduled: &PodCondition) -> Option<&Time> {
    scheduled.last_transition_time.as_ref().filter(|_| scheduled.status == "False")
}

/// Whether a pod belongs to this workload of its namespace.
pub(crate) fn belongs(pod: &Pod, kind: Kind, name: &str) -> bool {
    let mut owners = pod.owner_references().iter().filter(|owner| owner.controller == Some(true));
    owners.any(|owner| workload(owner, pod.labels()) == Some((kind, name)))
}

fn workload<'a>(owner: &'a OwnerReference, labels: &BTreeMap<String, String>) -> Option<(Kind, &'a str)> {
    if owner.kind != "ReplicaSet" {
        return None;
    }
    let deployment = labels
        .get(TEMPLATE_HASH)
        .and_then(|hash| owner.name.strip_suffix(hash.as_str()))
        .and_then(|name| name.strip_suffix('-'));
    Some(match deployment {
        Some(name) => (Kind::Deployment, name),
        None => (Kind::ReplicaSet, owner.name.as_str()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(change: Value) -> Option<String> {
        let mut pod = json!({
            "metadata": {
                "name": "web-x", "namespace": "default", "creationTimestamp": "2027-01-01T00:00:00Z",
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d", "uid": "1", "controller": true}],
            },
            "spec": {"containers": []},
            "status": {},
        });
        json_patch(&mut pod, change);
        let pod: Pod = serde_json::from_value(pod).unwrap();
        WaitingPod::fold(&pod).map(|one| format!("{} {} {:?}", one.kind.as_str(), one.workload, one.wait))
    }

    fn json_patch(into: &mut Value, change: Value) {
        match (into, change) {
            (Value::Object(into), Value::Object(change)) => {
                for (name, value) in change {
                    json_patch(into.entry(name).or_insert(Value::Null), value);
                }
            }
            (into, change) => *into = change,
        }
    }

    #[test]
    fn only_pods_that_want_a_node_count_and_to_their_workload() {
        assert_eq!(pod(json!({})).unwrap(), "ReplicaSet web-5d Unseen(2027-01-01T00:00:00Z)");
        let template = json!({"metadata": {"labels": {"pod-template-hash": "5d"}}});
        assert_eq!(pod(template).unwrap(), "Deployment web Unseen(2027-01-01T00:00:00Z)");
        let unschedulable = json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "lastTransitionTime": "2027-01-01T00:01:00Z"}]}});
        assert_eq!(pod(unschedulable).unwrap(), "ReplicaSet web-5d Refused(2027-01-01T00:01:00Z)");
        let gated = json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}});
        assert_eq!(pod(gated), None);
        assert_eq!(pod(json!({"spec": {"nodeName": "node-1"}})), None);
        assert_eq!(pod(json!({"metadata": {"deletionTimestamp": "2027-01-01T00:01:00Z"}})), None);
        assert_eq!(pod(json!({"metadata": {"ownerReferences": []}})), None);
    }
}
