//! How a rollout is told about, and when it is given up.

use std::time::Duration;

use serde_json::json;

use super::super::conditions;
use super::super::plan::{Plan, collided, refused};
use super::world::{World, template};

fn message(world: &World) -> String {
    let status = world.deployment.status.as_ref().unwrap();
    conditions::get(status, "Progressing").unwrap().message.clone().unwrap()
}

fn step(world: &mut World) -> Plan {
    let plan = world.plan();
    world.apply(&plan);
    plan
}

/// A Deployment of which all pods are up.
fn complete() -> World {
    let strategy = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    let mut world = World::new(2, json!({"strategy": strategy}));
    world.settle();
    world
}

#[test]
fn a_first_rollout_from_its_making_to_its_end() {
    let mut world = World::new(2, json!({}));
    step(&mut world);
    let name = world.sets[0].metadata.name.clone().unwrap();
    assert_eq!(world.reason("Progressing"), "NewReplicaSetCreated");
    assert_eq!(message(&world), format!("Created new replica set \"{name}\""));
    assert_eq!(world.reason("Available"), "MinimumReplicasUnavailable");
    world.keep(0);
    step(&mut world);
    assert_eq!(world.reason("Progressing"), "ReplicaSetUpdated");
    assert_eq!(message(&world), format!("ReplicaSet \"{name}\" is progressing."));
    world.pods.get_mut(&name).unwrap().fill(true);
    world.tell(0);
    step(&mut world);
    assert_eq!(world.reason("Progressing"), "NewReplicaSetAvailable");
    assert_eq!(message(&world), format!("ReplicaSet \"{name}\" has successfully progressed."));
    assert_eq!(world.reason("Available"), "MinimumReplicasAvailable");
    assert_eq!(world.plan(), Plan::default());
}

#[test]
fn without_progress_the_deadline_is_waited_for_and_then_told() {
    let mut world = complete();
    world.edit(json!({"template": template("v1")}));
    step(&mut world);
    for place in 0..world.sets.len() {
        world.keep(place);
    }
    world.second += 5;
    while !world.plan().steps.is_empty() || world.plan().status.is_some() {
        step(&mut world);
    }
    assert_eq!(world.plan().look_again, Some(Duration::from_secs(601)));
    world.second += 600;
    let plan = world.plan();
    assert_eq!((plan.status, plan.look_again), (None, Some(Duration::from_secs(1))));
    world.second += 1;
    step(&mut world);
    assert_eq!(world.reason("Progressing"), "ProgressDeadlineExceeded");
    assert!(message(&world).ends_with("has timed out progressing."));
    assert_eq!(world.plan(), Plan::default(), "nothing more is waited for");
    // A pod that comes up after all starts the clock again.
    let name = world.sets[1].metadata.name.clone().unwrap();
    world.pods.get_mut(&name).unwrap()[0] = true;
    world.tell(1);
    step(&mut world);
    assert_eq!(world.reason("Progressing"), "ReplicaSetUpdated");
}

#[test]
fn what_was_complete_stays_so_when_pods_fail_later() {
    let mut world = complete();
    let name = world.sets[0].metadata.name.clone().unwrap();
    world.pods.get_mut(&name).unwrap().fill(false);
    world.tell(0);
    world.second += 10_000;
    step(&mut world);
    assert_eq!(world.reason("Progressing"), "NewReplicaSetAvailable");
    assert_eq!(world.reason("Available"), "MinimumReplicasUnavailable");
    assert_eq!(world.plan(), Plan::default());
}

#[test]
fn a_pause_does_not_count_against_the_deadline() {
    let mut world = complete();
    world.edit(json!({"paused": true}));
    step(&mut world);
    assert_eq!(
        (world.reason("Progressing"), message(&world).as_str()),
        ("DeploymentPaused", "Deployment is paused")
    );
    assert_eq!(world.plan(), Plan::default());
    world.second += 10_000;
    world.edit(json!({"paused": false, "template": template("v1")}));
    let plan = world.plan();
    // Resuming makes the new set in the same breath, so that is what stays told.
    world.apply(&plan);
    assert_eq!(world.reason("Progressing"), "NewReplicaSetCreated");
    let mut idle = complete();
    idle.pods.values_mut().for_each(|pods| pods.fill(false));
    idle.tell(0);
    idle.edit(json!({"paused": true}));
    step(&mut idle);
    idle.edit(json!({"paused": false}));
    step(&mut idle);
    assert_eq!(
        (idle.reason("Progressing"), message(&idle).as_str()),
        ("DeploymentResumed", "Deployment is resumed")
    );
    assert_eq!(idle.plan().look_again, Some(Duration::from_secs(601)));
}

#[test]
fn without_a_deadline_progress_is_not_told() {
    for none in [json!(null), json!(i32::MAX)] {
        let mut world = World::new(2, json!({"progressDeadlineSeconds": none}));
        world.settle();
        assert_eq!(world.reason("Progressing"), "");
        assert_eq!(world.reason("Available"), "MinimumReplicasAvailable");
        assert_eq!(refused(world.now(), &world.deployment, "no"), None);
    }
}

#[test]
fn a_set_that_was_there_before_is_found() {
    let mut world = complete();
    world.deployment.status = None;
    step(&mut world);
    assert_eq!(world.reason("Progressing"), "NewReplicaSetAvailable");
    world.deployment.status = None;
    world.pods.values_mut().for_each(|pods| pods.fill(false));
    world.tell(0);
    let plan = world.plan();
    let found = conditions::get(plan.status.as_ref().unwrap(), "Progressing").unwrap();
    // Its pods count as progress against a status that knew of none.
    assert_eq!(found.reason.as_deref(), Some("ReplicaSetUpdated"));
}

#[test]
fn a_refused_set_and_a_collision_are_told() {
    let world = World::new(2, json!({}));
    let status =
        refused(world.now(), &world.deployment, "Failed to create new replica set \"x\": no").unwrap();
    assert_eq!(conditions::reason(&status, "Progressing"), Some("ReplicaSetCreateError"));
    let mut deployment = world.deployment.clone();
    deployment.status = Some(status);
    assert_eq!(refused(world.now(), &deployment, "another text"), None, "once is enough");
    let status = collided(&world.deployment);
    assert_eq!(status.collision_count, Some(1));
    deployment.status = Some(status);
    assert_eq!(collided(&deployment).collision_count, Some(2));
}

#[test]
fn the_trouble_of_a_set_is_the_trouble_of_its_deployment() {
    let mut world = complete();
    let set = std::sync::Arc::make_mut(&mut world.sets[0]);
    let failure =
        json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota"}]);
    set.status.as_mut().unwrap().conditions = Some(serde_json::from_value(failure).unwrap());
    step(&mut world);
    assert_eq!(world.reason("ReplicaFailure"), "FailedCreate");
    world.tell(0);
    step(&mut world);
    assert_eq!(world.reason("ReplicaFailure"), "");
    assert_eq!(world.plan(), Plan::default());
}
