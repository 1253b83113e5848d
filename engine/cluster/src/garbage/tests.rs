//! Laws of the graph, and the table of decisions.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::prelude::*;
use serde_json::json;

use super::graph::{Deletion, Dependent, Graph, Identity, Job, Owner, Seen};
use super::names::{Kind, Uid};
use super::plan::{self, Decision, Propagation, Standing, Wait};

/// Objects `0..`, of two kinds, in two namespaces or in none.
const OBJECTS: u8 = 6;

fn uid(number: u8) -> Uid {
    Uid::from(&*format!("00000000-0000-4000-8000-0000000000{number:02x}"))
}

fn kind(graph: &mut Graph, number: u8) -> Kind {
    if number.is_multiple_of(2) {
        graph.names.kind("v1", "ConfigMap")
    } else {
        graph.names.kind("play.io/v1", "Toy")
    }
}

fn identity(graph: &mut Graph, number: u8) -> Identity {
    let namespace = ["near", "near", "far", ""][usize::from(number % 4)];
    Identity {
        kind: kind(graph, number),
        namespace: graph.names.text(namespace),
        name: format!("object-{number}").into(),
        uid: uid(number),
    }
}

fn owner(graph: &mut Graph, number: u8, blocks: bool) -> Owner {
    let Identity { kind, name, uid, .. } = identity(graph, number);
    Owner { uid, kind, name, blocks }
}

#[derive(Clone, Debug)]
struct State {
    owners: Vec<(u8, bool)>,
    deletion: Deletion,
}

fn seen(graph: &mut Graph, number: u8, state: &State) -> Seen {
    let owners = state.owners.iter().map(|(number, blocks)| owner(graph, *number, *blocks)).collect();
    Seen { identity: identity(graph, number), owners, deletion: state.deletion }
}

#[derive(Clone, Debug)]
enum Change {
    Observe(u8, State),
    Remove(u8),
    Relist { even: bool, shown: BTreeSet<u8> },
    Absent(u8),
}

fn state() -> impl Strategy<Value = State> {
    let owners = prop::collection::btree_map(0..OBJECTS, any::<bool>(), 0..3);
    (owners, any::<(bool, bool, bool)>()).prop_map(|(owners, (started, foreground, orphan))| State {
        owners: owners.into_iter().collect(),
        deletion: Deletion { started, foreground: started && foreground, orphan: started && orphan },
    })
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (0..OBJECTS, state()).prop_map(|(number, state)| Change::Observe(number, state)),
        2 => (0..OBJECTS).prop_map(Change::Remove),
        1 => (any::<bool>(), prop::collection::btree_set(0..OBJECTS, 0..6))
            .prop_map(|(even, shown)| Change::Relist { even, shown }),
        2 => (0..OBJECTS).prop_map(Change::Absent),
    ]
}

fn apply(graph: &mut Graph, change: &Change) -> Vec<Job> {
    match change {
        Change::Observe(number, state) => {
            let seen = seen(graph, *number, state);
            graph.observe(seen)
        }
        Change::Remove(number) => graph.removed(&uid(*number)),
        Change::Relist { even, shown } => {
            let kind = kind(graph, u8::from(!even));
            graph.relisted(&kind, &shown.iter().map(|number| uid(*number)).collect())
        }
        Change::Absent(number) => {
            let identity = identity(graph, *number);
            graph.absent(&identity)
        }
    }
}

/// Both ends of every edge know it, and no virtual node outlives its dependents.
fn consistent(graph: &Graph) {
    for number in 0..OBJECTS {
        let uid = uid(number);
        let dependents = graph.dependents(&uid);
        let Some(item) = graph.item(&uid) else {
            assert!(dependents.is_empty());
            continue;
        };
        assert!(item.observed || !dependents.is_empty(), "{item:?} stands for nothing");
        assert!(item.observed || graph.owners(&uid).is_empty());
        for dependent in dependents {
            let owners = graph.owners(&dependent.identity.uid);
            assert!(owners.iter().any(|owner| owner.uid == uid), "{dependent:?} does not name {item:?}");
        }
        for owner in graph.owners(&uid) {
            let siblings = graph.dependents(&owner.uid);
            assert!(
                siblings.iter().any(|sibling| sibling.identity.uid == uid),
                "{owner:?} does not know {item:?}"
            );
        }
    }
}

proptest! {
    #[test]
    fn the_graph_is_consistent_after_every_change(changes in prop::collection::vec(change(), 1..40)) {
        let mut graph = Graph::default();
        for change in &changes {
            apply(&mut graph, change);
            consistent(&graph);
        }
    }

    /// However the present was reached, it is the present that counts.
    #[test]
    fn history_leaves_no_trace(
        changes in prop::collection::vec(change(), 0..30),
        present in prop::collection::vec(state(), usize::from(OBJECTS)),
        order in Just((0..OBJECTS).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let (mut old, mut new) = (Graph::default(), Graph::default());
        for change in &changes {
            apply(&mut old, change);
        }
        for number in order {
            let change = Change::Observe(number, present[usize::from(number)].clone());
            apply(&mut old, &change);
        }
        for number in 0..OBJECTS {
            let change = Change::Observe(number, present[usize::from(number)].clone());
            apply(&mut new, &change);
        }
        for number in 0..OBJECTS {
            let uid = uid(number);
            prop_assert_eq!(old.item(&uid), new.item(&uid));
            prop_assert_eq!(old.dependents(&uid), new.dependents(&uid));
        }
    }

    /// When an owner is no longer seen, either it is asked for or its dependents are looked at.
    #[test]
    fn nothing_that_lost_its_owner_is_forgotten(changes in prop::collection::vec(change(), 1..40)) {
        let mut graph = Graph::default();
        for change in &changes {
            let before: Vec<_> = (0..OBJECTS).map(|n| graph.item(&uid(n)).is_some_and(|item| item.observed)).collect();
            let jobs = apply(&mut graph, change);
            for number in (0..OBJECTS).filter(|number| before[usize::from(*number)]) {
                let lost = graph.item(&uid(number)).is_none_or(|item| !item.observed);
                let dependents = graph.dependents(&uid(number));
                if lost && !dependents.is_empty() {
                    let all = dependents.iter().all(|one| jobs.contains(&Job::Collect(one.identity.uid.clone())));
                    prop_assert!(all || jobs.contains(&Job::Collect(uid(number))), "{:?} of {:?}", jobs, change);
                }
            }
        }
    }
}

/// A graph in which object 0 owns object 2, but they are in different namespaces.
fn foreign() -> (Graph, Vec<Job>) {
    let mut graph = Graph::default();
    let state = |owners: &[(u8, bool)]| State { owners: owners.to_vec(), deletion: Deletion::default() };
    apply(&mut graph, &Change::Observe(0, state(&[])));
    let jobs = apply(&mut graph, &Change::Observe(2, state(&[(0, false)])));
    (graph, jobs)
}

#[test]
fn an_owner_in_another_namespace_is_told_and_doubted() {
    let report = Job::ReportForeign { dependent: uid(2), owner: uid(0) };
    let (_, jobs) = foreign();
    assert_eq!(jobs, [report.clone(), Job::Collect(uid(2))]);
    // The same if the dependent came first.
    let mut graph = Graph::default();
    let state = |owners: &[(u8, bool)]| State { owners: owners.to_vec(), deletion: Deletion::default() };
    assert_eq!(apply(&mut graph, &Change::Observe(2, state(&[(0, false)]))), [Job::Collect(uid(0))]);
    assert_eq!(apply(&mut graph, &Change::Observe(0, state(&[]))), [report, Job::Collect(uid(2))]);
}

#[test]
fn an_owner_known_by_two_names_is_asked_for_by_both() {
    let mut graph = Graph::default();
    for (number, name) in [(0, "right"), (4, "wrong")] {
        let mut owner = owner(&mut graph, 8, false);
        owner.name = name.into();
        let identity = identity(&mut graph, number);
        graph.observe(Seen { identity, owners: vec![owner], deletion: Deletion::default() });
    }
    let first = graph.item(&uid(8)).unwrap().identity;
    assert_eq!(&*first.name, "right");
    let jobs = graph.absent(&first);
    assert_eq!(jobs, [Job::Collect(uid(0)), Job::CollectLater(uid(8))]);
    let second = graph.item(&uid(8)).unwrap().identity;
    assert_eq!(&*second.name, "wrong");
    assert_eq!(graph.absent(&second), [Job::Collect(uid(4)), Job::CollectLater(uid(8))]);
    assert_eq!(graph.item(&uid(8)).unwrap().identity, first);
}

#[test]
fn only_what_the_server_said_counts_as_absent() {
    let mut graph = Graph::default();
    let state = |owners: &[(u8, bool)]| State { owners: owners.to_vec(), deletion: Deletion::default() };
    apply(&mut graph, &Change::Observe(0, state(&[])));
    apply(&mut graph, &Change::Observe(1, state(&[(0, false)])));
    let owner = owner(&mut graph, 0, false);
    apply(&mut graph, &Change::Relist { even: true, shown: BTreeSet::new() });
    assert!(!graph.is_known_absent(&owner, "near") && !graph.is_reported_deleted(&owner.uid));
    apply(&mut graph, &Change::Observe(0, state(&[])));
    apply(&mut graph, &Change::Remove(0));
    assert!(!graph.is_known_absent(&owner, "near") && graph.is_reported_deleted(&owner.uid));
    assert_eq!(apply(&mut graph, &Change::Absent(0)), [Job::Collect(uid(1))]);
    assert!(graph.is_known_absent(&owner, "near") && !graph.is_known_absent(&owner, "far"));
    apply(&mut graph, &Change::Observe(0, state(&[])));
    assert!(!graph.is_known_absent(&owner, "near") && !graph.is_reported_deleted(&owner.uid));
}

#[test]
fn decisions() {
    use Standing::{Dangling, Solid, Waiting};
    let delete = |propagation, unblock| Decision::Delete { propagation, unblock };
    let release = |owners: &[&str]| Decision::Release(owners.iter().map(|owner| owner.to_string()).collect());
    let (none, some, circle): (&[bool], &[bool], &[bool]) = (&[], &[false], &[false, true]);
    type Row<'a> = (&'a [Standing], &'a [bool], &'a [&'a str], Decision);
    let table: &[Row<'_>] = &[
        (&[], none, &[], Decision::Keep),
        (&[Solid, Solid], some, &[], Decision::Keep),
        (&[Solid, Dangling, Waiting], some, &[], release(&["1", "2"])),
        (&[Dangling, Solid], circle, &[], release(&["0"])),
        (&[Dangling, Dangling], some, &[], delete(Propagation::Background, false)),
        (&[Dangling], none, &[plan::ORPHAN, plan::FOREGROUND], delete(Propagation::Orphan, false)),
        (&[Dangling], none, &["x/y", plan::FOREGROUND], delete(Propagation::Foreground, false)),
        (&[Waiting, Dangling], none, &[], delete(Propagation::Background, false)),
        (&[Waiting, Dangling], some, &[plan::ORPHAN], delete(Propagation::Foreground, false)),
        (&[Waiting], circle, &[], delete(Propagation::Foreground, true)),
    ];
    for (standings, foreground, finalizers, expected) in table {
        let object = ObjectMeta {
            finalizers: Some(finalizers.iter().map(|finalizer| finalizer.to_string()).collect()),
            ..ObjectMeta::default()
        };
        let numbered: Vec<_> =
            standings.iter().enumerate().map(|(i, standing)| (i.to_string(), *standing)).collect();
        let dependents: Vec<_> =
            foreground.iter().map(|foreground| dependent(9, false, *foreground)).collect();
        assert_eq!(plan::decide(&object, &numbered, &dependents), *expected, "{standings:?} {foreground:?}");
    }
}

fn dependent(number: u8, blocks: bool, foreground: bool) -> Dependent {
    Dependent { identity: identity(&mut Graph::default(), number), blocks, foreground }
}

#[test]
fn waiting_is_over_when_nobody_blocks() {
    assert_eq!(plan::wait(&[]), Wait::Over);
    assert_eq!(plan::wait(&[dependent(1, false, false)]), Wait::Over);
    let blocked = [dependent(1, true, false), dependent(2, true, true), dependent(3, false, false)];
    assert_eq!(plan::wait(&blocked), Wait::For(vec![uid(1)]));
    assert_eq!(plan::wait(&blocked[1..2]), Wait::For(vec![]));
}

#[test]
fn patches() {
    let object: ObjectMeta = serde_json::from_value(json!({
        "uid": "u", "resourceVersion": "7", "finalizers": ["orphan", "x/y"],
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1", "blockOwnerDeletion": true, "controller": true},
            {"apiVersion": "v1", "kind": "A", "name": "b", "uid": "2"},
        ],
    }))
    .unwrap();
    let unblocked = json!({"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1", "blockOwnerDeletion": false, "controller": true});
    let second = json!({"apiVersion": "v1", "kind": "A", "name": "b", "uid": "2"});
    let check = |patch: serde_json::Value, metadata: serde_json::Value| {
        assert_eq!(patch, json!({"metadata": metadata}))
    };
    check(
        plan::release_patch("u", &["1".into()]),
        json!({"uid": "u", "ownerReferences": [{"$patch": "delete", "uid": "1"}]}),
    );
    check(
        plan::release_merge_patch(&object, &["1".into()]),
        json!({"resourceVersion": "7", "ownerReferences": [second]}),
    );
    check(
        plan::release_merge_patch(&object, &["1".into(), "2".into()]),
        json!({"resourceVersion": "7", "ownerReferences": null}),
    );
    check(plan::unblock_patch(&object), json!({"uid": "u", "ownerReferences": [unblocked]}));
    let mut both = vec![unblocked, second];
    both[1]["blockOwnerDeletion"] = false.into();
    check(plan::unblock_merge_patch(&object), json!({"resourceVersion": "7", "ownerReferences": both}));
    check(
        plan::finalizer_patch(&object, "orphan").unwrap(),
        json!({"resourceVersion": "7", "finalizers": ["x/y"]}),
    );
    assert_eq!(plan::finalizer_patch(&object, plan::FOREGROUND), None);
}
