//! One line for a case and one for its answer.
//!
//! `50 over A B C | * weight=1 | C max=20 weight=1 | has A=20 | holds C=6 | rebalance | weighted | key x/y`, and
//! `A=22 B=22 C=6 | waits C=11 | unplaced 3`. Clusters with 0 replicas may be left out of an answer.

use std::collections::BTreeMap;

use koinon_api::preferences::{ClusterPreference, Preferences, ScaleDown};
use koinon_workloads::planner::{Candidate, Plan, Workload, plan};

#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) key: String,
    pub(crate) replicas: i64,
    pub(crate) preferences: Preferences,
    pub(crate) candidates: BTreeMap<String, Candidate>,
}

impl Case {
    pub(crate) fn workload(&self) -> Workload<'_> {
        Workload { key: &self.key, replicas: self.replicas, preferences: &self.preferences }
    }

    pub(crate) fn plan(&self) -> Plan {
        plan(&self.workload(), &self.candidates)
    }

    pub(crate) fn parse(text: &str) -> Case {
        let mut parts = text.split('|').map(str::trim);
        let (replicas, clusters) = parts.next().unwrap().split_once(" over").expect("N over clusters");
        let mut case = Case {
            key: String::new(),
            replicas: replicas.parse().unwrap(),
            preferences: Preferences {
                rebalance: false,
                scale_down: ScaleDown::Ordered,
                clusters: BTreeMap::new(),
            },
            candidates: clusters
                .split_whitespace()
                .map(|name| (name.to_owned(), Candidate::default()))
                .collect(),
        };
        for part in parts {
            let (word, rest) = part.split_once(' ').unwrap_or((part, ""));
            match word {
                "rebalance" => case.preferences.rebalance = true,
                "weighted" => case.preferences.scale_down = ScaleDown::Weighted,
                "key" => case.key = rest.to_owned(),
                "has" => counts(rest).for_each(|(name, count)| case.candidate(name).existing = count),
                "holds" => counts(rest).for_each(|(name, count)| case.candidate(name).capacity = Some(count)),
                cluster => {
                    let entry = case.preferences.clusters.entry(cluster.to_owned()).or_default();
                    set(entry, rest);
                }
            }
        }
        case
    }

    fn candidate(&mut self, name: &str) -> &mut Candidate {
        self.candidates.get_mut(name).expect("a named cluster is a candidate")
    }
}

fn set(entry: &mut ClusterPreference, fields: &str) {
    for (field, value) in counts(fields) {
        match field {
            "min" => entry.min_replicas = value,
            "max" => entry.max_replicas = Some(value),
            "weight" => entry.weight = value,
            other => panic!("no field {other}"),
        }
    }
}

fn counts(text: &str) -> impl Iterator<Item = (&str, i64)> {
    text.split_whitespace().map(|pair| {
        let (name, count) = pair.split_once('=').expect("name=count");
        (name, count.parse().unwrap())
    })
}

/// The answer in one line.
pub(crate) fn words(plan: &Plan) -> String {
    let mut parts = vec![list(plan, |share| share.replicas)];
    if plan.clusters.values().any(|share| share.overflow > 0) {
        parts.push(format!("waits {}", list(plan, |share| share.overflow)));
    }
    if plan.unplaced > 0 {
        parts.push(format!("unplaced {}", plan.unplaced));
    }
    parts.join(" | ")
}

fn list(plan: &Plan, count: impl Fn(&koinon_workloads::planner::Share) -> i64) -> String {
    let counted = plan.clusters.iter().map(|(name, share)| (name, count(share)));
    let pairs: Vec<String> =
        counted.filter(|(_, count)| *count != 0).map(|(name, count)| format!("{name}={count}")).collect();
    pairs.join(" ")
}

#[track_caller]
pub(crate) fn check(case: &str, answer: &str) {
    let case = Case::parse(case);
    assert_eq!(words(&case.plan()), answer, "{case:?}");
    assert_eq!(words(&crate::reference::plan(&case.workload(), &case.candidates)), answer, "the reference");
}

/// The sentence for one cluster.
#[track_caller]
pub(crate) fn check_why(case: &str, cluster: &str, why: &str) {
    assert_eq!(Case::parse(case).plan().clusters[cluster].reason.to_string(), why);
}
