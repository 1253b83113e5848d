//! What the user wants of a workload, from its annotations; what cannot be read leaves everything as it was.

use std::collections::BTreeMap;

use koinon_api::names::workloads;
use koinon_api::placement::{ClusterState, Placement};
use koinon_api::preferences::{ClusterPreference, Preferences, ScaleDown};

use crate::rollout::Counting;

/// How the replicas of a workload are to be spread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Intent {
    pub(crate) preferences: Preferences,
    pub(crate) replicas: i64,
    pub(crate) counting: Counting,
    /// What is wrong with the preferences, if anything is: then the last good placement stays.
    pub(crate) fault: Option<String>,
}

/// Reads the annotation `name`. `before` is where the replicas were last.
pub(crate) fn intent(
    annotations: &BTreeMap<String, String>,
    name: &str,
    replicas: i64,
    before: Option<&Placement>,
) -> Intent {
    let by_member = |value: &String| value == workloads::REPLICAS_BY_MEMBER;
    let counting = if annotations.get(workloads::REPLICAS).is_some_and(by_member) {
        Counting::Member
    } else {
        Counting::Federation
    };
    match annotations.get(name).map(|text| Preferences::parse(text)).transpose() {
        Ok(read) => Intent { preferences: read.unwrap_or_default(), replicas, counting, fault: None },
        Err(invalid) => {
            let fault =
                format!("the annotation {name} cannot be used, so replicas stay where they are: {invalid}");
            let (preferences, replicas) = as_before(before);
            Intent { preferences, replicas, counting, fault: Some(fault) }
        }
    }
}

/// Preferences that lead to exactly the last placement.
fn as_before(before: Option<&Placement>) -> (Preferences, i64) {
    let clusters: BTreeMap<String, ClusterPreference> = before
        .iter()
        .flat_map(|before| &before.clusters)
        .map(|(name, last)| {
            let exactly = last.desired;
            (
                name.clone(),
                ClusterPreference { min_replicas: exactly, max_replicas: Some(exactly), weight: 0 },
            )
        })
        .collect();
    let replicas = clusters.values().map(|one| one.min_replicas).sum();
    (Preferences { rebalance: false, scale_down: ScaleDown::Ordered, clusters }, replicas)
}

impl Intent {
    /// As long as nothing of it can be read, whoever is offline is still meant to have what it had: nobody else has it, and
    /// it has it when it is back.
    pub(crate) fn keep_offline(&self, placement: &mut Placement, before: Option<&Placement>) {
        let Some(before) = before.filter(|_| self.fault.is_some()) else { return };
        for (name, entry) in &mut placement.clusters {
            if entry.state == ClusterState::Offline {
                entry.desired = before.clusters.get(name).map_or(0, |last| last.desired);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use koinon_api::placement::ClusterPlacement;

    use super::*;

    #[test]
    fn what_cannot_be_read_changes_nothing() {
        let placed = |desired| ClusterPlacement { desired, ..ClusterPlacement::default() };
        let clusters = [("a".to_owned(), placed(3)), ("b".to_owned(), placed(0))].into();
        let before = Placement { observed_generation: 1, clusters };
        let annotations = [("p".to_owned(), "{".to_owned())].into();
        let read = intent(&annotations, "p", 9, Some(&before));
        assert_eq!(read.replicas, 3);
        assert_eq!(read.preferences.for_cluster("a").unwrap().max_replicas, Some(3));
        assert!(read.fault.unwrap().contains("not JSON"));
        assert_eq!(intent(&annotations, "p", 9, None).replicas, 0);
    }

    #[test]
    fn who_is_offline_meanwhile_is_still_meant_to_have_what_it_had() {
        let one = |desired, state| {
            let one = ClusterPlacement { desired, state, ..ClusterPlacement::default() };
            Placement { observed_generation: 1, clusters: [("a".to_owned(), one)].into() }
        };
        for (text, expected) in [("{", 3), ("{}", 0)] {
            let before = one(3, ClusterState::Ready);
            let read = intent(&[("p".to_owned(), text.to_owned())].into(), "p", 3, Some(&before));
            let mut now = one(0, ClusterState::Offline);
            read.keep_offline(&mut now, Some(&before));
            assert_eq!(now.clusters["a"].desired, expected, "{text}");
        }
    }

    #[test]
    fn a_member_may_count_for_itself() {
        let annotations = [(workloads::REPLICAS.to_owned(), "member".to_owned())].into();
        let read = intent(&annotations, "p", 9, None);
        assert_eq!((read.counting, read.replicas, read.fault), (Counting::Member, 9, None));
    }
}
