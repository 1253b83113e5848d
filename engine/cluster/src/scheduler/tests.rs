//! Decisions over whole clusters, without a server.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::amounts::asked;
use super::decide::{Decision, decide};
use super::ledger::{Gain, Ledger};

fn node(name: &str, cpu: u32, spec: Value) -> Arc<Node> {
    let labels = json!({"kubernetes.io/hostname": name, "zone": &name[..1]});
    let allocatable = json!({"cpu": format!("{cpu}m"), "memory": "1Gi", "pods": "5"});
    let node = json!({"metadata": {"name": name, "uid": name, "labels": labels}, "spec": spec, "status": {"allocatable": allocatable}});
    Arc::new(serde_json::from_value(node).unwrap())
}

fn pod(name: &str, cpu: u32, spec: Value) -> Pod {
    let container = json!({"name": "c", "resources": {"requests": {"cpu": format!("{cpu}m")}}});
    let mut all = json!({"containers": [container]});
    for (key, value) in spec.as_object().unwrap() {
        all[key] = value.clone();
    }
    let metadata = json!({"name": name, "namespace": "default", "uid": name, "labels": {"app": &name[..1]}});
    serde_json::from_value(json!({"metadata": metadata, "spec": all})).unwrap()
}

fn ledger(nodes: &[Arc<Node>]) -> Ledger {
    let mut ledger = Ledger::default();
    for node in nodes {
        ledger.put_node(node);
    }
    ledger
}

#[track_caller]
fn check(ledger: &Ledger, pod: &Pod, expected: &str) {
    let decision = match decide(pod, ledger) {
        Decision::Place(node) => node,
        Decision::Wait(why) => why,
    };
    assert_eq!(decision, expected);
}

#[test]
fn every_reason_is_told_and_counted() {
    let tainted = json!({"taints": [{"key": "k", "effect": "NoExecute"}]});
    let nodes = [
        node("a1", 1000, json!({})),
        node("a2", 100, json!({})),
        node("b1", 1000, tainted),
        node("c1", 1000, json!({"unschedulable": true})),
    ];
    let mut ledger = ledger(&nodes);
    ledger.assume(&pod("x", 900, json!({})), "a1");
    check(
        &ledger,
        &pod("y", 200, json!({})),
        "0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 2 Insufficient cpu. \
         no new claims to deallocate, preemption: 0/4 nodes are available: 1 No preemption victims found for incoming pod, \
         3 Preemption is not helpful for scheduling.",
    );
    check(
        &ledger,
        &pod("y", 200, json!({"nodeSelector": {"zone": "z"}, "preemptionPolicy": "Never"})),
        "0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, \
         2 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.",
    );
    check(&ledger, &pod("y", 200, json!({"tolerations": [{"operator": "Exists"}]})), "b1");
    check(&ledger, &pod("y", 50, json!({})), "a2");
    check(&Ledger::default(), &pod("y", 50, json!({})), "no nodes available to schedule pods");
}

#[test]
fn preferences_decide_among_nodes_that_fit() {
    let nodes = [
        node("a1", 1000, json!({"taints": [{"key": "k", "effect": "PreferNoSchedule"}]})),
        node("b1", 1000, json!({})),
        node("c1", 1000, json!({})),
    ];
    let ledger = ledger(&nodes);
    check(&ledger, &pod("y", 50, json!({})), "b1");
    let prefers = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 10, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["c"]}]}},
    ]}}});
    check(&ledger, &pod("y", 50, prefers), "c1");
}

#[test]
fn spread_constraints_keep_places_even() {
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "w"}},
    }]});
    let mut ledger =
        ledger(&[node("a1", 9000, json!({})), node("a2", 9000, json!({})), node("b1", 1000, json!({}))]);
    let mut zones = Vec::new();
    for number in 0..5 {
        let pod = pod(&format!("w{number}"), 300, spread.clone());
        match decide(&pod, &ledger) {
            Decision::Place(node) => {
                ledger.assume(&pod, &node);
                zones.push(node[..1].to_owned());
            }
            Decision::Wait(why) => zones.push(why),
        }
    }
    let in_b = zones.iter().filter(|zone| *zone == "b").count();
    assert_eq!((zones.len(), in_b), (5, 2), "{zones:?}");
    // The zone with one node is full: now the other may not take more either.
    for number in 5..7 {
        let pod = pod(&format!("w{number}"), 500, spread.clone());
        if let Decision::Place(node) = decide(&pod, &ledger) {
            ledger.assume(&pod, &node);
        }
    }
    let Decision::Wait(why) = decide(&pod("w9", 500, spread), &ledger) else { panic!("it fits") };
    assert!(why.contains("2 node(s) didn't match pod topology spread constraints"), "{why}");
}

#[test]
fn a_group_that_wants_to_be_together_can_begin_and_grows_where_it_is() {
    let together = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "t"}}},
    ]}}});
    let mut ledger = ledger(&[node("a1", 1000, json!({})), node("b1", 1000, json!({}))]);
    let first = pod("t1", 100, together.clone());
    let Decision::Place(place) = decide(&first, &ledger) else { panic!("nobody can begin") };
    ledger.assume(&first, &place);
    for number in 2..5 {
        let next = pod(&format!("t{number}"), 100, together.clone());
        check(&ledger, &next, &place);
        ledger.assume(&next, &place);
    }
    // Somebody else who avoids them goes elsewhere, and keeps them away from there.
    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "zone", "namespaceSelector": {}, "labelSelector": {"matchLabels": {"app": "t"}}},
    ]}}});
    let loner = pod("z", 100, apart);
    let Decision::Place(elsewhere) = decide(&loner, &ledger) else { panic!("there is room") };
    assert_ne!(elsewhere, place);
    ledger.assume(&loner, &elsewhere);
    ledger.drop_node(&place);
    let Decision::Wait(why) = decide(&pod("t9", 100, json!({})), &ledger) else { panic!("it is kept away") };
    assert!(why.contains("1 node(s) didn't satisfy existing pods anti-affinity rules"), "{why}");
}

#[test]
fn a_ledger_tells_what_can_help_whom() {
    let mut ledger = ledger(&[node("a1", 1000, json!({}))]);
    assert_eq!(ledger.put_node(&node("a1", 1000, json!({}))), Gain::Nothing);
    assert_eq!(ledger.put_node(&node("a1", 2000, json!({}))), Gain::Room);
    let mut placed = pod("x", 100, json!({"nodeName": "a1"}));
    assert_eq!(ledger.put_pod(&placed), Gain::Neighbours);
    assert_eq!(ledger.put_pod(&placed), Gain::Nothing);
    placed.status.get_or_insert_default().phase = Some("Succeeded".into());
    assert_eq!(ledger.put_pod(&placed), Gain::Room);
    assert_eq!(ledger.put_pod(&placed), Gain::Nothing);
    // A binding that nobody answered counts until it is known not to have happened.
    ledger.assume(&pod("y", 2000, json!({})), "a1");
    assert_eq!(ledger.assumed("y"), Some("a1"));
    check(
        &ledger,
        &pod("z", 1, json!({})),
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: \
         1 No preemption victims found for incoming pod.",
    );
    ledger.recall("y");
    check(&ledger, &pod("z", 1, json!({})), "a1");
}

#[derive(Clone, Debug)]
enum Step {
    Place(u32),
    Remove(usize),
    Resize(usize, u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..700u32).prop_map(Step::Place),
        1 => (0..40usize).prop_map(Step::Remove),
        1 => (0..4usize, 0..2000u32).prop_map(|(node, cpu)| Step::Resize(node, cpu)),
    ]
}

proptest! {
    /// Nobody is overfilled, who fits somewhere is placed, and the same cluster gives the same answer.
    #[test]
    fn placements_hold(steps in prop::collection::vec(step(), 1..60)) {
        let mut sizes = [1000u32, 500, 1500, 0];
        let name = |number: usize| format!("{}1", ["a", "b", "c", "d"][number]);
        let nodes: Vec<_> = (0..4).map(|number| node(&name(number), sizes[number], json!({}))).collect();
        let mut ledger = ledger(&nodes);
        let mut placed: Vec<(Pod, String)> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Place(cpu) => {
                    let pod = pod(&format!("p{number}"), cpu, json!({}));
                    let taken = |node: &str| -> (u32, usize) {
                        let here: Vec<_> = placed.iter().filter(|(_, place)| place == node).collect();
                        (here.iter().map(|(pod, _)| asked(pod).get("cpu") as u32).sum(), here.len())
                    };
                    let fits = |number: usize| {
                        let (used, count) = taken(&name(number));
                        count < 5 && (cpu == 0 || used + cpu <= sizes[number])
                    };
                    let decision = decide(&pod, &ledger);
                    prop_assert_eq!(&decision, &decide(&pod, &ledger));
                    match decision {
                        Decision::Place(node) => {
                            let number = (0..4).find(|number| name(*number) == node).unwrap();
                            prop_assert!(fits(number), "{} is overfull", node);
                            ledger.assume(&pod, &node);
                            placed.push((pod, node));
                        }
                        Decision::Wait(why) => prop_assert!(!(0..4).any(fits), "it would fit: {}", why),
                    }
                }
                Step::Remove(which) if which < placed.len() => {
                    let (pod, _) = placed.remove(which);
                    ledger.drop_pod(pod.metadata.uid.as_deref().unwrap());
                }
                Step::Remove(_) => {}
                Step::Resize(which, cpu) => {
                    sizes[which] = cpu;
                    ledger.put_node(&node(&name(which), cpu, json!({})));
                }
            }
        }
    }
}
