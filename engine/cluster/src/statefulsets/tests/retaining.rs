//! Which claims go with whom.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::json;

use super::world::World;

fn policy(scaled: &str, deleted: &str) -> serde_json::Value {
    json!({"persistentVolumeClaimRetentionPolicy": {"whenScaled": scaled, "whenDeleted": deleted}})
}

/// The owners of a claim of a pod that stays, and of one that was scaled away.
fn check(scaled: &str, deleted: &str, stays: &[&str], goes: &[&str]) {
    let mut world = World::settled(2, policy(scaled, deleted));
    assert_eq!(world.owners("data-web-0"), stays, "{scaled} {deleted}");
    assert_eq!(world.owners("data-web-1"), stays, "{scaled} {deleted}");
    world.change(json!({"replicas": 1}));
    world.round();
    assert_eq!(world.owners("data-web-0"), stays, "{scaled} {deleted}");
    assert_eq!(world.owners("data-web-1"), goes, "{scaled} {deleted}");
}

#[test]
fn the_policy_is_kept_by_owners() {
    let (set, pod) = (["StatefulSet web"], ["Pod web-1"]);
    check("Retain", "Retain", &[], &[]);
    check("Retain", "Delete", &set, &set);
    check("Delete", "Retain", &[], &pod);
    check("Delete", "Delete", &set, &pod);
}

#[test]
fn a_changed_policy_changes_the_owners() {
    let mut world = World::settled(2, json!({}));
    world.change(policy("Retain", "Delete"));
    world.settle();
    assert_eq!(world.told, ["own data-web-0", "update web-0", "own data-web-1", "update web-1"]);
    assert_eq!(world.owners("data-web-1"), ["StatefulSet web"]);
    world.change(policy("Retain", "Retain"));
    world.settle();
    assert!(world.owners("data-web-0").is_empty());
}

#[test]
fn a_new_pod_waits_for_the_claim_of_the_one_before_to_go() {
    let mut world = World::settled(2, policy("Delete", "Retain"));
    world.change(json!({"replicas": 1}));
    world.settle();
    world.change(json!({"replicas": 2}));
    assert_eq!(world.round(), [""; 0]);
    world.claims.remove("data-web-1");
    assert_eq!(world.round(), ["claim data-web-1", "create web-1"]);
}

fn owned_by(world: &mut World, claim: &str, owners: serde_json::Value) {
    let mut changed = PersistentVolumeClaim::clone(&world.claims[claim]);
    changed.metadata.owner_references = serde_json::from_value(owners).unwrap();
    world.claims.insert(claim.into(), Arc::new(changed));
}

#[test]
fn claims_of_others_are_left_alone() {
    let other = json!({"apiVersion": "v1", "kind": "Other", "name": "x", "uid": "x", "controller": true});
    let mut world = World::settled(1, policy("Delete", "Delete"));
    owned_by(&mut world, "data-web-0", json!([other]));
    world.settle();
    assert_eq!(world.owners("data-web-0"), ["Other x"]);
    // Ours beside another controller's is taken away.
    let ours = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "set", "controller": true});
    owned_by(&mut world, "data-web-0", json!([other, ours]));
    world.settle();
    assert_eq!(world.owners("data-web-0"), ["Other x"]);
    // Of an earlier set of the same name: the garbage collector is about to deal with it.
    let stale = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "old", "controller": true});
    owned_by(&mut world, "data-web-0", json!([stale]));
    world.told.clear();
    world.settle();
    assert_eq!(world.told, [""; 0]);
    // One that owns without controlling has to control.
    let weak = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "set"});
    owned_by(&mut world, "data-web-0", json!([weak]));
    world.settle();
    assert_eq!(world.told, ["own data-web-0", "update web-0"]);
    assert_eq!(
        world.claims["data-web-0"].metadata.owner_references.as_ref().unwrap()[0].controller,
        Some(true)
    );
}
