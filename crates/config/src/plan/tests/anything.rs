//! Any world at all: what no plan may do, and that every plan leads to rest.

use proptest::prelude::*;
use serde_json::json;

use super::world::{World, cluster, object, told, world};
use crate::model::{Kind, Observed};
use crate::plan::{DeletionPermit, Lead, Write};

#[derive(Clone, Debug)]
struct There {
    leads: bool,
    version: u8,
    objects: usize,
    sight: u8,
    copies: Vec<(usize, u8, u8)>,
    copies_sight: u8,
    client: bool,
    unsettled: bool,
}

#[derive(Clone, Debug)]
struct Case {
    leads: bool,
    sight: u8,
    contexts: u8,
    objects: Vec<(usize, u8, u8)>,
    objects_sight: u8,
    had: bool,
    leaving: bool,
    remembered: bool,
    members: Vec<There>,
}

fn objects() -> impl Strategy<Value = Vec<(usize, u8, u8)>> {
    prop::collection::vec((0..2usize, 0..3u8, 0..3u8), 0..4)
}

fn there() -> impl Strategy<Value = There> {
    (
        prop::bool::weighted(0.15),
        0..4u8,
        prop::sample::select(vec![1usize, 1, 1, 1, 0, 2]),
        0..6u8,
        objects(),
        0..8u8,
        prop::bool::weighted(0.9),
        prop::bool::weighted(0.2),
    )
        .prop_map(|(leads, version, objects, sight, copies, copies_sight, client, unsettled)| There {
            leads,
            version,
            objects,
            sight,
            copies,
            copies_sight,
            client,
            unsettled,
        })
}

fn case() -> impl Strategy<Value = Case> {
    let members = prop::collection::vec(there(), 2..=2);
    let flags = (any::<bool>(), prop::bool::weighted(0.1), prop::bool::weighted(0.1));
    (prop::bool::weighted(0.9), 0..10u8, 0..10u8, objects(), 0..8u8, flags, members).prop_map(
        |(leads, sight, contexts, objects, objects_sight, (had, leaving, remembered), members)| Case {
            leads,
            sight,
            contexts,
            objects,
            objects_sight,
            had,
            leaving,
            remembered,
            members,
        },
    )
}

/// Mostly seen.
fn sight<T>(dice: u8, seen: T) -> Observed<T> {
    match dice {
        0 => Observed::Pending,
        1 => Observed::Lost("no answer".into()),
        _ => Observed::Seen(seen),
    }
}

fn build(case: &Case) -> World {
    let mut made = world();
    made.ours().is_leader = case.leads;
    let mut names = std::collections::BTreeSet::new();
    for (kind, name, spec) in &case.objects {
        if names.insert((*kind, *name)) {
            made.add_here(object(&Kind::always()[*kind], &format!("o{name}"), 1, json!({"x": spec})));
        }
    }
    for (there, name) in case.members.iter().zip(["b", "c"]) {
        let mut names = std::collections::BTreeSet::new();
        for (kind, object_name, spec) in &there.copies {
            if names.insert((*kind, *object_name)) {
                let copy = object(&Kind::always()[*kind], &format!("o{object_name}"), 9, json!({"x": spec}));
                made.add_there(name, copy);
            }
        }
        let clusters = (0..there.objects)
            .map(|number| {
                let mut one = cluster(name, there.leads && number == 0);
                one.uid = format!("{name}-{number}");
                if there.version == 0 {
                    one.version = "0".into();
                }
                one
            })
            .collect();
        let member = made.member(name);
        member.clusters = sight(there.sight, clusters);
        if let Some(copies) = member.copies.get_mut(&Kind::policy())
            && there.copies_sight < 2
        {
            *copies = sight(there.copies_sight, Vec::new());
        }
        member.unsettled = there.unsettled;
        member.no_client = (!there.client).then(|| "none".into());
    }
    if case.objects_sight < 2 {
        made.here.objects[0].1 = sight(case.objects_sight, Vec::new());
    }
    // A leader that has some of a kind had it.
    for (kind, ours) in &made.here.objects {
        let had = case.had || *ours != Observed::Seen(Vec::new());
        made.here
            .permits
            .insert(kind.clone(), if had { DeletionPermit::Allowed } else { DeletionPermit::NeverOwned });
    }
    made.here.leaving = case.leaving;
    if case.remembered {
        made.here.conflicts = Observed::Seen(["b".into()].into());
    }
    if case.contexts < 2 {
        made.here.contexts = sight(case.contexts, Ok(Default::default()));
    }
    if case.sight < 2 {
        made.here.clusters = sight(case.sight, Vec::new());
    }
    made
}

proptest! {
    #[test]
    fn no_plan_oversteps(case in case()) {
        let world = build(&case);
        let plan = world.plan();
        prop_assert_eq!(&plan, &world.plan());
        if plan.stopped.is_some() {
            prop_assert!(plan.writes.is_empty());
        }
        if !plan.conflicts.is_empty() {
            prop_assert!(plan.writes.is_empty());
            prop_assert!(!matches!(plan.lead, Lead::As(_)));
        }
        for (name, writes) in &plan.writes {
            let member = &world.members[name];
            prop_assert!(!writes.is_empty());
            prop_assert!(member.no_client.is_none() && !member.unsettled);
            let Observed::Seen(theirs) = &member.clusters else { panic!("{name} is unknown and written to") };
            prop_assert!(theirs.len() == 1 && !theirs[0].is_leader && theirs[0].version == "1.4.2");
            for write in writes {
                let (_, ours) = world.here.objects.iter().find(|(kind, _)| kind == write.kind()).unwrap();
                let Observed::Seen(ours) = ours else { panic!("federated what is unknown") };
                let copies = &member.copies[write.kind()];
                prop_assert!(matches!(copies, Observed::Seen(_)));
                match write {
                    Write::Create { .. } => prop_assert!(!ours.is_empty()),
                    Write::Replace { object, .. } => prop_assert!(object.metadata.resource_version.is_some()),
                    Write::Delete { uid, resource_version, .. } => {
                        prop_assert!(!uid.is_empty() && !resource_version.is_empty());
                        prop_assert!(!world.here.leaving);
                        prop_assert!(!ours.is_empty() || case.had);
                    }
                }
            }
        }
    }

    #[test]
    fn every_plan_leads_to_rest(case in case()) {
        let mut world = build(&case);
        let first = world.settle();
        world.carry_out(&first);
        for name in ["b", "c"] {
            world.member(name).unsettled = false;
        }
        // What was undecided may be decided now; after that nothing is left.
        for _ in 0..2 {
            let plan = world.settle();
            world.carry_out(&plan);
        }
        let last = world.plan();
        prop_assert_eq!(told(&last), Vec::<String>::new());
        prop_assert_eq!(last.statuses, []);
    }
}
