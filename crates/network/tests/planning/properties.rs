//! What holds of every plan, whatever the members are.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{GLOBAL, World, foo};

#[derive(Clone, Debug)]
struct Made {
    cluster: usize,
    namespace: u8,
    name: u8,
    age: u32,
    kind: u8,
    ports: Vec<(u8, u16)>,
    slices: Vec<Vec<(u8, bool)>>,
}

fn made() -> impl Strategy<Value = Made> {
    let slices = proptest::collection::vec(proptest::collection::vec((1u8..250, any::<bool>()), 0..6), 0..3);
    let ports = proptest::collection::vec((0u8..4, 80u16..83), 1..4);
    (0usize..3, 0u8..2, 0u8..2, 0u32..4, 0u8..5, ports, slices).prop_map(
        |(cluster, namespace, name, age, kind, ports, slices)| Made {
            cluster,
            namespace,
            name,
            age,
            kind,
            ports,
            slices,
        },
    )
}

const CLUSTERS: [&str; 4] = ["a", "b", "c", "d"];

fn put(world: &mut World, made: &Made) {
    let place = world.at(CLUSTERS[made.cluster]);
    let name = format!("n{}/s{}", made.namespace, made.name);
    if place.services.iter().any(|one| {
        format!("{}/{}", one.metadata.namespace.as_ref().unwrap(), one.metadata.name.as_ref().unwrap())
            == name
    }) {
        return;
    }
    let named = |number: u8| if number == 0 { String::new() } else { format!("p{number}") };
    let ports: Vec<Value> = made
        .ports
        .iter()
        .map(|(name, port)| json!({"name": named(*name), "port": port, "nodePort": 30000 + port}))
        .collect();
    let mut spec = json!({"ports": ports});
    match made.kind {
        0 => spec["type"] = json!("NodePort"),
        1 => spec["type"] = json!("LoadBalancer"),
        2 => spec["externalIPs"] = json!(["198.51.100.1"]),
        3 => spec["clusterIP"] = json!("None"),
        _ => {}
    }
    place.service(&name, &[(GLOBAL, "foo")], spec).aged(made.age);
    if made.kind == 1 {
        place.status(
            json!({"loadBalancer": {"ingress": [{"ip": "203.0.113.9"}, {"hostname": "lb.example.com"}]}}),
        );
    }
    let mut seen = std::collections::BTreeSet::new();
    let slice_ports: Vec<String> = made
        .ports
        .iter()
        .filter(|(name, _)| seen.insert(*name))
        .map(|(name, port)| format!("{}:{}", named(*name), port + 8000))
        .collect();
    for slice in &made.slices {
        let words: Vec<String> = slice
            .iter()
            .map(|(last, ready)| format!("10.{}.0.{last}{}", made.cluster, if *ready { "" } else { "!" }))
            .collect();
        place.slice(&slice_ports.join(" "), &words.join(" "));
    }
    if place.nodes.is_empty() {
        place.node("n1", "I172.21.0.6");
    }
}

fn world(all: &[Made]) -> World {
    let mut world = World::new(&CLUSTERS);
    all.iter().for_each(|one| put(&mut world, one));
    world
}

/// All that is there, without what tells one life of an object from another.
fn content(world: &World) -> BTreeMap<String, Vec<String>> {
    let places = world.places.iter().map(|(name, place)| {
        let services = place.generated.values().map(|one| format!("{:?}", one.spec));
        let slices = place
            .own
            .values()
            .map(|one| format!("{:?} {:?} {:?}", one.metadata.name, one.ports, one.endpoints));
        (name.clone(), services.chain(slices).collect())
    });
    places.collect()
}

/// Every name that a slice has is one that its Service has, and no slice is too large.
fn check(world: &World) {
    for place in world.places.values() {
        let Some(service) = place.generated.get(&foo()) else {
            assert!(place.own.is_empty());
            continue;
        };
        let ports: Vec<_> = service.spec.as_ref().unwrap().ports.iter().flatten().collect();
        let names: Vec<String> = ports.iter().map(|port| port.name.clone().unwrap_or_default()).collect();
        assert!(names.len() == 1 || names.iter().all(|name| !name.is_empty()), "{names:?}");
        let mut once = names.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), names.len());
        for slice in place.own.values() {
            assert!((1..=100).contains(&slice.endpoints.as_ref().unwrap().len()));
            assert!(slice.ports.iter().flatten().all(|port| names.contains(port.name.as_ref().unwrap())));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_same_members_give_the_same_whatever_came_before(
        (before, after) in (proptest::collection::vec(made(), 0..6), proptest::collection::vec(made(), 0..6)),
    ) {
        let mut fresh = world(&after);
        fresh.settle_all(&foo());
        check(&fresh);
        // Another way to the same: with a past, and told in the other order.
        let mut walked = world(&before);
        walked.settle_all(&foo());
        for place in walked.places.values_mut() {
            (place.services, place.slices, place.nodes) = Default::default();
        }
        let mut seen = Vec::new();
        for one in &after {
            put(&mut walked, one);
            seen.push(one);
            if seen.len() == 2 {
                walked.settle("d", &foo());
            }
        }
        for place in walked.places.values_mut() {
            place.services.reverse();
            place.nodes.reverse();
        }
        walked.settle_all(&foo());
        prop_assert_eq!(content(&walked), content(&fresh));
        let writes = walked.writes;
        walked.settle_all(&foo());
        prop_assert_eq!(walked.writes, writes, "at rest nothing is written");
    }

    #[test]
    fn one_endpoint_that_changes_is_one_slice_in_each_other_cluster(mut all in proptest::collection::vec(made(), 1..5)) {
        all.iter_mut().for_each(|one| one.kind = 4);
        let mut world = world(&all);
        world.settle_all(&foo());
        let changed = world.places.iter().find_map(|(name, place)| {
            let slice = place.slices.iter().position(|slice| !slice.endpoints.as_ref().unwrap().is_empty())?;
            Some((name.clone(), slice))
        });
        let Some((cluster, slice)) = changed else { return Ok(()) };
        let endpoint = &mut world.at(&cluster).slices[slice].endpoints.as_mut().unwrap()[0];
        let conditions = endpoint.conditions.as_mut().unwrap();
        conditions.ready = Some(conditions.ready == Some(false));
        for other in CLUSTERS {
            let before = world.writes;
            world.settle(other, &foo());
            prop_assert!(world.writes - before <= 1);
        }
    }

    #[test]
    fn who_is_not_known_loses_nothing(all in proptest::collection::vec(made(), 0..6), unknown in 0usize..3) {
        let mut world = world(&all);
        world.settle_all(&foo());
        let before = content(&world);
        world.at(CLUSTERS[unknown]).unknown = true;
        world.settle("d", &foo());
        prop_assert_eq!(&content(&world), &before);
        world.at(CLUSTERS[unknown]).unknown = false;
        world.settle_all(&foo());
        prop_assert_eq!(content(&world), before);
    }
}
