//! What a decision is made from.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use koinon_api::alike::{Alike, fold, unfold};
use koinon_api::rollout::{ClusterOrder, MaxConcurrent};
use serde::{Deserialize, Serialize};

use crate::planner::Share;

/// The federated Deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Desired {
    /// Its name; shadows are called after it.
    pub name: String,
    /// Its `metadata.generation`.
    pub generation: i64,
    /// The hash of its pod template. Templates are told apart by this hash alone, never by names that members give
    /// their ReplicaSets: those differ between releases of Kubernetes.
    pub template: String,
    /// Its `spec.replicas`.
    pub replicas: i64,
    /// Its `spec.strategy`.
    pub strategy: Strategy,
    /// Its `spec.paused`.
    pub paused: bool,
    /// Its `spec.progressDeadlineSeconds`.
    pub progress_deadline: Option<Duration>,
    /// Its `spec.revisionHistoryLimit`.
    pub revision_history_limit: usize,
    /// In which order clusters are updated.
    pub order: ClusterOrder,
    /// How many at a time.
    pub concurrent: MaxConcurrent,
    /// Who decides how many replicas a member has.
    pub counting: Counting,
}

/// How pods are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Cluster after cluster, and in each as its own Deployment controller does it.
    RollingUpdate {
        /// How many replicas of a member may be missing while it is updated.
        max_unavailable: Amount,
        /// How many more there may be meanwhile.
        max_surge: Amount,
    },
    /// All pods end, then new ones start; in all clusters at once, so nothing runs in between.
    Recreate,
}

/// A number of replicas, or a part of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// So many.
    Count(i64),
    /// So many of a hundred.
    Percent(i64),
}

impl Amount {
    /// The number for so many replicas, rounded down as Kubernetes does for what may be missing.
    pub fn of(self, replicas: i64) -> i64 {
        match self {
            Amount::Count(count) => count.max(0),
            Amount::Percent(percent) => replicas.max(0).saturating_mul(percent.max(0)) / 100,
        }
    }

    /// The same rounded up, as Kubernetes does for what may come first.
    pub fn rounded_up(self, replicas: i64) -> i64 {
        match self {
            Amount::Count(count) => count.max(0),
            Amount::Percent(percent) => {
                (replicas.max(0).saturating_mul(percent.max(0)).saturating_add(99)) / 100
            }
        }
    }
}

/// Who decides how many replicas a member has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// The planner.
    Federation,
    /// The member itself, once it has a Deployment: an autoscaler there does.
    Member,
}

/// What is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct View {
    /// Every member of the federation.
    pub members: BTreeMap<String, Member>,
    /// The shadow ReplicaSets that there are.
    pub shadows: Vec<Shadow>,
    /// Who was started before.
    pub record: Record,
    /// What the Deployment last said of its update.
    pub said: Said,
}

/// What a Deployment says of its update, by its condition `Progressing`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Said {
    /// Nothing that matters.
    #[default]
    Nothing,
    /// It goes on, and last made progress then.
    Progressing(Timestamp),
    /// It has ended.
    Ended,
    /// It made no progress for too long.
    Failed,
}

/// One member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Whether it can be asked.
    pub reach: Reach,
    /// Its part of the replicas. None for a member that the planner was not asked about.
    pub share: Option<Share>,
    /// Its Deployment. None means that it has none if it is online, else that nothing is known.
    pub local: Option<Local>,
    /// What it says to what it is sent, if it refuses that again and again.
    pub refused: Option<String>,
}

/// Whether a member can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// What is known of it is complete.
    Online,
    /// Not listed yet, or not answering but not for long, or it was sent something and nobody knows whether it arrived.
    /// Nothing is done to it, and nothing is started that it might be in the middle of.
    Unsure,
    /// It has not answered for so long that nobody waits for it.
    Offline,
}

/// A member's Deployment in counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Local {
    /// The hash of its template, by the same function as [`Desired::template`]. None if it is none that we ever wrote.
    pub template: Option<String>,
    /// Its `metadata.generation`.
    pub generation: i64,
    /// The generation that its status speaks of.
    pub observed_generation: i64,
    /// Since when that has been another one than its own, for all that is known.
    pub unobserved_since: Option<Timestamp>,
    /// Its `spec.replicas`.
    pub spec_replicas: i64,
    /// Its status: all pods.
    pub replicas: i64,
    /// Those of its newest template.
    pub updated: i64,
    /// Those that are ready.
    pub ready: i64,
    /// Those that have been ready for long enough.
    pub available: i64,
    /// Pods that found no node for too long.
    pub unschedulable: i64,
    /// Pods that could not be created for too long.
    pub missing: i64,
    /// What its controller says when it gave up waiting for progress.
    pub progress_failed: Option<String>,
    /// Why pods cannot be created there, as it says.
    pub failing: Option<String>,
}

impl Local {
    /// Whether its status speaks of its present spec.
    pub fn is_observed(&self) -> bool {
        self.observed_generation >= self.generation
    }

    /// Replicas that wait for room.
    pub fn stuck(&self) -> i64 {
        self.unschedulable.max(0) + self.missing.max(0)
    }
}

/// A shadow ReplicaSet as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shadow {
    /// Its name.
    pub name: String,
    /// The hash of its template.
    pub template: String,
    /// Its revision.
    pub revision: i64,
}

/// So many clusters are written down one by one, which is easier to read.
const FEW: usize = 100;

/// Which clusters are being updated: the content of [`ROLLOUT`](koinon_api::names::workloads::ROLLOUT).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "RecordText", into = "RecordText")]
pub struct Record {
    /// Those that were started and have not finished.
    pub clusters: BTreeMap<String, Started>,
}

/// The record as it is written: thousands of clusters that were started alike take little room, as an annotation must.
#[derive(Clone, Default, Serialize, Deserialize)]
struct RecordText {
    clusters: BTreeMap<String, Started>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    alike: Vec<Alike<Started>>,
}

impl From<RecordText> for Record {
    fn from(text: RecordText) -> Record {
        Record { clusters: unfold(text.clusters, text.alike) }
    }
}

impl From<Record> for RecordText {
    fn from(record: Record) -> RecordText {
        if record.clusters.len() <= FEW {
            return RecordText { clusters: record.clusters, alike: Vec::new() };
        }
        let (clusters, alike) = fold(&record.clusters);
        RecordText { clusters, alike }
    }
}

/// A cluster that was started.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Started {
    /// When.
    pub since: Timestamp,
    /// How many replicas were available before.
    pub available: i64,
    /// The template that it had before, if it was one of ours.
    pub from: Option<String>,
    /// The template that it was started for.
    pub to: String,
    /// How much fits there, if that was known. While pods are replaced, those that showed it go, and for a while
    /// nothing does; without this the planner would fill a full cluster with every update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_that_were_started_alike_fit_into_an_annotation() {
        let started = |number: i64| Started {
            since: Timestamp::UNIX_EPOCH,
            available: 2 + number % 2,
            from: Some("bcdfghjklm".into()),
            to: "mlkjhgfdcb".into(),
            room: (number == 7).then_some(1),
        };
        let record = |count: i64| Record {
            clusters: (0..count).map(|n| (format!("cluster-{n:05}"), started(n))).collect(),
        };
        let text = serde_json::to_string(&record(3000)).unwrap();
        assert!(text.len() < 64 * 1024, "{}", text.len());
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record(3000));
        // Few are written plainly.
        assert!(!serde_json::to_string(&record(10)).unwrap().contains("alike"));
    }
}
