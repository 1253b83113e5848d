//! From one revision to another.

use serde_json::json;

use super::*;

fn old(count: usize) -> Vec<Arc<Pod>> {
    (1..=count).map(|number| pod(&format!("p{number}"), &format!("n{number}"), "old", json!({}))).collect()
}

#[test]
fn no_more_nodes_are_without_a_pod_than_allowed() {
    let all = nodes(5);
    for (most, gone) in [
        (json!(1), vec!["p1"]),
        (json!(2), vec!["p1", "p2"]),
        (json!("30%"), vec!["p1", "p2"]),
        (json!("0%"), vec!["p1"]),
    ] {
        check(&daemons(strategy(most, json!(0))), &all, &old(5), &[], &gone);
    }
    let set = daemons(strategy(json!(2), json!(0)));
    // New ones that are not available yet count, and so do nodes whose pod is going.
    let mut pods = old(5);
    pods[0] = pod("p1", "n1", "new", unready());
    check(&set, &all, &pods, &[], &["p2"]);
    pods[1] = pod("p2", "n2", "old", going());
    check(&set, &all, &pods, &[], &[]);
    // Old ones that are not available go at once.
    pods[2] = pod("p3", "n3", "old", unready());
    pods[3] = pod("p4", "n4", "old", unready());
    check(&set, &all, &pods, &[], &["p3", "p4"]);
}

#[test]
fn pods_are_replaced_only_once_all_are_where_they_belong() {
    let set = daemons(strategy(json!(3), json!(0)));
    check(&set, &nodes(3), &old(2), &["n3"], &[]);
}

#[test]
fn on_delete_waits_for_users() {
    let set = daemons(json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}));
    check(&set, &nodes(2), &old(2), &[], &[]);
}

#[test]
fn surging_puts_a_new_pod_beside_the_old_one_first() {
    let (set, all) = (daemons(strategy(json!(0), json!(2))), nodes(4));
    check(&set, &all, &old(4), &["n1", "n2"], &[]);
    let mut pods = old(4);
    pods.push(pod("q1", "n1", "new", unready()));
    check(&set, &all, &pods, &["n2"], &[]);
    pods.push(pod("q2", "n2", "new", unready()));
    check(&set, &all, &pods, &[], &[]);
    // Once the new one is available, the old one goes; and it goes at once when it is not ready itself.
    *pods.last_mut().unwrap() = pod("q2", "n2", "new", json!({}));
    check(&set, &all, &pods, &[], &["p2"]);
    pods[0] = pod("p1", "n1", "old", unready());
    check(&set, &all, &pods, &[], &["p1", "p2"]);
    // Nodes whose old pod is not available get a new one whatever the limit.
    let mut pods = old(4);
    for place in [0, 1, 2] {
        let number = place + 1;
        pods[place] = pod(&format!("p{number}"), &format!("n{number}"), "old", unready());
    }
    check(&set, &all, &pods, &["n1", "n2", "n3", "n4"], &[]);
    // There is always one that stays.
    check(&set, &all[..1], &[pod("p1", "n1", "new", going())], &["n1"], &[]);
    let twins = [
        pod("a", "n1", "new", json!({})),
        pod("b", "n1", "new", json!({"metadata": {"creationTimestamp": ago(9)}})),
    ];
    check(&set, &all[..1], &twins, &[], &["b"]);
}

#[test]
fn a_surging_set_that_moves_keeps_enough_available_pods() {
    let only = |name: &str| {
        let mut spec = strategy(json!(0), json!(1));
        merge(
            &mut spec,
            json!({"template": {"spec": {"tolerations": [{"key": name, "operator": "Exists"}]}}}),
        );
        daemons(spec)
    };
    let tainted = |name: &str, key: &str| {
        node(name, json!({"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}}))
    };
    // It was for n1 and is for n2 now.
    let all = [tainted("n1", "one"), tainted("n2", "two")];
    let set = only("two");
    let old = pod("p1", "n1", "old", json!({}));
    check(&set, &all, std::slice::from_ref(&old), &["n2"], &[]);
    check(&set, &all, &[old.clone(), pod("q2", "n2", "new", unready())], &[], &[]);
    check(&set, &all, &[old, pod("q2", "n2", "new", json!({}))], &[], &["p1"]);
}

#[test]
fn pods_of_a_template_generation_count_as_updated() {
    let mut set = daemons(json!({}));
    set.metadata.annotations =
        Some([("deprecated.daemonset.template.generation".to_owned(), "2".to_owned())].into());
    let of = |generation: &str| {
        pod("p1", "n1", "", json!({"metadata": {"labels": {"pod-template-generation": generation}}}))
    };
    check(&set, &nodes(1), &[of("2")], &[], &[]);
    check(&set, &nodes(1), &[of("1")], &[], &["p1"]);
}
