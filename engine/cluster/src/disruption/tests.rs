//! The numbers of budgets, one rule at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

use super::plan::{Look, Plan, Scale, plan};

const NOW: i64 = 1_800_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A pod of a controller, ready or not.
fn pod(name: &str, controller: &str, ready: bool) -> Value {
    let owners = match controller {
        "" => json!([]),
        uid => {
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": uid, "controller": true}])
        }
    };
    let status = if ready { "True" } else { "False" };
    json!({
        "metadata": {"name": name, "namespace": "default", "ownerReferences": owners},
        "status": {"conditions": [{"type": "Ready", "status": status}]},
    })
}

fn budget(spec: Value, status: Value) -> PodDisruptionBudget {
    let budget = json!({"metadata": {"name": "b", "namespace": "default", "generation": 1}, "spec": spec, "status": status});
    serde_json::from_value(budget).unwrap()
}

fn decide(budget: &PodDisruptionBudget, pods: &[Value], scales: &[(&str, &str, i32)]) -> Plan {
    let pods: Vec<Arc<Pod>> =
        pods.iter().map(|pod| Arc::new(serde_json::from_value(pod.clone()).unwrap())).collect();
    let scale = |(owner, uid, replicas): &(&str, &str, i32)| {
        ((*owner).to_owned(), Ok(Scale { uid: (*uid).to_owned(), replicas: *replicas }))
    };
    let scales: BTreeMap<String, Result<Scale, String>> = scales.iter().map(scale).collect();
    plan(&Look { budget, pods: &pods, scales: &scales, now: at(NOW) })
}

/// Expected, desired, healthy, allowed.
fn numbers(plan: &Plan) -> [i32; 4] {
    let status = plan.status.as_ref().unwrap();
    [status.expected_pods, status.desired_healthy, status.current_healthy, status.disruptions_allowed]
        .map(Option::unwrap)
}

#[test]
fn what_may_go_follows_from_what_is_wanted_and_what_is_healthy() {
    let three = [pod("a", "1", true), pod("b", "1", true), pod("c", "1", false)];
    let cases = [
        (json!({"minAvailable": 1}), [3, 1, 2, 1]),
        (json!({"minAvailable": 2}), [3, 2, 2, 0]),
        (json!({"minAvailable": "50%"}), [5, 3, 2, 0]),
        (json!({"minAvailable": "20%"}), [5, 1, 2, 1]),
        (json!({"maxUnavailable": 4}), [5, 1, 2, 1]),
        (json!({"maxUnavailable": "70%"}), [5, 1, 2, 1]),
        (json!({"maxUnavailable": "100%"}), [5, 0, 2, 2]),
    ];
    for (spec, expected) in cases {
        let plan = decide(&budget(spec.clone(), json!({})), &three, &[("1", "deployment", 5)]);
        assert_eq!(numbers(&plan), expected, "{spec}");
    }
}

#[test]
fn two_sets_of_one_deployment_count_once_and_pods_of_nobody_are_noticed() {
    let pods = [pod("a", "old", true), pod("b", "new", true), pod("c", "", true)];
    let plan = decide(
        &budget(json!({"maxUnavailable": 1}), json!({})),
        &pods,
        &[("old", "deployment", 2), ("new", "deployment", 2)],
    );
    assert_eq!(numbers(&plan), [2, 1, 3, 2]);
    assert!(plan.unmanaged);
}

#[test]
fn nothing_may_go_while_nothing_is_known() {
    let plan = decide(&budget(json!({"minAvailable": 0}), json!({})), &[], &[]);
    assert_eq!(numbers(&plan), [0, 0, 0, 0]);
    let before =
        budget(json!({"maxUnavailable": 1}), json!({"disruptionsAllowed": 1, "observedGeneration": 1}));
    let plan = decide(&before, &[pod("a", "unknown", true)], &[]);
    let status = plan.status.unwrap();
    assert_eq!(status.disruptions_allowed, Some(0));
    let condition = &status.conditions.as_ref().unwrap()[0];
    assert_eq!((condition.reason.as_str(), condition.status.as_str()), ("SyncFailed", "False"));
    assert_eq!(plan.failure.unwrap(), "found no controllers for pod \"a\"");
    // Said once.
    let again = PodDisruptionBudget { status: Some(status), ..before };
    assert_eq!(decide(&again, &[pod("a", "unknown", true)], &[]).status, None);
}

#[test]
fn a_status_that_is_right_is_left_alone() {
    let mut budget = budget(json!({"minAvailable": 1}), json!({}));
    let pods = [pod("a", "1", true), pod("b", "1", true)];
    budget.status = decide(&budget, &pods, &[]).status;
    assert_eq!(decide(&budget, &pods, &[]).status, None);
    budget.metadata.generation = Some(2);
    let status = decide(&budget, &pods, &[]).status.unwrap();
    assert_eq!(status.observed_generation, Some(2));
    assert_eq!(status.conditions.unwrap()[0].observed_generation, Some(2));
}

#[test]
fn a_promised_pod_counts_as_gone_until_it_evidently_stays() {
    let promised = |ago: i64| json!({"disruptedPods": {"a": at(NOW - ago).to_string(), "gone": at(NOW - ago).to_string()}});
    let pods = [pod("a", "1", true), pod("b", "1", true)];
    let plan = decide(&budget(json!({"minAvailable": 1}), promised(30)), &pods, &[]);
    assert_eq!(numbers(&plan), [2, 1, 1, 0]);
    assert_eq!(plan.recheck, Some(at(NOW + 90)));
    assert_eq!(plan.status.unwrap().disrupted_pods.unwrap().into_keys().collect::<Vec<_>>(), ["a"]);
    let plan = decide(&budget(json!({"minAvailable": 1}), promised(121)), &pods, &[]);
    assert_eq!(numbers(&plan), [2, 1, 2, 1]);
    assert_eq!((plan.recheck, plan.kept), (None, vec!["a".to_owned()]));
}

#[test]
fn a_pod_that_goes_is_not_healthy() {
    let mut going = pod("a", "1", true);
    going["metadata"]["deletionTimestamp"] = at(NOW).to_string().into();
    let plan = decide(&budget(json!({"minAvailable": 1}), json!({})), &[going, pod("b", "1", true)], &[]);
    assert_eq!(numbers(&plan), [2, 1, 1, 0]);
}
