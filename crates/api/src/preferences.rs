//! The preferences annotation: how a workload's replicas are to be spread over clusters.
//!
//! It is read strictly. A typo that is passed over in silence spreads replicas where nobody wanted them, so
//! every fault is reported, with its path and what would be right. Names of fields may be written in any
//! case, as they always could.

mod read;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The entry for every cluster without one of its own.
pub const ANY_CLUSTER: &str = "*";

/// How the replicas of one workload are to be spread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preferences {
    /// Whether running replicas may move to bring clusters towards their shares.
    pub rebalance: bool,
    /// Who gives replicas up when there are fewer than run.
    #[serde(skip_serializing_if = "ScaleDown::is_weighted")]
    pub scale_down: ScaleDown,
    /// By cluster, or [`ANY_CLUSTER`]. A cluster with neither entry gets no replicas.
    pub clusters: BTreeMap<String, ClusterPreference>,
}

/// What one cluster is to have. An entry of its own takes nothing over from [`ANY_CLUSTER`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPreference {
    /// Replicas that it gets before anything is divided.
    pub min_replicas: i64,
    /// Replicas that it never exceeds; none is no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_replicas: Option<i64>,
    /// Its part, against the sum of all weights, of what is left after the minimums.
    pub weight: i64,
}

/// Who gives replicas up when a workload without `rebalance` shrinks below what runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ScaleDown {
    /// Clusters keep what they have in their order, and the last ones lose all of it.
    Ordered,
    /// Clusters above their share give up in proportion to how far they are above it: what runs stays spread.
    #[default]
    Weighted,
}

/// What is wrong with preferences: every fault, not only the first.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Invalid {
    /// One sentence for each fault.
    pub faults: Vec<String>,
}

impl Preferences {
    /// Reads the annotation's JSON: `{"rebalance":bool,"clusters":{"NAME or *":{"minReplicas","maxReplicas","weight"}}}`.
    ///
    /// Without `clusters` replicas are spread evenly, as without the annotation.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        match serde_json::from_str(text) {
            Ok(value) => Self::from_value(&value),
            Err(error) => Err(Invalid {
                faults: vec![format!("it is not JSON ({error}): write for example {}", Self::default())],
            }),
        }
    }

    /// Reads the annotation's content where it is already a value.
    pub fn from_value(value: &Value) -> Result<Self, Invalid> {
        read::preferences(value)
    }

    /// What holds for the cluster: its own entry, else that for all.
    pub fn for_cluster(&self, name: &str) -> Option<&ClusterPreference> {
        self.clusters.get(name).or_else(|| self.clusters.get(ANY_CLUSTER))
    }
}

/// Reads only the entries by cluster, as they stand inside the annotation under `clusters`. Faults call them `field`.
pub fn clusters_from_value(
    field: &str,
    value: &Value,
) -> Result<BTreeMap<String, ClusterPreference>, Invalid> {
    read::clusters_alone(field, value)
}

/// Without the annotation: evenly, and what runs stays where it is.
impl Default for Preferences {
    fn default() -> Self {
        let even = ClusterPreference { weight: 1, ..ClusterPreference::default() };
        let clusters = BTreeMap::from([(ANY_CLUSTER.to_owned(), even)]);
        Preferences { rebalance: false, scale_down: ScaleDown::default(), clusters }
    }
}

/// The annotation's JSON.
impl fmt::Display for Preferences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl ScaleDown {
    fn is_weighted(&self) -> bool {
        *self == ScaleDown::Weighted
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.faults.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Vec<String> {
        Preferences::parse(text).unwrap_err().faults
    }

    #[test]
    fn a_whole_annotation() {
        let text = r#"{"rebalance":true,"scaleDown":"weighted","clusters":{"*":{"weight":1},"C":{"minReplicas":2,"maxReplicas":20,"weight":3}}}"#;
        let read = Preferences::parse(text).unwrap();
        assert!(read.rebalance);
        assert_eq!(read.scale_down, ScaleDown::Weighted);
        let own = ClusterPreference { min_replicas: 2, max_replicas: Some(20), weight: 3 };
        assert_eq!(read.for_cluster("C"), Some(&own));
        assert_eq!(
            read.for_cluster("B"),
            Some(&ClusterPreference { weight: 1, ..ClusterPreference::default() })
        );
        assert_eq!(Preferences::parse(&read.to_string()).unwrap(), read, "what is written reads back");
        let ordered = Preferences::parse(r#"{"scaleDown":"ordered"}"#).unwrap();
        assert_eq!(Preferences::parse(&ordered.to_string()).unwrap().scale_down, ScaleDown::Ordered);
        assert_eq!(Preferences::parse("{}").unwrap().scale_down, ScaleDown::Weighted, "the default");
    }

    #[test]
    fn fields_in_any_case_and_null_for_the_default() {
        let read =
            Preferences::parse(r#"{"Rebalance":null,"Clusters":{"a":{"MaxReplicas":null,"Weight":2}}}"#)
                .unwrap();
        assert!(!read.rebalance);
        assert_eq!(read.clusters["a"], ClusterPreference { weight: 2, ..ClusterPreference::default() });
        assert_eq!(Preferences::parse(r#"{"clusters":{"a":null}}"#).unwrap().clusters["a"].weight, 0);
    }

    #[test]
    fn no_clusters_at_all_is_not_the_same_as_an_empty_list() {
        let even = Preferences::parse(r#"{"rebalance":true}"#).unwrap();
        assert_eq!(even.clusters, Preferences::default().clusters);
        let none = Preferences::parse(r#"{"clusters":{}}"#).unwrap();
        assert_eq!(none.for_cluster("a"), None);
    }

    #[test]
    fn faults_name_the_field_and_what_is_right() {
        for (text, fault) in [
            (
                r#"{"clusters":{"a":{"weigth":1}}}"#,
                "clusters.a.weigth is not known: minReplicas, maxReplicas and weight are",
            ),
            (
                r#"{"clusters":{"a":{"weight":-1}}}"#,
                "clusters.a.weight is -1: it must be a whole number from 0",
            ),
            (
                r#"{"clusters":{"a":{"minReplicas":"2"}}}"#,
                "clusters.a.minReplicas is \"2\": it must be a whole number from 0",
            ),
            (
                r#"{"clusters":{"a":{"maxReplicas":1.5}}}"#,
                "clusters.a.maxReplicas is 1.5: it must be a whole number from 0",
            ),
            (
                r#"{"clusters":{"*":{"minReplicas":5,"maxReplicas":2}}}"#,
                "clusters.*.minReplicas is 5, more than maxReplicas, which is 2: lower the one or raise the other",
            ),
            (r#"{"clusters":{"a":3}}"#, "clusters.a is 3: it must be an object such as {\"weight\":1}"),
            (r#"{"clusters":{"":{}}}"#, "clusters has an entry without a name: use \"*\" for every cluster"),
            (
                r#"{"clusters":["a"]}"#,
                "clusters is [\"a\"]: it must be an object with an entry for each cluster, or \"*\"",
            ),
            (r#"{"rebalance":"yes"}"#, "rebalance is \"yes\": it must be true or false"),
            (r#"{"scaleDown":"even"}"#, "scaleDown is \"even\": it must be \"ordered\" or \"weighted\""),
            (r#"{"cluster":{}}"#, "cluster is not known: rebalance, scaleDown and clusters are"),
            ("[]", "it is []: it must be an object such as {\"clusters\":{\"*\":{\"weight\":1}}}"),
        ] {
            assert_eq!(faults(text), [fault], "{text}");
        }
        assert!(faults("{")[0].starts_with("it is not JSON ("));
        assert!(faults("")[0].starts_with("it is not JSON ("));
    }

    #[test]
    fn every_fault_is_reported() {
        let found =
            faults(r#"{"rebalance":1,"clusters":{"a":{"weight":-1,"max":2},"b":{"minReplicas":-3}}}"#);
        assert_eq!(found.len(), 4, "{found:?}");
    }
}
