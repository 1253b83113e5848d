//! Whole updates over model clusters: what holds on the way, and where they end.

use koinon_api::rollout::MaxConcurrent;
use koinon_workloads::rollout::Reach;
use proptest::prelude::*;

use crate::model::{Federation, lacks, rolled_out};

/// More rounds than any update here needs.
const PLENTY: usize = 400;

/// Goes on until nothing is written any more and nothing is left to do.
#[track_caller]
fn settle(federation: &mut Federation) {
    for _ in 0..PLENTY {
        let written = federation.round();
        let (_, plan) = federation.decide();
        if !written && rolled_out(&federation.desired, &plan) && plan.waiting.is_empty() {
            return;
        }
    }
    let (view, plan) = federation.decide();
    panic!("it does not come to rest: {:?}\n{view:#?}\n{plan:#?}", lacks(&plan));
}

#[test]
fn an_update_passes_over_the_clusters_one_at_a_time() {
    let mut federation = Federation::new(&["a", "b", "c", "d"], 24, true);
    settle(&mut federation);
    federation.desired.template = "v2".into();
    federation.desired.generation += 1;
    let mut seen = 0;
    for _ in 0..PLENTY {
        federation.round();
        seen = seen.max(federation.mixed());
        let available: i64 = federation.clusters.values().map(|cluster| cluster.available()).sum();
        assert!(available >= 24 - 1, "one cluster of six replicas may miss a quarter: {available}");
        if rolled_out(&federation.desired, &federation.decide().1) {
            break;
        }
    }
    assert_eq!(seen, 1);
    settle(&mut federation);
    assert!(federation.clusters.values().all(|cluster| cluster.template() == Some("v2")));
}

#[test]
fn a_broken_update_reaches_one_cluster_and_is_undone() {
    let mut federation = Federation::new(&["a", "b", "c"], 24, true);
    settle(&mut federation);
    federation.desired.template = "broken".into();
    for _ in 0..60 {
        federation.round();
    }
    let reached: Vec<_> =
        federation.clusters.iter().filter(|(_, cluster)| cluster.template() == Some("broken")).collect();
    assert_eq!(reached.len(), 1);
    let (_, plan) = federation.decide();
    assert!(plan.status.conditions.iter().any(|condition| condition.reason == "ProgressDeadlineExceeded"));
    federation.desired.template = "v1".into();
    settle(&mut federation);
}

#[test]
fn a_full_cluster_does_not_stop_later_updates() {
    let mut federation = Federation::new(&["a", "b", "c"], 24, true);
    federation.clusters.get_mut("b").unwrap().room = Some(3);
    for _ in 0..40 {
        federation.round();
    }
    for template in ["v2", "v3"] {
        federation.desired.template = template.into();
        for _ in 0..PLENTY {
            federation.round();
            let available: i64 = federation.clusters.values().map(|cluster| cluster.available()).sum();
            assert!(available >= 24 - 3, "nothing is moved into the full cluster on the way: {available}");
        }
        assert!(federation.clusters.values().all(|cluster| cluster.template() == Some(template)));
        let (_, plan) = federation.decide();
        assert!(rolled_out(&federation.desired, &plan), "{:#?}", plan.status);
    }
}

#[derive(Debug, Clone)]
enum Event {
    Template(u8),
    Broken,
    Replicas(i64),
    Pause,
    Resume,
    Reach(usize, Reach),
    Room(usize, Option<i64>),
    Concurrent(usize),
    Rounds(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let reach = prop_oneof![Just(Reach::Online), Just(Reach::Unsure), Just(Reach::Offline)];
    prop_oneof![
        3 => (0..4u8).prop_map(Event::Template),
        1 => Just(Event::Broken),
        2 => (0..40i64).prop_map(Event::Replicas),
        1 => Just(Event::Pause),
        1 => Just(Event::Resume),
        2 => (0..4usize, reach).prop_map(|(at, reach)| Event::Reach(at, reach)),
        1 => (0..4usize, prop::option::of(0..10i64)).prop_map(|(at, room)| Event::Room(at, room)),
        1 => (1..4usize).prop_map(Event::Concurrent),
        6 => (1..12usize).prop_map(Event::Rounds),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever happens, no plan breaks a rule; and once it stops happening, everything comes to rest where it should.
    #[test]
    fn it_always_ends_well(rebalance in any::<bool>(), events in prop::collection::vec(event(), 0..25)) {
        let names = ["a", "b", "c", "d"];
        let mut federation = Federation::new(&names, 12, rebalance);
        for event in events {
            let desired = &mut federation.desired;
            match event {
                Event::Template(number) => desired.template = format!("v{number}"),
                Event::Broken => desired.template = "broken".into(),
                Event::Replicas(count) => desired.replicas = count,
                Event::Pause => desired.paused = true,
                Event::Resume => desired.paused = false,
                Event::Concurrent(most) => desired.concurrent = MaxConcurrent::parse(&most.to_string()).unwrap(),
                Event::Reach(at, reach) => federation.clusters.get_mut(names[at]).unwrap().reach = Some(reach),
                Event::Room(at, room) => federation.clusters.get_mut(names[at]).unwrap().room = room,
                Event::Rounds(count) => (0..count).for_each(|_| { federation.round(); }),
            }
            federation.desired.generation += 1;
        }
        federation.desired.template = "final".into();
        federation.desired.paused = false;
        for cluster in federation.clusters.values_mut() {
            cluster.reach = Some(Reach::Online);
            cluster.room = None;
        }
        settle(&mut federation);
        for cluster in federation.clusters.values() {
            prop_assert!(matches!(cluster.template(), None | Some("final")));
        }
    }
}
