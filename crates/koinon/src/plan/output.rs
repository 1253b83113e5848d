//! A plan for people and for programs.

use std::collections::BTreeMap;

use koinon_workloads::planner::{self, Plan};
use serde::Serialize;

use super::input::Input;
use crate::table;

/// The answer as programs read it.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    replicas: BTreeMap<&'a str, i64>,
    overflow: BTreeMap<&'a str, i64>,
    unplaced: i64,
    why: BTreeMap<&'a str, String>,
    #[serde(skip_serializing_if = "<[Step]>::is_empty")]
    steps: &'a [Step],
}

/// Clusters that are updated at the same time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Step {
    pub(super) clusters: Vec<String>,
    /// How many replicas they have together.
    pub(super) replicas: i64,
}

impl<'a> Answer<'a> {
    fn new(plan: &'a Plan, steps: &'a [Step]) -> Self {
        let shares = || plan.clusters.iter().map(|(name, share)| (name.as_str(), share));
        Answer {
            replicas: shares().map(|(name, share)| (name, share.replicas)).collect(),
            overflow: shares()
                .filter(|(_, share)| share.overflow > 0)
                .map(|(name, share)| (name, share.overflow))
                .collect(),
            unplaced: plan.unplaced,
            why: shares().map(|(name, share)| (name, share.reason.to_string())).collect(),
            steps,
        }
    }
}

pub(super) fn json(plan: &Plan, steps: &[Step]) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(&Answer::new(plan, steps))? + "\n")
}

pub(super) fn yaml(plan: &Plan, steps: &[Step]) -> anyhow::Result<String> {
    Ok(serde_saphyr::to_string(&Answer::new(plan, steps))?)
}

/// The steps of an update, one row each.
pub(super) fn steps(steps: &[Step]) -> String {
    let head = ["STEP", "CLUSTERS", "REPLICAS"].map(str::to_owned).to_vec();
    let row = |(at, step): (usize, &Step)| {
        vec![(at + 1).to_string(), step.clusters.join(" "), step.replicas.to_string()]
    };
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(steps.iter().enumerate().map(row)).collect();
    format!(
        "\nThe update passes over the clusters in this order, each step once the one before is done:\n{}",
        table::table(&rows)
    )
}

/// What a plan is compared with: what runs, or else, for a what-if, what would run without it.
pub(super) fn before(given: &Input, hypothetical: bool) -> Option<BTreeMap<String, i64>> {
    let running: BTreeMap<String, i64> =
        given.candidates.iter().map(|(name, candidate)| (name.clone(), candidate.existing)).collect();
    if running.values().any(|count| *count != 0) {
        return Some(running);
    }
    hypothetical.then(|| {
        let plan = planner::plan(&given.workload(), &given.candidates);
        plan.clusters.into_iter().map(|(name, share)| (name, share.replicas)).collect()
    })
}

/// One row for each cluster, those that were lost among them, and a last line with the sums.
pub(super) fn table(plan: &Plan, before: &Option<BTreeMap<String, i64>>, replicas: i64) -> String {
    let waits = plan.clusters.values().any(|share| share.overflow > 0);
    let mut head = vec!["CLUSTER", "REPLICAS"];
    head.extend(before.as_ref().map(|_| "CHANGE"));
    head.extend(waits.then_some("WAITING"));
    head.push("WHY");
    let mut rows: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, share) in &plan.clusters {
        let mut row = vec![name.clone(), share.replicas.to_string()];
        row.extend(before.as_ref().map(|before| change(before.get(name), share.replicas)));
        row.extend(waits.then(|| share.overflow.to_string()));
        row.push(share.reason.to_string());
        rows.insert(name, row);
    }
    for (name, count) in before.iter().flatten().filter(|(name, _)| !plan.clusters.contains_key(*name)) {
        let mut row = vec![name.clone(), "-".to_owned(), change(Some(count), 0)];
        row.extend(waits.then(|| "-".to_owned()));
        row.push("it is lost".to_owned());
        rows.insert(name, row);
    }

    let mut lines: Vec<Vec<String>> = vec![head.into_iter().map(str::to_owned).collect()];
    lines.extend(rows.into_values());
    let mut text = table::table(&lines);
    let placed = replicas - plan.unplaced;
    match plan.unplaced {
        0 => text.push_str(&format!("\nAll {replicas} replicas have a cluster.\n")),
        left => {
            text.push_str(&format!("\n{placed} of {replicas} replicas have a cluster, {left} found none.\n"))
        }
    }
    text
}

fn change(before: Option<&i64>, after: i64) -> String {
    match after - before.copied().unwrap_or_default() {
        0 => "0".to_owned(),
        change => format!("{change:+}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;

    fn plan(text: &str) -> (Input, Plan) {
        let input = Input::new(Some(text), &args::Plan::default()).unwrap();
        let plan = planner::plan(&input.workload(), &input.candidates);
        (input, plan)
    }

    const FULL: &str = r#"{"replicas":50,"rebalance":true,"clusters":["A","B","C"],"capacity":{"C":6}}"#;

    #[test]
    fn the_answer_for_programs() {
        let answer: serde_json::Value = serde_json::from_str(&json(&plan(FULL).1, &[]).unwrap()).unwrap();
        assert_eq!(answer["replicas"], serde_json::json!({"A": 22, "B": 22, "C": 6}));
        assert_eq!(answer["overflow"], serde_json::json!({"C": 11}));
        assert_eq!(answer["unplaced"], 0);
        assert_eq!(
            answer["why"]["C"],
            "6 for its weight of 1 in 3; it has room for 6; 11 more would go there"
        );
        let yaml: serde_json::Value = serde_saphyr::from_str(&yaml(&plan(FULL).1, &[]).unwrap()).unwrap();
        assert_eq!(yaml, answer);
    }

    #[test]
    fn a_table_for_people() {
        let (input, plan) = plan(FULL);
        assert_eq!(
            table(&plan, &before(&input, false), 50),
            "CLUSTER   REPLICAS   WAITING   WHY\n\
             A         22         0         22 for its weight of 1 in 3\n\
             B         22         0         22 for its weight of 1 in 3\n\
             C         6          11        6 for its weight of 1 in 3; it has room for 6; 11 more would go there\n\
             \n\
             All 50 replicas have a cluster.\n"
        );
    }

    #[test]
    fn what_moves_if_a_cluster_is_lost() {
        let (given, _) =
            plan(r#"{"replicas":5,"clusters":["a","b"],"preferences":{"*":{"weight":1,"maxReplicas":3}}}"#);
        let asked = given.what_if(&["b".into()], &[]).unwrap();
        let plan = planner::plan(&asked.workload(), &asked.candidates);
        assert_eq!(
            table(&plan, &before(&given, true), 5),
            "CLUSTER   REPLICAS   CHANGE   WHY\n\
             a         3          0        3 for its weight of 1 in 1; its maximum is 3\n\
             b         -          -2       it is lost\n\
             \n\
             3 of 5 replicas have a cluster, 2 found none.\n"
        );
    }
}
