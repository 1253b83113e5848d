//! Every example of the design of federated ReplicaSets, and the same as data.

use std::collections::BTreeMap;

use koinon_api::preferences::{Preferences, ScaleDown, clusters_from_value};
use koinon_workloads::planner::{Candidate, Workload, plan};
use serde_json::Value;

use crate::case::{check, words};

const EVENLY: &str = "50 over A B C | * weight=1 | rebalance";

#[test]
fn scenario_1_all_have_capacity() {
    check(EVENLY, "A=16 B=17 C=17");
}

#[test]
fn scenario_1_c_holds_6() {
    check(&format!("{EVENLY} | holds C=6"), "A=22 B=22 C=6 | waits C=11");
}

#[test]
fn scenario_1_b_and_c_are_offline() {
    check("50 over A | * weight=1 | rebalance", "A=50");
}

#[test]
fn scenario_2_two_in_each_by_maximum() {
    check("50 over A B C | * max=2 weight=1 | rebalance", "A=2 B=2 C=2 | unplaced 44");
}

#[test]
fn scenario_2_two_in_each_by_minimum() {
    check("50 over A B C | * min=2 | rebalance", "A=2 B=2 C=2 | unplaced 44");
}

#[test]
fn scenario_2_two_in_each_by_both() {
    check("50 over A B C | * min=2 max=2 | rebalance", "A=2 B=2 C=2 | unplaced 44");
}

#[test]
fn scenario_3_minimums_beyond_the_replicas() {
    // Which one gets less depends on the workload's name.
    check("50 over A B C | * min=20 | rebalance", "A=10 B=20 C=20");
    check("50 over A B C | * min=20 | rebalance | key default/rs", "A=20 B=20 C=10");
}

const C_AT_MOST_20: &str = "* weight=1 | C max=20 weight=1 | rebalance";

#[test]
fn scenario_4_all_have_capacity() {
    check(&format!("50 over A B C | {C_AT_MOST_20}"), "A=16 B=17 C=17");
}

#[test]
fn scenario_4_b_is_offline_or_has_no_room() {
    check(&format!("50 over A C | {C_AT_MOST_20}"), "A=30 C=20");
    check(&format!("50 over A B C | {C_AT_MOST_20} | holds B=0"), "A=30 C=20 | waits B=17");
}

#[test]
fn scenario_4_a_and_b_are_offline() {
    check(&format!("50 over C | {C_AT_MOST_20}"), "C=20 | unplaced 30");
}

const A_FIRST: &str = "50 over A B C | A weight=1000000 | B weight=1 | C weight=1";

#[test]
fn scenario_5_all_have_capacity() {
    check(A_FIRST, "A=50");
}

#[test]
fn scenario_5_a_holds_40() {
    check(&format!("{A_FIRST} | holds A=40"), "A=40 B=5 C=5");
}

#[test]
fn scenario_6_twice_as_much_in_a() {
    check("50 over A B C | A weight=2 | B weight=1 | C weight=1", "A=25 B=12 C=13");
}

#[test]
fn scenario_7_a_has_20() {
    check("50 over A B C | * weight=1 | has A=20", "A=20 B=15 C=15");
}

#[test]
fn scenario_7_a_has_20_and_c_holds_6() {
    check("50 over A B C | * weight=1 | has A=20 | holds C=6 | key default/rs", "A=21 B=23 C=6");
    check("50 over A B C | * weight=1 | has A=20 | holds C=6 | key default/web", "A=22 B=22 C=6");
}

#[test]
fn scenario_7_a_has_30_and_c_holds_6() {
    check("50 over A B C | * weight=1 | has A=30 | holds C=6", "A=30 B=14 C=6");
}

#[test]
fn the_scenarios_as_data() {
    let scenarios: Vec<Value> =
        serde_json::from_str(include_str!("../data/planner-scenarios.json")).expect("it is JSON");
    assert_eq!(scenarios.len(), 17);
    for scenario in &scenarios {
        let (given, expected) = (&scenario["in"], &scenario["out"]);
        let preferences = Preferences {
            rebalance: given["rebalance"].as_bool().unwrap(),
            scale_down: ScaleDown::default(),
            clusters: clusters_from_value("preferences", &given["preferences"]).unwrap(),
        };
        let candidates: BTreeMap<String, Candidate> = given["clusters"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| {
                let name = name.as_str().unwrap();
                let existing = given["existing"][name].as_i64().unwrap_or_default();
                (name.to_owned(), Candidate { existing, capacity: given["capacity"][name].as_i64() })
            })
            .collect();
        let workload = Workload {
            key: given["key"].as_str().unwrap(),
            replicas: given["replicas"].as_i64().unwrap(),
            preferences: &preferences,
        };
        let plan = plan(&workload, &candidates);
        let name = &scenario["name"];
        for (cluster, share) in &plan.clusters {
            assert_eq!(
                Some(share.replicas),
                expected["replicas"][cluster].as_i64(),
                "{name}: {}",
                words(&plan)
            );
            let waiting = expected["overflow"][cluster].as_i64().unwrap_or_default();
            assert_eq!(share.overflow, waiting, "{name}: {}", words(&plan));
        }
        assert_eq!(Some(plan.unplaced), expected["unplaced"].as_i64(), "{name}");
    }
}
