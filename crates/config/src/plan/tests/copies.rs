//! What is written to a member, object by object.

use std::time::Duration;

use koinon_control::Key;
use kube::ResourceExt as _;
use serde_json::json;

use super::world::{World, lines, object, told, world};
use crate::model::{Carried, Condition, Kind, Observed};
use crate::names::{UUID_ANNOTATION, condition};
use crate::plan::{DeletionPermit, Outcome, Tried, Write};

fn config(name: &str, interval: u64) -> kube::core::DynamicObject {
    object(&Kind::gslb_config(), name, 7, json!({"refreshInterval": interval}))
}

fn policy(name: &str, ttl: u64) -> kube::core::DynamicObject {
    object(&Kind::policy(), name, 7, json!({"ttl": ttl}))
}

fn said(world: &mut World, stage: &str) -> String {
    let says: Vec<Condition> = world.says();
    lines(&says.into_iter().filter(|one| one.stage == stage).collect::<Vec<_>>()).concat()
}

#[test]
fn created_updated_and_extras_deleted() {
    let mut world = world();
    world.add_here(config("gc-1", 1800));
    world.add_here(policy("global-gdp", 10));
    world.add_there("b", config("gc-1", 999));
    world.add_there("b", policy("other", 10));
    world.add_there("c", config("gc-1", 1800));
    let plan = world.settle();
    assert_eq!(
        told(&plan),
        [
            "b: replace GSLBConfig gc-1",
            "b: create GlobalDeploymentPolicy global-gdp",
            "b: delete GlobalDeploymentPolicy other",
            "c: create GlobalDeploymentPolicy global-gdp",
        ]
    );
    world.carry_out(&plan);
    assert_eq!(told(&world.settle()), Vec::<String>::new());
}

#[test]
fn only_spec_labels_and_the_uuid_travel() {
    let mut ours = config("gc-1", 1800);
    ours.metadata.finalizers = Some(vec!["x".into()]);
    ours.metadata.owner_references = Some(vec![Default::default()]);
    ours.labels_mut().insert("team".into(), "net".into());
    ours.annotations_mut().insert(UUID_ANNOTATION.into(), "1234".into());
    ours.annotations_mut().insert("kubectl.kubernetes.io/last-applied-configuration".into(), "{}".into());
    ours.data["status"] = json!({"state": "success"});
    let mut world = world();
    world.add_here(ours);
    let mut theirs = config("gc-1", 1);
    theirs.metadata.finalizers = Some(vec!["theirs".into()]);
    theirs.labels_mut().insert("drift".into(), "1".into());
    theirs.annotations_mut().insert("theirs".into(), "kept".into());
    theirs.data["status"] = json!({"state": "theirs"});
    world.add_there("c", theirs);
    let plan = world.plan();
    let [Write::Create { object: created, .. }] = &plan.writes["b"][..] else { panic!("{plan:?}") };
    assert_eq!(
        serde_json::to_value(created).unwrap(),
        json!({
            "apiVersion": "amko.vmware.com/v1alpha1", "kind": "GSLBConfig",
            "metadata": {
                "name": "gc-1", "namespace": "avi-system", "labels": {"team": "net"},
                "annotations": {UUID_ANNOTATION: "1234"},
            },
            "spec": {"refreshInterval": 1800},
        })
    );
    let [Write::Replace { object: replaced, .. }] = &plan.writes["c"][..] else { panic!("{plan:?}") };
    assert_eq!(
        serde_json::to_value(replaced).unwrap(),
        json!({
            "apiVersion": "amko.vmware.com/v1alpha1", "kind": "GSLBConfig",
            "metadata": {
                "name": "gc-1", "namespace": "avi-system", "labels": {"team": "net"}, "finalizers": ["theirs"],
                "annotations": {UUID_ANNOTATION: "1234", "theirs": "kept"},
                "uid": "uid-gc-1", "resourceVersion": "7",
            },
            "spec": {"refreshInterval": 1800}, "status": {"state": "theirs"},
        })
    );
}

#[test]
fn a_uuid_that_arrives_later_travels_and_a_missing_one_takes_none_away() {
    let mut world = world();
    world.add_here(config("gc-1", 1800));
    let mut theirs = config("gc-1", 1800);
    theirs.annotations_mut().insert(UUID_ANNOTATION.into(), "1234".into());
    world.add_there("b", theirs);
    world.add_there("c", config("gc-1", 1800));
    assert_eq!(told(&world.plan()), Vec::<String>::new());
    let Observed::Seen(objects) = &mut world.here.objects[0].1 else { panic!("seen") };
    let ours = std::sync::Arc::make_mut(&mut objects[0]);
    ours.annotations_mut().insert(UUID_ANNOTATION.into(), "5678".into());
    assert_eq!(told(&world.plan()), ["b: replace GSLBConfig gc-1", "c: replace GSLBConfig gc-1"]);
}

#[test]
fn several_here_stop_this_kind_and_those_after_it() {
    let mut world = world();
    world.add_here(config("gc-1", 1800));
    world.add_here(config("gc-2", 1800));
    world.add_here(policy("global-gdp", 10));
    assert_eq!(told(&world.plan()), Vec::<String>::new());
    assert_eq!(
        lines(&world.says())[3..],
        [
            "GSLBConfig Federation = failure in federation (more than one GSLBConfig objects are present in the current cluster)"
        ]
    );
    let Observed::Seen(configs) = &mut world.here.objects[0].1 else { panic!("seen") };
    configs.pop();
    world.add_here(policy("other", 10));
    assert_eq!(told(&world.settle()), ["b: create GSLBConfig gc-1", "c: create GSLBConfig gc-1"]);
    assert_eq!(
        said(&mut world, condition::POLICY),
        "GDP Federation = failure in federation (more than one GlobalDeploymentPolicies are present in the current cluster)"
    );
}

#[test]
fn a_deletion_here_is_one_there_but_a_leader_that_never_had_any_deletes_nothing() {
    let mut world = world();
    world.here.permits.insert(Kind::gslb_config(), DeletionPermit::NeverOwned);
    world.add_there("b", config("gc-1", 1800));
    assert_eq!(told(&world.plan()), Vec::<String>::new());
    assert_eq!(
        said(&mut world, condition::GSLB_CONFIG),
        "GSLBConfig Federation = failure in federation (no GSLBConfig object is present in the current cluster, and there \
         was none since it became leader; those in b are left alone: create one here, or delete them there)"
    );
    assert_eq!(told(&world.plan()), Vec::<String>::new(), "its own complaint is no leave to delete");
    let mut seen = super::world::world();
    seen.add_there("b", config("gc-1", 1800));
    assert_eq!(told(&seen.plan()), ["b: delete GSLBConfig gc-1"]);
}

#[test]
fn all_was_well_while_a_leader_was_alone_and_then_a_member_appears() {
    let alone: [fn(&mut World); 3] = [
        |world| world.ours().clusters = vec!["a".into()],
        |world| ["b", "c"].iter().for_each(|name| world.member(name).no_client = Some("none".into())),
        |_| {},
    ];
    for leave_alone in alone {
        let mut world = world();
        world.here.permits.insert(Kind::gslb_config(), DeletionPermit::NeverOwned);
        let (clusters, members) = (world.ours().clusters.clone(), world.members.clone());
        leave_alone(&mut world);
        assert_eq!(
            said(&mut world, condition::GSLB_CONFIG),
            "GSLBConfig Federation = federated to all valid clusters successfully"
        );
        world.ours().clusters = clusters;
        world.members = members;
        world.add_there("b", config("gc-1", 1800));
        assert_eq!(told(&world.settle()), Vec::<String>::new());
        assert!(said(&mut world, condition::GSLB_CONFIG).contains("those in b are left alone"));
    }
}

#[test]
fn what_is_held_says_why_and_holds_up_no_other_kind() {
    let mut world = world();
    let before = world.says();
    world.add_here(config("gc-1", 1800));
    world.add_here(policy("global-gdp", 10));
    world.add_there("b", config("extra", 1800));
    world.add_there("c", config("gc-1", 1));
    for (leave, said_why) in [
        (DeletionPermit::Unknown, None),
        (DeletionPermit::Refused("no".into()), Some("no; those in b are left alone")),
        (
            DeletionPermit::DefinitionRecreated,
            Some(
                "the definition of GSLBConfig in the current cluster was made anew, and its objects went with the old \
                 one; those in b are left alone: create one here, or delete them there",
            ),
        ),
    ] {
        world.here.permits.insert(Kind::gslb_config(), leave);
        let plan = world.plan();
        let policies = ["b", "c"].map(|name| format!("{name}: create GlobalDeploymentPolicy global-gdp"));
        assert_eq!(told(&plan), policies);
        let says = said(&mut world, condition::GSLB_CONFIG);
        match said_why {
            None => assert_eq!(says, lines(&before[3..4]).concat()),
            Some(why) => {
                assert_eq!(says, format!("GSLBConfig Federation = failure in federation ({why})"));
            }
        }
    }
    world.here.permits.insert(Kind::gslb_config(), DeletionPermit::Allowed);
    assert_eq!(told(&world.plan()).len(), 5);
}

#[test]
fn nothing_is_deleted_before_all_was_listed_here_nor_while_the_namespace_goes() {
    for unknown in [Observed::Pending, Observed::Lost("no answer".into())] {
        let mut world = world();
        world.here.objects[0].1 = unknown;
        world.add_there("b", config("gc-1", 1800));
        assert_eq!(told(&world.plan()), Vec::<String>::new());
    }
    let mut world = world();
    world.here.leaving = true;
    world.add_there("b", config("gc-1", 1800));
    assert_eq!(told(&world.plan()), Vec::<String>::new());
}

#[test]
fn a_member_whose_copies_are_unknown_waits_and_holds_nobody_up() {
    let mut world = world();
    world.settle();
    world.add_here(config("gc-1", 1800));
    world.member("b").copies.insert(Kind::gslb_config(), Observed::Pending);
    let plan = world.settle();
    assert_eq!(told(&plan), ["c: create GSLBConfig gc-1"]);
    world.member("b").copies.insert(Kind::gslb_config(), Observed::Lost("no such kind".into()));
    world.carry_out(&plan);
    assert_eq!(
        said(&mut world, condition::GSLB_CONFIG),
        "GSLBConfig Federation = error in federating to some clusters \
         (error in getting GSLBConfig list for cluster b: no such kind)"
    );
}

#[test]
fn what_is_written_is_seen_before_more_is_written_and_the_status_waits_for_it() {
    let mut world = world();
    let before = world.says();
    world.add_here(config("gc-1", 1800));
    assert_eq!(told(&world.settle()).len(), 2);
    assert_eq!(world.says(), before);
    world.member("b").unsettled = true;
    assert_eq!(told(&world.settle()), ["c: create GSLBConfig gc-1"]);
}

#[test]
fn failures_are_told_and_tried_again() {
    let mut world = world();
    let ours = config("gc-1", 1800);
    let wanted = Some(Carried::of(&ours));
    world.add_here(ours);
    let key = (Kind::gslb_config(), Key::new("avi-system", "gc-1"));
    let now = Duration::from_secs(1000);
    let failed = |at| Tried::after(None, wanted.clone(), Outcome::Failed("forbidden".into()), at);
    world.member("b").tried.insert(key.clone(), failed(now));
    let plan = world.settle();
    assert_eq!(told(&plan), ["c: create GSLBConfig gc-1"]);
    assert_eq!(plan.again_at, Some(now + Duration::from_millis(500)));
    world.carry_out(&plan);
    let complaint = "GSLBConfig Federation = error in federating to some clusters \
                     (error in creating GSLBConfig gc-1 in cluster b: forbidden)";
    assert_eq!(said(&mut world, condition::GSLB_CONFIG), complaint);
    world.member("b").tried.insert(key, failed(Duration::from_secs(999)));
    let plan = world.settle();
    assert_eq!(told(&plan), ["b: create GSLBConfig gc-1"]);
    assert_eq!(said(&mut world, condition::GSLB_CONFIG), complaint);
    world.carry_out(&plan);
    assert_eq!(
        said(&mut world, condition::GSLB_CONFIG),
        "GSLBConfig Federation = federated to all valid clusters successfully"
    );
}

#[test]
fn a_copy_that_waits_for_its_finalizers_is_named() {
    let mut world = world();
    world.add_here(config("gc-1", 1800));
    let mut going = config("gc-1", 1800);
    going.metadata.finalizers = Some(vec!["example.com/slow".into()]);
    going.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    world.add_there("b", going);
    world.add_there("c", config("gc-1", 1800));
    assert_eq!(told(&world.plan()), Vec::<String>::new());
    assert_eq!(
        said(&mut world, condition::GSLB_CONFIG),
        "GSLBConfig Federation = error in federating to some clusters \
         (GSLBConfig gc-1 in cluster b is being deleted and waits for example.com/slow)"
    );
}
