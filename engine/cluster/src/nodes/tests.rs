//! Decisions about nodes and their pods, without a server.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use serde_json::{Value, json};

use super::Settings;
use super::health::{Heard, unknown};
use super::pods::{self, Leave};
use super::taints::{self, MayEmpty, Mood};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn time(second: i64) -> String {
    at(second).to_string()
}

fn node(name: &str, ready: &str, spec: Value) -> Node {
    let condition = json!({"type": "Ready", "status": ready, "lastHeartbeatTime": time(1)});
    let metadata = json!({"name": name, "uid": name, "creationTimestamp": time(0)});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": {"conditions": [condition]}}))
        .unwrap()
}

fn lease(renewed: i64, seconds: i32) -> Lease {
    let renewed = format!("{}.000000Z", time(renewed).trim_end_matches('Z'));
    let spec = json!({"renewTime": renewed, "leaseDurationSeconds": seconds});
    serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec})).unwrap()
}

#[test]
fn a_node_is_heard_by_its_lease_and_by_its_status_on_our_own_clock() {
    let settings = Settings::default();
    let mut heard = Heard::default();
    let mut a = node("a", "True", json!({}));
    heard.node(&a, at(1000));
    assert_eq!(heard.until(&settings, &a), at(1050));
    // The node's clock is far behind, but its lease moves.
    heard.lease(&lease(5, 40), at(1020));
    assert_eq!(heard.until(&settings, &a), at(1070));
    heard.lease(&lease(5, 40), at(1030));
    heard.node(&a, at(1030));
    assert_eq!(heard.until(&settings, &a), at(1070), "what says nothing new is not heard");
    a.status.as_mut().unwrap().conditions.as_mut().unwrap()[0].last_heartbeat_time =
        serde_json::from_value(json!(time(7))).unwrap();
    heard.node(&a, at(1040));
    assert_eq!(heard.until(&settings, &a), at(1090));
    // Slow heartbeats are announced.
    heard.lease(&lease(6, 400), at(1050));
    assert_eq!(heard.until(&settings, &a), at(1450));
    // Another node of the same name that never said anything has its time from its beginning.
    let mut fresh = node("a", "True", json!({}));
    fresh.metadata.uid = Some("other".into());
    fresh.metadata.creation_timestamp = serde_json::from_value(json!(time(2000))).unwrap();
    fresh.status = None;
    heard.node(&fresh, at(2010));
    let settings = Settings { startup_grace: Duration::from_secs(500), ..settings };
    assert_eq!(heard.until(&settings, &fresh), at(2500));
}

#[test]
fn a_silent_node_is_unknown_once() {
    let mut silent = node("a", "True", json!({}));
    let conditions = unknown(&silent, at(99)).unwrap();
    let told: Vec<_> =
        conditions.iter().map(|one| (one.type_.as_str(), one.reason.as_deref().unwrap())).collect();
    let never = "NodeStatusNeverUpdated";
    assert_eq!(
        told,
        [
            ("Ready", "NodeStatusUnknown"),
            ("MemoryPressure", never),
            ("DiskPressure", never),
            ("PIDPressure", never)
        ]
    );
    silent.status.as_mut().unwrap().conditions = Some(conditions);
    assert_eq!(unknown(&silent, at(200)), None);
}

#[track_caller]
fn check(node: &Node, mood: Mood, may: MayEmpty, expected: &str) {
    let has = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let taints = taints::change(node, mood, may, at(50)).unwrap_or(has);
    let text: Vec<_> = taints
        .iter()
        .map(|taint| format!("{}:{}", taint.key.trim_start_matches("node.kubernetes.io/"), taint.effect))
        .collect();
    assert_eq!(text.join(" "), expected);
}

#[test]
fn taints_follow_conditions_and_mood() {
    let silent = node("a", "Unknown", json!({}));
    check(&silent, Mood::Normal, MayEmpty::Now, "unreachable:NoSchedule unreachable:NoExecute");
    check(&silent, Mood::Normal, MayEmpty::NotYet, "unreachable:NoSchedule");
    check(&silent, Mood::Cautious, MayEmpty::Now, "unreachable:NoSchedule");
    check(&silent, Mood::Blind, MayEmpty::Now, "unreachable:NoSchedule");
    let begun = json!({"taints": [
        {"key": "mine", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"},
    ]});
    let all = "mine:NoExecute unreachable:NoExecute unreachable:NoSchedule";
    check(&node("a", "Unknown", begun.clone()), Mood::Cautious, MayEmpty::NotYet, all);
    check(
        &node("a", "Unknown", begun.clone()),
        Mood::Blind,
        MayEmpty::Now,
        "mine:NoExecute unreachable:NoSchedule",
    );
    check(&node("a", "True", begun.clone()), Mood::Normal, MayEmpty::Now, "mine:NoExecute");
    check(
        &node("a", "False", begun),
        Mood::Normal,
        MayEmpty::NotYet,
        "mine:NoExecute not-ready:NoSchedule not-ready:NoExecute",
    );
    check(
        &node("a", "True", json!({"unschedulable": true})),
        Mood::Normal,
        MayEmpty::Now,
        "unschedulable:NoSchedule",
    );
    assert_eq!(taints::change(&node("a", "True", json!({})), Mood::Normal, MayEmpty::Now, at(50)), None);
}

#[test]
fn the_more_nodes_are_silent_the_more_careful_a_cluster_is() {
    for (ready, silent, expected) in [
        (3, 0, Mood::Normal),
        (2, 1, Mood::Normal),
        (1, 2, Mood::Normal),
        (2, 3, Mood::Cautious),
        (3, 3, Mood::Normal),
        (0, 1, Mood::Blind),
        (0, 3, Mood::Blind),
    ] {
        let nodes: Vec<_> = (0..ready)
            .map(|_| "True")
            .chain((0..silent).map(|_| "Unknown"))
            .map(|one| node("a", one, json!({})))
            .collect();
        let moods = taints::moods(nodes.iter());
        assert_eq!(moods.into_values().collect::<Vec<_>>(), [expected], "{ready} and {silent}");
    }
    // One zone that is down, while another works, is emptied.
    let mut nodes = [node("a", "True", json!({})), node("b", "Unknown", json!({}))];
    for (node, zone) in nodes.iter_mut().zip(["x", "y"]) {
        node.metadata
            .labels
            .get_or_insert_default()
            .insert("topology.kubernetes.io/zone".into(), zone.into());
    }
    assert_eq!(taints::moods(nodes.iter()).into_values().collect::<Vec<_>>(), [Mood::Normal, Mood::Normal]);
}

#[test]
fn pods_leave_by_their_tolerations() {
    let pod = |tolerations: Value| -> Pod {
        let status = json!({"startTime": time(20)});
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"containers": [], "tolerations": tolerations}, "status": status})).unwrap()
    };
    let taint = |key: &str, added: Option<i64>| -> Taint {
        serde_json::from_value(json!({"key": key, "effect": "NoExecute", "timeAdded": added.map(time)}))
            .unwrap()
    };
    let a = taint("a", Some(100));
    let for_seconds =
        |key: &str, seconds: i64| json!({"key": key, "operator": "Exists", "tolerationSeconds": seconds});
    let table = [
        (json!([]), vec![], Leave::Never),
        (json!([]), vec![a.clone()], Leave::At(at(100))),
        (json!([{"operator": "Exists"}]), vec![a.clone()], Leave::Never),
        (json!([for_seconds("a", 30)]), vec![a.clone()], Leave::At(at(130))),
        (json!([for_seconds("a", 30), for_seconds("a", 10)]), vec![a.clone()], Leave::At(at(110))),
        (json!([for_seconds("a", -5)]), vec![a.clone()], Leave::At(at(100))),
        (
            json!([for_seconds("a", 30), for_seconds("b", 500)]),
            vec![a.clone(), taint("b", Some(1))],
            Leave::At(at(130)),
        ),
        (json!([for_seconds("a", 30)]), vec![a, taint("b", Some(101))], Leave::At(at(101))),
        // Seen first at 200; and one that is older than the pod counts from the pod's arrival.
        (json!([for_seconds("a", 30)]), vec![taint("a", None)], Leave::At(at(230))),
        (json!([for_seconds("a", 30)]), vec![taint("a", Some(5))], Leave::At(at(50))),
    ];
    for (tolerations, taints, expected) in table {
        assert_eq!(pods::leave(&pod(tolerations.clone()), &taints, |_| at(200)), expected, "{tolerations}");
    }
}

#[test]
fn marks_are_made_once() {
    let mut pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }))
    .unwrap();
    pod.status = pods::not_ready(&pod, at(5));
    assert_eq!(pods::not_ready(&pod, at(6)), None);
    pod.status = pods::sent_away(&pod, at(7));
    assert_eq!(pods::sent_away(&pod, at(8)), None);
    pod.status = pods::lost_its_node(&pod, at(9));
    let status = pod.status.clone().unwrap();
    assert_eq!(status.phase.as_deref(), Some("Failed"));
    assert_eq!(status.conditions.unwrap().last().unwrap().reason.as_deref(), Some("DeletionByPodGC"));
    assert_eq!((pods::lost_its_node(&pod, at(10)), pods::failed(&pod)), (None, None));
}
