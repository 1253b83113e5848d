//! The placement annotation: where a workload's replicas are, cluster by cluster.
//!
//! One annotation on the workload instead of an object for each cluster: it is read by `koinon status`, by
//! the dashboard, and by whoever runs `kubectl get -o yaml`.
//!
//! All annotations of an object share 256 KiB. A placement that would take too much of it says less, step by step: first once
//! what is the same for several clusters (`alike`), then without the longer reasons, then without clusters that have nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::alike::{Alike, fold, unfold};

/// What all annotations of an object may take together, in bytes.
pub const ANNOTATIONS: usize = 256 * 1024;
/// A placement is at most so long, so that there is room for what others write.
const LONGEST: usize = ANNOTATIONS / 2;
/// What is left of reasons where there is little room.
const SHORT: usize = 60;

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
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
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
    /// It has an object of this name that somebody else made, and that is not taken over.
    Foreign,
}

/// The annotation of a placement that is shortened.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Short {
    observed_generation: i64,
    clusters: BTreeMap<String, ClusterPlacement>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    alike: Vec<Alike<ClusterPlacement>>,
    /// How many clusters it does not speak of.
    #[serde(default, skip_serializing_if = "is_zero")]
    left_out: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Placement {
    /// Reads the annotation; what somebody else wrote there is simply no placement.
    pub fn parse(text: &str) -> Option<Self> {
        let Short { observed_generation, clusters, alike, .. } = serde_json::from_str(text).ok()?;
        Some(Placement { observed_generation, clusters: unfold(clusters, alike) })
    }

    /// The annotation's JSON, whole. The same placement is always the same text.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a placement has only numbers, text and names as keys")
    }

    /// The annotation's JSON where an object's other annotations take so many bytes: shortened if it must be, and never so long
    /// that the object could not be written.
    pub fn to_json_beside(&self, others: usize) -> String {
        // Half of what is left: whatever else is written down meanwhile finds room too.
        let most = LONGEST.min(ANNOTATIONS.saturating_sub(others) / 2);
        let whole = self.to_json();
        if whole.len() <= most {
            return whole;
        }
        let mut clusters = self.clusters.clone();
        let mut text = self.folded(&clusters);
        if text.len() > most {
            clusters.values_mut().for_each(|one| shorten(&mut one.why));
            text = self.folded(&clusters);
        }
        if text.len() > most {
            clusters.values_mut().for_each(|one| one.why.clear());
            clusters.retain(|_, one| one.has_something());
            text = self.folded(&clusters);
        }
        while text.len() > most && !clusters.is_empty() {
            // Who is settled shows it by what it has; the others are what users look for.
            let mut names: Vec<&String> = clusters.keys().collect();
            names.sort_by_key(|name| (clusters[*name].state == ClusterState::Ready, *name));
            let kept = names.into_iter().take(clusters.len() / 2).cloned().collect::<Vec<_>>();
            clusters = kept.into_iter().filter_map(|name| clusters.remove_entry(&name)).collect();
            text = self.folded(&clusters);
        }
        text
    }

    fn folded(&self, told: &BTreeMap<String, ClusterPlacement>) -> String {
        let (clusters, alike) = fold(told);
        let left_out = self.clusters.len() - told.len();
        let short = Short { observed_generation: self.observed_generation, clusters, alike, left_out };
        serde_json::to_string(&short).expect("a placement has only numbers, text and names as keys")
    }
}

impl ClusterPlacement {
    /// Whether anything of the workload is there, should be, or would be if it could.
    fn has_something(&self) -> bool {
        self.desired > 0 || self.replicas > 0 || self.overflow > 0 || self.unschedulable > 0
    }
}

fn shorten(why: &mut String) {
    if why.chars().count() > SHORT {
        *why = why.chars().take(SHORT).chain(['…']).collect();
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

    /// The placement of a workload over so many clusters, each with its own reason if `own`.
    fn large(clusters: usize, own: bool) -> Placement {
        let one = |number: usize| {
            let count = i64::try_from(number % 3).unwrap();
            let why = if own {
                format!("refused: {number} {}", "because ".repeat(20))
            } else {
                "2 for its weight".into()
            };
            let state = if number.is_multiple_of(50) { ClusterState::Stalled } else { ClusterState::Ready };
            let counts = ClusterPlacement {
                desired: count,
                replicas: count,
                ready: count,
                ..ClusterPlacement::default()
            };
            (format!("cluster-{number:05}"), ClusterPlacement { why, state, ..counts })
        };
        Placement { observed_generation: 7, clusters: (0..clusters).map(one).collect() }
    }

    #[test]
    fn of_very_many_clusters_what_is_alike_is_said_once() {
        let placement = large(3000, false);
        let text = placement.to_json_beside(0);
        assert!(placement.to_json().len() > LONGEST && text.len() <= LONGEST, "{}", text.len());
        assert_eq!(Placement::parse(&text), Some(placement));
        // Where there is room, users read the plain form.
        assert_eq!(large(300, false).to_json_beside(0), large(300, false).to_json());
        assert_ne!(large(300, false).to_json_beside(ANNOTATIONS - 40_000), large(300, false).to_json());
    }

    #[test]
    fn reasons_give_way_before_counts_do() {
        let placement = large(3000, true);
        let text = placement.to_json_beside(0);
        assert!(text.len() <= LONGEST, "{}", text.len());
        let read = Placement::parse(&text).unwrap();
        let counts = |placement: &Placement| {
            let has = |(_, one): &(&String, &ClusterPlacement)| one.has_something();
            let each = placement
                .clusters
                .iter()
                .filter(has)
                .map(|(name, one)| (name.clone(), one.desired, one.state));
            each.collect::<Vec<_>>()
        };
        assert_eq!(counts(&read), counts(&placement));
        assert_eq!(
            counts(&Placement::parse(&large(500, true).to_json_beside(0)).unwrap()),
            counts(&large(500, true))
        );
    }

    #[test]
    fn there_is_always_a_text_that_fits() {
        for (clusters, others) in
            [(3000, ANNOTATIONS - 4000), (20_000, 0), (100, ANNOTATIONS), (3000, 2 * ANNOTATIONS)]
        {
            let text = large(clusters, true).to_json_beside(others);
            let most = LONGEST.min(ANNOTATIONS.saturating_sub(others) / 2).max(100);
            assert!(text.len() <= most, "{clusters} beside {others}: {}", text.len());
            let read = Placement::parse(&text).unwrap();
            assert_eq!(read.observed_generation, 7);
            let stalled = read.clusters.values().filter(|one| one.state == ClusterState::Stalled).count();
            assert!(
                stalled * 2 >= read.clusters.len().min(30),
                "those in trouble are told of first: {stalled}"
            );
        }
    }
}
