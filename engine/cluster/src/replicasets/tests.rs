//! Plans for ReplicaSets, over plain values.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::claim::controller_reference;
use super::kinds::Replicating as _;
use super::order::first_to_go;
use super::plan::{Change, Failure, Terminating, next_availability, plan, pod, status};

const NOW: i64 = 1_800_000_000;

fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

fn ago(seconds: i64) -> String {
    Timestamp::from_second(NOW - seconds).unwrap().to_string()
}

fn set(replicas: i32, extra: Value) -> ReplicaSet {
    let mut set = json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "set", "generation": 3},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web", "tier": "front"}}},
        },
    });
    merge(&mut set, extra);
    serde_json::from_value(set).unwrap()
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// A running pod of the set that is ready since a minute, changed by `extra`.
fn a_pod(name: &str, extra: Value) -> Arc<Pod> {
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "set", "controller": true});
    let mut pod = json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": name, "labels": {"app": "web"},
            "creationTimestamp": ago(100), "ownerReferences": [owner],
        },
        "spec": {"nodeName": format!("node-of-{name}"), "containers": []},
        "status": {"phase": "Running", "conditions": [ready(60)]},
    });
    merge(&mut pod, extra);
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn ready(seconds: i64) -> Value {
    json!({"type": "Ready", "status": "True", "lastTransitionTime": ago(seconds)})
}

fn ready_for(seconds: i64) -> Value {
    json!({"status": {"conditions": [ready(seconds)]}})
}

/// The one of two pods that goes, in whichever order they come.
#[track_caller]
fn check_order(goes: Value, stays: Value) {
    let (goes, stays) = (a_pod("m", goes), a_pod("n", stays));
    for pods in [[goes.clone(), stays.clone()], [stays, goes.clone()]] {
        let first = first_to_go(&pods, &pods, 1, now());
        assert_eq!(first[0].metadata.name, goes.metadata.name);
    }
}

#[test]
fn each_rule_of_the_order_decides_before_the_next() {
    let cost = |cost: &str| json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": cost}}});
    let restarts = |count: i32| {
        let container =
            json!({"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": count});
        json!({"status": {"containerStatuses": [container]}})
    };
    let sidecar = |count: i32| {
        let container =
            json!({"name": "s", "image": "", "imageID": "", "ready": true, "restartCount": count});
        json!({"spec": {"initContainers": [{"name": "s", "restartPolicy": "Always"}]},
               "status": {"initContainerStatuses": [container]}})
    };
    let unassigned = json!({"spec": {"nodeName": null}});
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    check_order(unassigned, json!({"status": {"phase": "Pending"}}));
    check_order(json!({"status": {"phase": "Pending"}}), json!({"status": {"phase": "Unknown"}}));
    check_order(json!({"status": {"phase": "Unknown"}}), unready.clone());
    check_order(unready, cost("-100"));
    check_order(cost("-1"), json!({}));
    check_order(json!({}), cost("1"));
    check_order(cost("9"), cost("10"));
    // What is not a number costs nothing.
    check_order(cost("-1"), cost("-x"));
    check_order(cost("+7"), cost("1"));
    check_order(cost("007"), cost("1"));
    // Ages are compared by their order of magnitude.
    check_order(ready_for(1), ready_for(60));
    check_order(ready_for(60), ready_for(200));
    check_order(json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}), ready_for(1));
    // Of one magnitude: by uid, and "m" comes before "n".
    check_order(ready_for(60), ready_for(55));
    check_order(ready_for(55), ready_for(60));
    check_order(restarts(2), restarts(1));
    check_order(sidecar(1), json!({}));
    check_order(restarts(1), sidecar(5));
    check_order(json!({"metadata": {"creationTimestamp": ago(1)}}), json!({}));
    check_order(json!({"metadata": {"creationTimestamp": null}}), json!({}));
}

#[test]
fn pods_in_company_go_before_those_alone() {
    let on = |node: &str| json!({"spec": {"nodeName": node}});
    let pods = [a_pod("a", on("one")), a_pod("b", on("two")), a_pod("c", on("two"))];
    let mut related = pods.to_vec();
    let names = |related: &[Arc<Pod>], count| -> Vec<String> {
        let gone = first_to_go(&pods, related, count, now());
        gone.iter().map(|pod| pod.metadata.name.clone().unwrap()).collect()
    };
    assert_eq!(names(&related, 2), ["b", "c"]);
    // Pods of another revision are company too, as long as they run.
    related.extend([a_pod("x", on("one")), a_pod("y", on("one"))]);
    assert_eq!(names(&related, 1), ["a"]);
    related.truncate(3);
    let ended = json!({"spec": {"nodeName": "one"}, "status": {"phase": "Failed"}});
    related.extend([a_pod("x", ended.clone()), a_pod("y", ended)]);
    assert_eq!(names(&related, 1), ["b"]);
}

fn change_of(set: &ReplicaSet, pods: &[Arc<Pod>]) -> Change {
    plan(now(), set, &set.selector().unwrap(), pods.to_vec(), || pods.to_vec()).change
}

#[test]
fn pods_that_ended_or_are_told_to_count_no_longer() {
    let pods = [
        a_pod("a", json!({})),
        a_pod("b", json!({"status": {"phase": "Failed"}})),
        a_pod("c", json!({"status": {"phase": "Succeeded"}})),
        a_pod("d", json!({"metadata": {"deletionTimestamp": ago(1)}})),
    ];
    assert_eq!(change_of(&set(3, json!({})), &pods), Change::Create(2));
    assert_eq!(change_of(&set(1, json!({})), &pods), Change::Nothing);
    assert_eq!(change_of(&set(0, json!({})), &pods), Change::Delete(vec![pods[0].clone()]));
    let deleted = json!({"metadata": {"deletionTimestamp": ago(1)}});
    assert_eq!(change_of(&set(3, deleted), &pods), Change::Nothing);
    assert_eq!(change_of(&set(1000, json!({})), &[]), Change::Create(500));
}

#[test]
fn a_pod_is_named_after_its_set_and_belongs_to_it() {
    let set = set(1, json!({}));
    let made = pod(&set, controller_reference(&set));
    assert_eq!(made.metadata.generate_name.as_deref(), Some("web-"));
    assert_eq!(made.metadata.labels.unwrap()["tier"], "front");
    let owner = &made.metadata.owner_references.unwrap()[0];
    assert_eq!(
        (owner.api_version.as_str(), owner.kind.as_str(), owner.uid.as_str()),
        ("apps/v1", "ReplicaSet", "set")
    );
    assert_eq!((owner.controller, owner.block_owner_deletion), (Some(true), Some(true)));
}

#[track_caller]
fn check_status(set: &ReplicaSet, pods: &[Arc<Pod>], failure: Option<&Failure>, expected: Option<Value>) {
    let status = status(now(), set, &set.selector().unwrap(), pods, Terminating::Counted, failure);
    assert_eq!(status.map(|status| serde_json::to_value(status).unwrap()), expected);
}

#[test]
fn the_status_counts_and_is_written_only_when_it_changed() {
    let pods = [
        a_pod("a", json!({"metadata": {"labels": {"tier": "front"}}})),
        a_pod("b", ready_for(5)),
        a_pod("c", json!({"status": {"conditions": []}})),
        a_pod("d", json!({"metadata": {"deletionTimestamp": ago(1)}})),
        a_pod("e", json!({"metadata": {"deletionTimestamp": ago(1)}, "status": {"phase": "Failed"}})),
    ];
    let slow = json!({"spec": {"minReadySeconds": 30}});
    let expected = json!({
        "replicas": 3, "fullyLabeledReplicas": 1, "readyReplicas": 2, "availableReplicas": 1,
        "terminatingReplicas": 1, "observedGeneration": 3,
    });
    check_status(&set(3, slow.clone()), &pods, None, Some(expected.clone()));
    assert_eq!(next_availability(now(), &set(3, slow.clone()), &pods), Some(Duration::from_secs(25)));
    assert_eq!(next_availability(now(), &set(3, json!({})), &pods), None);
    let mut same = slow;
    merge(&mut same, json!({"status": expected}));
    check_status(&set(3, same.clone()), &pods, None, None);
    merge(&mut same, json!({"metadata": {"generation": 4}}));
    let mut newer = expected;
    newer["observedGeneration"] = 4.into();
    check_status(&set(3, same), &pods, None, Some(newer));
}

#[test]
fn a_failure_is_told_once_and_taken_back_when_it_is_over() {
    let failure = Failure { reason: "FailedCreate", message: "no room".into() };
    let condition = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
        "message": "no room", "lastTransitionTime": ago(0)});
    let quiet = json!({"replicas": 0, "terminatingReplicas": 0, "observedGeneration": 3});
    let mut failed = quiet.clone();
    failed["conditions"] = json!([condition]);
    check_status(&set(1, json!({"status": quiet})), &[], Some(&failure), Some(failed.clone()));
    let told = set(1, json!({"status": failed}));
    check_status(&told, &[], Some(&Failure { message: "still none".into(), ..failure }), None);
    check_status(&told, &[], None, Some(quiet));
}

proptest! {
    /// Whatever the pods are like, exactly as many are kept as asked for, and a useless one never stays for a
    /// useful one.
    #[test]
    fn those_that_go_are_never_better_than_those_that_stay(
        pods in prop::collection::vec((any::<bool>(), 0..3usize, any::<bool>(), 0..3i64, 0..200i64), 0..24),
        wanted in 0..24usize,
    ) {
        let pods: Vec<_> = pods
            .into_iter()
            .enumerate()
            .map(|(number, (assigned, phase, ready, restarts, age))| {
                let node = assigned.then(|| format!("n{restarts}"));
                let phase = ["Pending", "Unknown", "Running"][phase];
                let condition = json!({"type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": ago(age)});
                let status = json!({"phase": phase, "conditions": [condition]});
                a_pod(&format!("p{number}"), json!({"spec": {"nodeName": node}, "status": status}))
            })
            .collect();
        let worth = |pod: &Arc<Pod>| {
            let assigned = pod.spec.as_ref().unwrap().node_name.is_some();
            let phase = ["Pending", "Unknown", "Running"].iter().position(|phase| *phase == super::pods::phase(pod));
            (assigned, phase, super::pods::is_ready(pod))
        };
        match change_of(&set(wanted as i32, json!({})), &pods) {
            Change::Nothing => prop_assert_eq!(pods.len(), wanted),
            Change::Create(count) => prop_assert_eq!(pods.len() + count, wanted),
            Change::Delete(gone) => {
                prop_assert_eq!(pods.len() - gone.len(), wanted);
                let stay = pods.iter().filter(|pod| !gone.contains(pod)).map(worth).min();
                if let (Some(best_gone), Some(worst_left)) = (gone.iter().map(worth).max(), stay) {
                    prop_assert!(best_gone <= worst_left);
                }
            }
        }
    }
}
