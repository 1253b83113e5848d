//! Any history of edits and of pods that come and go: bounds hold at every step, and it comes to rest.

use kube::ResourceExt as _;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::limits::Strategy as Kind;
use super::super::plan::{Plan, Step};
use super::world::{World, template};

#[derive(Clone, Debug)]
enum Event {
    Template(u8),
    Scale(i32),
    Pause(bool),
    Bounds(Value),
    /// The controller looks.
    Look,
    /// The n-th set gets the pods that it shall have.
    Keep(usize),
    /// The n-th pod of the n-th set becomes ready, or is no longer.
    Ready(usize, usize, bool),
    /// The n-th set tells its status.
    Tell(usize),
    /// Pods that were told to end have ended.
    End,
    Wait(i64),
}

fn bounds() -> impl Strategy<Value = Value> {
    let portion = || {
        prop_oneof![(0..4i32).prop_map(Value::from), (0..101i32).prop_map(|share| json!(format!("{share}%")))]
    };
    let rolling = (portion(), portion()).prop_map(|(surge, unavailable)| {
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
    });
    prop_oneof![4 => rolling, 1 => Just(json!({"type": "Recreate"}))]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        1 => (0..4u8).prop_map(Event::Template),
        1 => (0..12i32).prop_map(Event::Scale),
        1 => any::<bool>().prop_map(Event::Pause),
        1 => bounds().prop_map(Event::Bounds),
        8 => Just(Event::Look),
        6 => (0..5usize).prop_map(Event::Keep),
        8 => (0..5usize, 0..12usize, prop::bool::weighted(0.8)).prop_map(|(set, pod, ready)| Event::Ready(set, pod, ready)),
        4 => (0..5usize).prop_map(Event::Tell),
        1 => Just(Event::End),
        1 => (0..400i64).prop_map(Event::Wait),
    ]
}

fn happen(world: &mut World, event: &Event) {
    let sets = world.sets.len();
    match event {
        Event::Template(number) => world.edit(json!({"template": template(&format!("v{number}"))})),
        Event::Scale(replicas) => world.edit(json!({"replicas": replicas})),
        Event::Pause(paused) => world.edit(json!({"paused": paused})),
        Event::Bounds(bounds) => world.edit(json!({"strategy": bounds})),
        Event::Look => look(world),
        Event::Keep(set) if *set < sets => world.keep(*set),
        Event::Tell(set) if *set < sets => world.tell(*set),
        Event::Ready(set, pod, ready) if *set < sets => {
            let name = world.sets[*set].name_any();
            if let Some(pod) = world.pods.get_mut(&name).and_then(|pods| pods.get_mut(*pod)) {
                *pod = *ready;
                // A status that is behind what pods lost would be believed: what was lost is told at once.
                world.tell(*set);
            }
        }
        Event::End => {
            world.ending.clear();
            for set in 0..sets {
                world.tell(set);
            }
        }
        Event::Wait(seconds) => world.second += seconds,
        Event::Keep(_) | Event::Tell(_) | Event::Ready(..) => {}
    }
}

/// Applies one plan and holds it against its bounds.
fn look(world: &mut World) {
    let (total, available, limits) = (world.total(), world.available(), world.limits());
    let plan = world.plan();
    let rolls = world.deployment.spec.as_ref().unwrap().paused != Some(true)
        && limits.strategy == Kind::Rolling
        // Scaling shares out what the user asked for, whatever is available.
        && !plan.steps.iter().any(|step| step.why() == "the Deployment was scaled");
    if limits.strategy == Kind::Recreate && plan.steps.iter().any(|step| matches!(step, Step::Create { .. }))
    {
        assert_eq!(available, 0, "old pods run while new ones are made");
    }
    world.apply(&plan);
    assert!(world.total() <= total.max(limits.most()), "{} pods, {plan:#?}", world.total());
    if rolls {
        assert!(
            world.available() >= available.min(limits.least()),
            "{} of {available}, {plan:#?}",
            world.available()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn bounds_hold_and_rest_comes(
        replicas in 0..10i32,
        strategy in bounds(),
        limit in 0..4i32,
        events in prop::collection::vec(event(), 0..120),
    ) {
        let mut world = World::new(replicas, json!({"strategy": strategy, "revisionHistoryLimit": limit}));
        for event in &events {
            happen(&mut world, event);
        }
        world.edit(json!({"paused": false}));
        world.settle();
        let wanted = world.limits().replicas;
        prop_assert_eq!(world.total(), wanted);
        let status = world.deployment.status.clone().unwrap();
        prop_assert_eq!(status.updated_replicas.unwrap_or(0), wanted);
        prop_assert_eq!(status.observed_generation, world.deployment.metadata.generation);
        prop_assert_eq!(world.reason("Progressing"), "NewReplicaSetAvailable");
        prop_assert!(world.sets.len() <= 1 + limit as usize, "{}", world.sizes());
        // Long after, there is still nothing to do.
        world.second += 1_000_000;
        prop_assert_eq!(world.plan(), Plan::default());
    }
}
