//! Plans for DaemonSets, over plain values.

mod history;
mod placing;
mod updating;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::plan::{Look, Plan, plan};
use super::status::status;

const NOW: i64 = 1_800_000_000;

fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

fn ago(seconds: i64) -> String {
    Timestamp::from_second(NOW - seconds).unwrap().to_string()
}

/// A DaemonSet with a rolling update of one pod at a time; `extra` is put over its spec.
fn daemons(extra: Value) -> DaemonSet {
    let mut set = json!({
        "metadata": {"name": "agent", "namespace": "default", "uid": "set", "generation": 1},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "c", "image": "v1"}]}},
        },
    });
    merge(&mut set, json!({"spec": extra}));
    serde_json::from_value(set).unwrap()
}

fn strategy(unavailable: Value, surge: Value) -> Value {
    json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}}})
}

fn node(name: &str, extra: Value) -> Arc<Node> {
    let mut node =
        json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": {}});
    merge(&mut node, extra);
    Arc::new(serde_json::from_value(node).unwrap())
}

fn nodes(count: usize) -> Vec<Arc<Node>> {
    (1..=count).map(|number| node(&format!("n{number}"), json!({}))).collect()
}

/// A pod of a revision on a node that is ready since a minute; `extra` is put over it.
fn pod(name: &str, node: &str, hash: &str, extra: Value) -> Arc<Pod> {
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": ago(60)});
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "creationTimestamp": ago(100),
            "labels": {"app": "agent", "controller-revision-hash": hash}},
        "spec": {"nodeName": node, "containers": []},
        "status": {"phase": "Running", "conditions": [ready]},
    });
    merge(&mut pod, extra);
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn unready() -> Value {
    json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
}

fn going() -> Value {
    json!({"metadata": {"deletionTimestamp": ago(1)}})
}

fn planned(set: &DaemonSet, nodes: &[Arc<Node>], pods: &[Arc<Pod>]) -> Plan {
    plan(&Look { now: now(), set, hash: "new", nodes, pods, resting: &BTreeSet::new() })
}

/// Names of nodes that get a pod, and of pods that go.
#[track_caller]
fn check(set: &DaemonSet, nodes: &[Arc<Node>], pods: &[Arc<Pod>], create: &[&str], delete: &[&str]) {
    let plan = planned(set, nodes, pods);
    let gone: Vec<_> = plan.delete.iter().map(|pod| pod.metadata.name.clone().unwrap()).collect();
    assert_eq!((plan.create, gone), (owned(create), owned(delete)));
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn status_of(set: &DaemonSet, nodes: &[Arc<Node>], pods: &[Arc<Pod>]) -> Option<Value> {
    let look = Look { now: now(), set, hash: "new", nodes, pods, resting: &BTreeSet::new() };
    status(&look).map(|status| serde_json::to_value(status).unwrap())
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
