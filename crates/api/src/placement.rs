//! The placement annotation: where a workload's replicas are, cluster by cluster.
//!
//! One annotation on the workload instead of an object for each cluster: it is read by `koinon status`, by
//! the dashboard, and by whoever runs `kubectl get -o yaml`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The content of [`PLACEMENT`](crate::names::workloads::PLACEMENT).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// The generation of the workload that this follows from.
    pub observed_generation: i64,
    /// By cluster.
    pub clusters: BTreeMap<String, ClusterPlacement>,
}

/// One cluster's part of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterPlacement {
    /// The replicas that it should run.
    pub desired: i64,
    /// The replicas that it has.
    pub replicas: i64,
    /// Those that are ready.
    pub ready: i64,
    /// Those that have been ready for long enough.
    pub available: i64,
    /// Those of the current template.
    pub updated: i64,
    /// Those that found no node for too long.
    pub unschedulable: i64,
    /// Those that would go there if it had room.
    pub overflow: i64,
    /// What it is doing.
    pub state: ClusterState,
    /// Why it has this many, in one sentence.
    pub why: String,
}

/// What a cluster is doing with its part of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum ClusterState {
    /// It runs what it should.
    Ready,
    /// It is on its way to what it should run.
    #[default]
    Progressing,
    /// It is being updated to the current template.
    Updating,
    /// It keeps an older template until its turn comes.
    Waiting,
    /// Its update makes no progress; nobody else is updated until it does.
    Stalled,
    /// It does not answer; the counts are the last ones known.
    Offline,
    /// Nothing is known of it yet, or not for a moment.
    Unknown,
}

impl Placement {
    /// Reads the annotation; what somebody else wrote there is simply no placement.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The annotation's JSON. The same placement is always the same text.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a placement has only numbers, text and names as keys")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_that_users_read() {
        let one = ClusterPlacement {
            desired: 2,
            replicas: 2,
            why: "2 for its weight".into(),
            ..ClusterPlacement::default()
        };
        let placement = Placement { observed_generation: 3, clusters: BTreeMap::from([("a".into(), one)]) };
        let text = placement.to_json();
        assert_eq!(
            text,
            r#"{"observedGeneration":3,"clusters":{"a":{"desired":2,"replicas":2,"ready":0,"available":0,"updated":0,"unschedulable":0,"overflow":0,"state":"Progressing","why":"2 for its weight"}}}"#
        );
        assert_eq!(Placement::parse(&text), Some(placement));
        assert_eq!(Placement::parse("what?"), None);
    }
}
