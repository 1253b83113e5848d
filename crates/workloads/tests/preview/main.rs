//! What would become of live workloads, from their annotations.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use koinon_workloads::preview::{self, Preview, WhatIf};
use serde_json::{Value, json};

fn members(names: &[&str]) -> BTreeMap<String, bool> {
    names.iter().map(|name| ((*name).to_owned(), true)).collect()
}

/// A placement of `desired` in each cluster, all of it up to date.
fn placement(clusters: &[(&str, i64)]) -> String {
    let clusters: BTreeMap<&str, Value> = clusters
        .iter()
        .map(|(name, count)| {
            (*name, json!({"desired": count, "replicas": count, "available": count, "updated": count, "state": "Ready"}))
        })
        .collect();
    json!({"observedGeneration": 1, "clusters": clusters}).to_string()
}

fn deployment(annotations: Value, placement: String) -> Deployment {
    let mut object = json!({
        "metadata": {"name": "web", "namespace": "default", "generation": 1, "annotations": annotations},
        "spec": {"replicas": 9, "selector": {}, "template": {"spec": {"containers": [
            {"name": "web", "image": "web:1"}, {"name": "side", "image": "side:1"},
        ]}}},
    });
    object["metadata"]["annotations"]["koinon.dev/placement"] = placement.into();
    serde_json::from_value(object).unwrap()
}

fn see(live: &Deployment, what_if: WhatIf) -> Preview {
    preview::deployment(Timestamp::UNIX_EPOCH, live, &members(&["a", "b", "c"]), &what_if).unwrap()
}

fn layout(preview: &Preview) -> String {
    let parts = preview.plan.clusters.iter().map(|(name, share)| format!("{name}={}", share.replicas));
    parts.collect::<Vec<_>>().join(" ")
}

fn steps(preview: &Preview) -> String {
    let group =
        |group: &std::collections::BTreeSet<String>| group.iter().cloned().collect::<Vec<_>>().join("+");
    preview.steps.iter().map(group).collect::<Vec<_>>().join(" ")
}

const EVEN: [(&str, i64); 3] = [("a", 3), ("b", 3), ("c", 3)];

#[test]
fn nothing_moves_and_nothing_is_updated_unless_something_is_assumed() {
    let live = deployment(json!({}), placement(&EVEN));
    let seen = see(&live, WhatIf::default());
    assert_eq!((layout(&seen).as_str(), steps(&seen).as_str()), ("a=3 b=3 c=3", ""));
    let lost = see(&live, WhatIf { lose: ["b".to_owned()].into(), ..WhatIf::default() });
    assert_eq!(lost.plan.clusters.values().map(|share| share.replicas).sum::<i64>(), 9);
    assert!(!lost.plan.clusters.contains_key("b"));
    let weights = BTreeMap::from([("a".to_owned(), 7)]);
    let heavier = see(&live, WhatIf { weights, rebalance: Some(true), ..WhatIf::default() });
    assert_eq!(layout(&heavier), "a=7 b=1 c=1");
    let more = see(&live, WhatIf { replicas: Some(12), ..WhatIf::default() });
    assert_eq!((layout(&more).as_str(), more.replicas), ("a=4 b=4 c=4", 12));
    let full = WhatIf { capacity: BTreeMap::from([("c".to_owned(), 1)]), ..WhatIf::default() };
    let full = see(&live, full);
    assert_eq!(full.plan.clusters["c"].replicas, 1);
}

#[test]
fn an_image_is_told_step_by_step() {
    let image = |image: &str| WhatIf { image: Some(image.to_owned()), ..WhatIf::default() };
    let live = deployment(json!({"koinon.dev/cluster-order": "c"}), placement(&EVEN));
    assert_eq!(steps(&see(&live, image("web:2"))), "c a b");
    assert_eq!(steps(&see(&live, image("web:1"))), "", "it is what runs");
    assert_eq!(steps(&see(&live, image("side=side:2"))), "c a b");
    let two = json!({"koinon.dev/max-concurrent-clusters": "2"});
    assert_eq!(steps(&see(&deployment(two, placement(&EVEN)), image("web:2"))), "a+b c");
    // Who runs nothing has nothing to update.
    let uneven = r#"{"clusters":{"a":{"weight":1},"b":{"weight":1}}}"#;
    let uneven = json!({"federation.kubernetes.io/deployment-preferences": uneven});
    let live = deployment(uneven, placement(&[("a", 5), ("b", 4), ("c", 0)]));
    assert_eq!(steps(&see(&live, image("web:2"))), "a b");
    let mut paused = live;
    paused.spec.as_mut().unwrap().paused = Some(true);
    let paused = see(&paused, image("web:2"));
    assert_eq!((steps(&paused).as_str(), paused.warnings.len()), ("", 1));
}

#[test]
fn what_is_begun_goes_first_and_then_the_order_is_kept() {
    let cluster = |state: &str, updated: i64| json!({"desired": 3, "replicas": 3, "available": 3, "updated": updated, "state": state});
    let clusters = json!({"a": cluster("Waiting", 0), "b": cluster("Updating", 1), "c": cluster("Ready", 3)});
    let placement = json!({"observedGeneration": 1, "clusters": clusters}).to_string();
    let live = deployment(json!({"koinon.dev/cluster-order": "c,a,b"}), placement);
    let image = WhatIf { image: Some("web:2".to_owned()), ..WhatIf::default() };
    assert_eq!(steps(&see(&live, image)), "b c a");
}

#[test]
fn what_makes_no_sense_is_told() {
    let live = deployment(json!({}), placement(&EVEN));
    let try_it = |what_if: &WhatIf| {
        preview::deployment(Timestamp::UNIX_EPOCH, &live, &members(&["a", "b", "c"]), what_if).unwrap_err()
    };
    let stranger = try_it(&WhatIf { lose: ["mars".to_owned()].into(), ..WhatIf::default() });
    assert_eq!(stranger.to_string(), "\"mars\" is none of the members a, b, c");
    let container = try_it(&WhatIf { image: Some("db=x:1".to_owned()), ..WhatIf::default() });
    assert_eq!(container.to_string(), "the pod template has no container \"db\": it has web, side");
    let set: ReplicaSet = serde_json::from_value(json!({"metadata": {"name": "web"}})).unwrap();
    let image = WhatIf { image: Some("x".to_owned()), ..WhatIf::default() };
    assert!(preview::replica_set(Timestamp::UNIX_EPOCH, &set, &members(&["a"]), &image).is_err());
}

#[test]
fn a_replica_set_with_a_full_cluster_keeps_its_layout() {
    let full = json!({"observedGeneration": 1, "clusters": {
        "a": {"desired": 22, "replicas": 22, "available": 22, "state": "Ready"},
        "b": {"desired": 22, "replicas": 22, "available": 22, "state": "Ready"},
        "c": {"desired": 6, "replicas": 8, "available": 6, "unschedulable": 2, "overflow": 11, "state": "Ready"},
    }});
    let preferences = r#"{"rebalance":true,"clusters":{"*":{"weight":1}}}"#;
    let set: ReplicaSet = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default", "generation": 1, "annotations": {
            "koinon.dev/placement": full.to_string(),
            "federation.kubernetes.io/replica-set-preferences": preferences,
        }},
        "spec": {"replicas": 50, "selector": {}},
    }))
    .unwrap();
    let see = |what_if: &WhatIf| {
        preview::replica_set(Timestamp::UNIX_EPOCH, &set, &members(&["a", "b", "c"]), what_if).unwrap()
    };
    let as_is = see(&WhatIf::default());
    assert_eq!(layout(&as_is), "a=22 b=22 c=6");
    assert_eq!(as_is.before, BTreeMap::from([("a".into(), 22), ("b".into(), 22), ("c".into(), 6)]));
    assert_eq!(layout(&see(&WhatIf { replicas: Some(60), ..WhatIf::default() })), "a=27 b=27 c=6");
}

#[test]
fn a_cluster_whose_object_is_left_to_somebody_else_has_no_part_in_it() {
    let clusters = json!({
        "a": {"state": "Foreign", "why": "to take it over would change spec.template"},
        "b": {"desired": 5, "replicas": 5, "available": 5, "updated": 5, "state": "Ready"},
        "c": {"desired": 4, "replicas": 4, "available": 4, "updated": 4, "state": "Ready"},
    });
    let placement = json!({"observedGeneration": 1, "clusters": clusters}).to_string();
    let never = deployment(json!({"koinon.dev/take-over": "never"}), placement.clone());
    let seen = see(&never, WhatIf { replicas: Some(12), ..WhatIf::default() });
    assert_eq!(layout(&seen), "b=6 c=6");
    assert_eq!(seen.warnings, ["cluster a: to take it over would change spec.template"]);
    let always = deployment(json!({}), placement);
    assert!(see(&always, WhatIf::default()).plan.clusters.contains_key("a"));
}
