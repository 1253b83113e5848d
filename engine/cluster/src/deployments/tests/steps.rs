//! One step at a time: what a plan does with what it finds.

use std::sync::Arc;

use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::super::plan::{Plan, Step};
use super::super::sets::{DESIRED, MAX, REVISION, REVISION_HISTORY};
use super::world::{World, template};

/// Sets as `image=replicas/available`, the oldest first; the Deployment has image `v0`.
fn world(replicas: i32, extra: Value, sets: &str) -> World {
    let mut world = World::new(replicas, extra);
    for (age, set) in sets.split_whitespace().enumerate() {
        let (image, counts) = set.split_once('=').unwrap();
        let (size, available) = counts.split_once('/').unwrap();
        let (size, available): (usize, usize) = (size.parse().unwrap(), available.parse().unwrap());
        let mut template = template(image);
        template["metadata"]["labels"]["pod-template-hash"] = image.into();
        let created = jiff::Timestamp::from_second(world.second - 1000 + age as i64).unwrap().to_string();
        let limits = world.limits();
        let annotations = json!({REVISION: (age + 1).to_string(), DESIRED: limits.replicas.to_string(),
            MAX: limits.most().to_string()});
        let set = json!({
            "metadata": {"name": image, "namespace": "default", "uid": image, "generation": 1,
                "creationTimestamp": created, "annotations": annotations},
            "spec": {"replicas": size, "selector": {}, "template": template},
        });
        world.sets.push(Arc::new(serde_json::from_value(set).unwrap()));
        let pods = (0..size).map(|number| number < available).collect();
        world.pods.insert(image.into(), pods);
        world.tell(age);
    }
    world
}

fn bounds(surge: i32, unavailable: i32) -> Value {
    json!({"strategy": {"type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}})
}

fn recreate() -> Value {
    json!({"strategy": {"type": "Recreate"}})
}

/// Applies one plan and looks at the sizes.
#[track_caller]
fn check(mut world: World, expected: &str) -> World {
    let plan = world.plan();
    world.apply(&plan);
    assert_eq!(world.sizes(), expected);
    world
}

#[test]
fn a_rolling_update_goes_up_first_and_down_as_far_as_it_may() {
    check(world(10, bounds(3, 2), ""), "v0=10");
    check(world(10, bounds(3, 2), "v1=10/10"), "v1=8 v0=3");
    check(world(10, bounds(3, 2), "v1=10/10 v0=3/0"), "v1=8 v0=3");
    check(world(10, bounds(3, 2), "v1=8/8 v0=3/0"), "v1=8 v0=5");
    check(world(10, bounds(3, 2), "v1=8/8 v0=5/0"), "v1=8 v0=5");
    check(world(10, bounds(3, 2), "v1=8/8 v0=5/3"), "v1=5 v0=5");
    check(world(10, bounds(3, 2), "v1=3/3 v0=10/10"), "v1=0 v0=10");
    check(world(10, bounds(0, 2), "v1=10/10"), "v1=8 v0=0");
    check(world(10, bounds(0, 2), "v1=10/10 v0=0/0"), "v1=8 v0=0");
    check(world(1, bounds(1, 0), "v1=1/1 v0=1/0"), "v1=1 v0=1");
    check(world(3, bounds(1, 0), "v0=5/5"), "v0=3");
}

#[test]
fn old_pods_that_serve_nobody_go_first() {
    check(world(10, bounds(3, 2), "v2=4/1 v1=6/5 v0=3/0"), "v2=2 v1=6 v0=3");
    check(world(10, bounds(0, 2), "v1=10/0 v0=0/0"), "v1=8 v0=0");
    // The oldest of the healthy ones follow.
    check(world(10, bounds(3, 2), "v2=3/3 v1=5/5 v0=5/5"), "v2=0 v1=3 v0=5");
    // New pods that are not available block what they should replace, and nothing else.
    check(world(10, bounds(3, 2), "v1=8/7 v0=5/0"), "v1=8 v0=5");
}

#[test]
fn pods_that_are_on_their_way_out_do_not_count() {
    // Both sets were just made smaller, and have not told so yet.
    let mut stale = world(2, bounds(2, 1), "v1=1/1 v0=1/1");
    for set in &mut stale.sets {
        std::sync::Arc::make_mut(set).status.as_mut().unwrap().available_replicas = Some(3);
    }
    check(stale, "v1=1 v0=2");
    let mut stale = world(2, bounds(0, 1), "v1=1/1 v0=1/1");
    std::sync::Arc::make_mut(&mut stale.sets[1]).status.as_mut().unwrap().available_replicas = Some(3);
    check(stale, "v1=0 v0=1");
    let mut stale = world(2, bounds(0, 1), "v2=1/1 v1=1/0 v0=0/0");
    std::sync::Arc::make_mut(&mut stale.sets[2]).status.as_mut().unwrap().available_replicas = Some(2);
    check(stale, "v2=1 v1=0 v0=0");
}

#[test]
fn a_rollover_starts_with_what_is_left_of_the_surge() {
    check(world(10, bounds(3, 2), "v2=8/8 v1=5/0"), "v2=8 v1=0 v0=0");
    check(world(10, bounds(3, 2), "v2=8/8 v1=4/0"), "v2=8 v1=0 v0=1");
}

#[test]
fn going_back_to_an_old_template_makes_its_set_the_newest() {
    let world = check(world(4, bounds(1, 1), "v0=0/0 v1=4/4"), "v0=1 v1=4");
    let set = &world.sets[0];
    assert_eq!(set.annotations()[REVISION], "3");
    assert_eq!(set.annotations()[REVISION_HISTORY], "1");
    assert_eq!(world.deployment.annotations()[REVISION], "3");
    assert_eq!(world.sets[1].annotations()[REVISION], "2");
}

#[test]
fn recreating_waits_for_every_old_pod() {
    let gone = check(world(3, recreate(), "v1=3/3"), "v1=0");
    check(gone, "v1=0");
    let mut ending = world(3, recreate(), "v1=0/0");
    ending.ending.insert("v1".into(), 1);
    let ending = check(ending, "v1=0");
    let done = World { ending: Default::default(), ..ending };
    check(done, "v1=0 v0=3");
    check(world(3, recreate(), ""), "v0=3");
    check(world(3, recreate(), "v0=2/2"), "v0=3");
}

/// A Deployment that was of size `from` when its sets were made.
fn scaled(from: i32, to: i32, extra: Value, sets: &str) -> World {
    let mut world = world(from, extra, sets);
    world.edit(json!({"replicas": to}));
    world
}

#[test]
fn scaling_amid_a_rollout_keeps_proportions() {
    check(scaled(10, 15, bounds(3, 2), "v1=8/8 v0=5/0"), "v1=11 v0=7");
    check(scaled(10, 5, bounds(3, 2), "v1=8/8 v0=5/0"), "v1=5 v0=3");
    check(scaled(10, 20, bounds(0, 2), "v1=5/5 v0=5/5"), "v1=10 v0=10");
    // What rounding leaves goes to the largest; among equals the newer grows and the older shrinks.
    check(scaled(3, 4, bounds(0, 1), "v2=1/1 v1=1/1 v0=1/1"), "v2=1 v1=1 v0=2");
    check(scaled(3, 2, bounds(0, 1), "v2=1/1 v1=1/1 v0=1/1"), "v2=0 v1=1 v0=1");
    check(scaled(10, 0, bounds(3, 2), "v1=8/8 v0=5/0"), "v1=0 v0=0");
    let world = check(scaled(4, 8, bounds(1, 1), "v0=4/4"), "v0=8");
    assert_eq!((&*world.sets[0].annotations()[DESIRED], &*world.sets[0].annotations()[MAX]), ("8", "9"));
    check(scaled(0, 4, bounds(1, 1), "v1=0/0 v0=0/0"), "v1=0 v0=4");
}

#[test]
fn a_paused_deployment_only_scales() {
    let paused = |extra: Value| {
        let mut spec = bounds(1, 1);
        spec.as_object_mut().unwrap().extend(json!({"paused": true}).as_object().unwrap().clone());
        spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        spec
    };
    check(world(3, paused(json!({})), ""), "");
    check(world(3, paused(json!({})), "v1=3/3"), "v1=3");
    check(scaled(3, 6, paused(json!({})), "v1=3/3"), "v1=6");
    check(scaled(4, 8, paused(json!({})), "v1=3/3 v0=2/2"), "v1=5 v0=4");
    // History is cleaned meanwhile.
    check(world(3, paused(json!({"revisionHistoryLimit": 0})), "v2=0/0 v1=3/3"), "v1=3");
}

#[test]
fn a_saturated_set_takes_over_at_once() {
    check(world(3, bounds(1, 1), "v1=2/2 v0=3/3"), "v1=0 v0=3");
    let mut paused = world(3, bounds(1, 1), "v1=2/2 v0=3/3");
    paused.edit(json!({"paused": true}));
    check(paused, "v1=0 v0=3");
}

#[test]
fn history_goes_once_the_rollout_is_complete_and_never_with_pods() {
    let limited = |limit: i32| {
        let mut spec = bounds(1, 1);
        spec["revisionHistoryLimit"] = limit.into();
        spec
    };
    let mut done = world(2, limited(1), "v3=0/0 v2=0/0 v1=0/0 v0=2/2");
    done.settle();
    assert_eq!(done.sizes(), "v1=0 v0=2");
    let mut all = world(2, limited(i32::MAX), "v2=0/0 v1=0/0 v0=2/2");
    all.settle();
    assert_eq!(all.sizes(), "v2=0 v1=0 v0=2");
    let mut none = world(2, limited(0), "v2=0/0 v1=0/0 v0=2/2");
    none.settle();
    assert_eq!(none.sizes(), "v0=2");
    check(world(2, limited(0), "v2=0/0 v1=1/1 v0=2/0"), "v2=0 v1=1 v0=2");
}

#[test]
fn a_set_scaled_by_hand_to_the_new_size_is_taken_as_scaled() {
    let mut world = scaled(3, 5, bounds(1, 1), "v1=5/5");
    let plan = world.plan();
    world.apply(&plan);
    assert_eq!(world.sets[0].annotations()[DESIRED], "5");
    check(world, "v1=4 v0=1");
}

#[test]
fn a_size_is_noted_when_the_strategy_became_another_amid_a_rollout() {
    let mut world = scaled(3, 5, bounds(1, 1), "v1=2/2 v0=2/2");
    world.edit(recreate());
    let world = check(world, "v1=2 v0=2");
    check(world, "v1=0 v0=2");
}

#[test]
fn the_new_set_takes_over_what_the_deployment_says_about_itself() {
    let mut world = world(2, bounds(1, 1), "v0=2/2");
    let notes = world.deployment.annotations_mut();
    notes.insert("kubernetes.io/change-cause".into(), "because".into());
    notes.insert("kubectl.kubernetes.io/last-applied-configuration".into(), "{}".into());
    world.edit(json!({"minReadySeconds": 7}));
    let world = check(world, "v0=2");
    let set = &world.sets[0];
    assert_eq!(set.annotations()["kubernetes.io/change-cause"], "because");
    assert!(!set.annotations().contains_key("kubectl.kubernetes.io/last-applied-configuration"));
    assert_eq!(set.spec.as_ref().unwrap().min_ready_seconds, Some(7));
    assert_eq!(set.annotations()[REVISION], "1");
}

#[test]
fn what_is_made_has_the_hash_in_name_labels_and_selector() {
    let world = check(world(2, bounds(1, 1), ""), "v0=2");
    let set = &world.sets[0];
    let hash = &set.labels()["pod-template-hash"];
    assert_eq!(set.name_any(), format!("web-{hash}"));
    let spec = set.spec.as_ref().unwrap();
    assert_eq!(&spec.selector.match_labels.as_ref().unwrap()["pod-template-hash"], hash);
    let template = spec.template.as_ref().unwrap().metadata.as_ref().unwrap();
    assert_eq!(&template.labels.as_ref().unwrap()["pod-template-hash"], hash);
    assert_eq!((&*set.annotations()[DESIRED], &*set.annotations()[MAX]), ("2", "3"));
    assert_eq!(set.owner_references()[0].controller, Some(true));
}

#[test]
fn steps_say_what_they_do_and_why() {
    let plan = world(10, bounds(3, 2), "v1=10/10 v0=3/0").plan();
    let [step] = &plan.steps[..] else { panic!("{plan:?}") };
    assert_eq!(step.message().as_deref(), Some("Scaled down replica set v1 from 10 to 8"));
    assert_eq!(step.why(), "enough pods are available without these");
    let plan = world(10, bounds(3, 2), "").plan();
    let [step @ Step::Create { set, .. }] = &plan.steps[..] else { panic!("{plan:?}") };
    let message = format!("Scaled up replica set {} from 0 to 10", set.name_any());
    assert_eq!(step.message(), Some(message));
}

#[test]
fn what_is_being_deleted_only_counts() {
    let mut world = world(4, bounds(1, 1), "v1=4/4");
    world.deployment.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(world.now()));
    let plan = world.plan();
    assert_eq!(plan.steps, []);
    assert_eq!(plan.status.as_ref().unwrap().available_replicas, Some(4));
    world.apply(&plan);
    assert_eq!(world.plan(), Plan::default());
}
