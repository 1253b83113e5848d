//! A pod on every node that it belongs on, and on no other.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::daemonsets::fit::{Fit, fit, new_pod, node_of};

#[test]
fn every_node_gets_one_and_what_is_too_much_goes() {
    let (set, all) = (daemons(json!({})), nodes(3));
    check(&set, &all, &[], &["n1", "n2", "n3"], &[]);
    let pods = [
        pod("a", "n1", "new", json!({})),
        pod("b", "n1", "new", json!({"metadata": {"creationTimestamp": ago(50)}})),
    ];
    check(&set, &all, &pods, &["n2", "n3"], &["b"]);
    // One that is on its way out is waited for.
    check(&set, &all[..1], &[pod("a", "n1", "new", going())], &[], &[]);
    let mut gone = going();
    merge(&mut gone, json!({"status": {"phase": "Failed"}}));
    check(&set, &all[..1], &[pod("a", "n1", "new", gone)], &["n1"], &[]);
    // A node that is no more: its pod is others' to clear away, unless it never got there.
    check(&set, &[], &[pod("a", "n9", "new", json!({}))], &[], &[]);
    let waiting = pod_for(&set, "n9");
    check(&set, &[], &[waiting], &[], &["agent-x"]);
}

/// A pod that waits for the scheduler to bring it to its node.
fn pod_for(set: &DaemonSet, node: &str) -> Arc<Pod> {
    let mut pod = new_pod(set, node, "new");
    pod.metadata.name = Some("agent-x".into());
    assert_eq!(node_of(&pod), Some(node));
    Arc::new(pod)
}

#[test]
fn a_pod_that_waits_for_its_node_counts_as_there() {
    let (set, all) = (daemons(json!({})), nodes(1));
    check(&set, &all, &[pod_for(&set, "n1")], &[], &[]);
}

#[test]
fn pods_that_ended_are_replaced_after_a_pause() {
    let (set, all) = (daemons(json!({})), nodes(1));
    let failed = pod("a", "n1", "new", json!({"status": {"phase": "Failed"}}));
    let plan = planned(&set, &all, std::slice::from_ref(&failed));
    assert_eq!(plan.ended, [(failed.clone(), "n1".to_owned())]);
    assert_eq!(plan.delete, std::slice::from_ref(&failed));
    let resting = BTreeSet::from(["n1".to_owned()]);
    let pods = [failed];
    let look = Look { now: now(), set: &set, hash: "new", nodes: &all, pods: &pods, resting: &resting };
    assert_eq!(super::plan(&look), Plan::default());
    check(&set, &all, &[pod("a", "n1", "new", json!({"status": {"phase": "Succeeded"}}))], &[], &["a"]);
}

#[track_caller]
fn check_fit(spec: Value, of: Value, expected: Fit) {
    let set = daemons(json!({"template": {"spec": spec}}));
    assert_eq!(fit(&set, &node("n1", of)), expected);
}

#[test]
fn nodes_are_chosen_by_name_labels_and_taints() {
    let taint = |key: &str, effect: &str| json!({"spec": {"taints": [{"key": key, "effect": effect}]}});
    check_fit(json!({}), json!({}), Fit::Runs);
    check_fit(json!({"nodeName": "n1"}), json!({}), Fit::Runs);
    check_fit(json!({"nodeName": "n2"}), json!({}), Fit::No);
    check_fit(json!({"nodeSelector": {"disk": "ssd"}}), json!({}), Fit::No);
    check_fit(
        json!({"nodeSelector": {"disk": "ssd"}}),
        json!({"metadata": {"labels": {"disk": "ssd"}}}),
        Fit::Runs,
    );
    let requirement = json!({"key": "disk", "operator": "Exists"});
    let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [requirement]}]});
    let affinity =
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}});
    check_fit(affinity.clone(), json!({}), Fit::No);
    check_fit(affinity, json!({"metadata": {"labels": {"disk": "ssd"}}}), Fit::Runs);
    // Who is there stays where others may not come, and goes where nobody may be.
    check_fit(json!({}), taint("dedicated", "NoSchedule"), Fit::Stays);
    check_fit(json!({}), taint("dedicated", "NoExecute"), Fit::No);
    check_fit(json!({}), taint("dedicated", "PreferNoSchedule"), Fit::Runs);
    check_fit(json!({"tolerations": [{"operator": "Exists"}]}), taint("dedicated", "NoExecute"), Fit::Runs);
    // A daemon is there for nodes in trouble.
    for (key, effect) in [
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ] {
        check_fit(json!({}), taint(key, effect), Fit::Runs);
    }
    check_fit(json!({}), taint("node.kubernetes.io/network-unavailable", "NoSchedule"), Fit::Stays);
    check_fit(
        json!({"hostNetwork": true}),
        taint("node.kubernetes.io/network-unavailable", "NoSchedule"),
        Fit::Runs,
    );
    let tainted = [node("n1", taint("dedicated", "NoExecute"))];
    check(&daemons(json!({})), &tainted, &[pod("a", "n1", "new", json!({}))], &[], &["a"]);
}

#[test]
fn a_pod_is_aimed_at_its_node_and_tolerates_what_may_be_wrong_there() {
    let preferred =
        json!([{"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}]);
    let required = json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "b", "operator": "Exists"}]}]});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required,
        "preferredDuringSchedulingIgnoredDuringExecution": preferred}});
    let short = json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]);
    let mut set = daemons(json!({"template": {"spec": {"affinity": affinity, "tolerations": short}}}));
    set.metadata.annotations =
        Some([("deprecated.daemonset.template.generation".to_owned(), "3".to_owned())].into());
    let pod = serde_json::to_value(new_pod(&set, "n1", "abc")).unwrap();
    let labels = json!({"app": "agent", "controller-revision-hash": "abc", "pod-template-generation": "3"});
    assert_eq!(pod["metadata"]["labels"], labels);
    assert_eq!(pod["metadata"]["generateName"], "agent-");
    let affinity = &pod["spec"]["affinity"]["nodeAffinity"];
    let field = json!({"key": "metadata.name", "operator": "In", "values": ["n1"]});
    let terms = json!([{"matchFields": [field]}]);
    assert_eq!(affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"], terms);
    assert_eq!(affinity["preferredDuringSchedulingIgnoredDuringExecution"], preferred);
    let tolerations = pod["spec"]["tolerations"].as_array().unwrap();
    assert_eq!(tolerations.len(), 6);
    assert!(tolerations[0]["tolerationSeconds"].is_null(), "it stays for good");
}

#[test]
fn the_status_counts_nodes_and_is_written_only_when_it_changed() {
    let set = daemons(json!({"minReadySeconds": 30}));
    let taint = json!({"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}});
    let all = [nodes(3), vec![node("n4", taint)]].concat();
    let fresh = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": ago(5)}]}});
    let pods =
        [pod("a", "n1", "new", json!({})), pod("b", "n2", "old", fresh), pod("d", "n4", "new", json!({}))];
    let expected = json!({
        "desiredNumberScheduled": 3, "currentNumberScheduled": 2, "numberMisscheduled": 1, "numberReady": 2,
        "numberAvailable": 1, "numberUnavailable": 2, "updatedNumberScheduled": 1, "observedGeneration": 1,
    });
    assert_eq!(status_of(&set, &all, &pods), Some(expected.clone()));
    let mut same = serde_json::to_value(&set).unwrap();
    same["status"] = expected;
    let same: DaemonSet = serde_json::from_value(same).unwrap();
    assert_eq!(status_of(&same, &all, &pods), None);
}
