//! Any order of leader changes, partitions, edits and crashes: no two federate once they know of each other, in the
//! end every follower equals the leader, and then there is silence.
//!
//! `KOINON_SEEDS=300` runs more of them, `KOINON_SEED=17` one alone.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt as _;
use koinon_simulation::{Exploration, Fault, Trace, Write, explore, seeds};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::harness::{
    ALL_WELL, CLUSTER, CONFIGS, Cluster, POLICIES, World, config, conflicts_of, faulty, policy,
};

const NAMES: [&str; 3] = ["a", "b", "c"];
const SCHEDULES: u64 = 12;

#[derive(Clone, Debug)]
struct Schedule {
    chances: u64,
    /// What happens, and for how many milliseconds nothing does afterwards.
    steps: Vec<(Step, u64)>,
    /// Who leads in the end.
    leader: &'static str,
}

#[derive(Clone, Debug)]
enum Step {
    /// Who leads no longer does, and who did not does.
    Turn(&'static str),
    Faults(&'static str, &'static str, Vec<Fault>),
    Heal(&'static str),
    /// The federator ends at its so many-th request from here.
    End(&'static str, usize),
    Restart(&'static str),
    DeleteConfig(&'static str),
    ExtraConfig(&'static str),
    MakePolicy(&'static str),
    EditConfig(&'static str),
}

fn schedules() -> impl Strategy<Value = Schedule> + Clone {
    let pauses = select(vec![0u64, 5, 100, 3_000, 20_000]);
    (any::<u64>(), vec((step(), pauses), 1..=40), name()).prop_map(|(chances, steps, leader)| Schedule {
        chances,
        steps,
        leader,
    })
}

fn name() -> impl Strategy<Value = &'static str> + Clone {
    select(NAMES.to_vec())
}

fn step() -> impl Strategy<Value = Step> + Clone {
    let faults = prop_oneof![
        2 => Just(vec![Fault::Hang]),
        1 => Just(vec![Fault::Cut]),
        1 => (0u64..6_000).prop_map(|millis| vec![Fault::Delay(Duration::from_millis(millis))]),
        1 => (2u32..8).prop_map(|one_in| faulty(one_in).to_vec()),
        1 => Just(vec![Fault::StallWatches]),
        1 => (1u32..3).prop_map(|after| vec![Fault::MissEvents { after }]),
        1 => (1u64..20).prop_map(|seconds| vec![Fault::Stale(Duration::from_secs(seconds))]),
    ];
    prop_oneof![
        2 => name().prop_map(Step::Turn),
        5 => (name(), name(), faults).prop_map(|(one, other, faults)| Step::Faults(one, other, faults)),
        2 => name().prop_map(Step::Heal),
        1 => (name(), 1usize..21).prop_map(|(name, requests)| Step::End(name, requests)),
        1 => name().prop_map(Step::Restart),
        1 => name().prop_map(Step::DeleteConfig),
        1 => name().prop_map(Step::ExtraConfig),
        1 => name().prop_map(Step::MakePolicy),
        2 => name().prop_map(Step::EditConfig),
    ]
}

/// Complains about a write to another by a leader whose status names a rival that still is one.
async fn complaint(clusters: BTreeMap<String, Cluster>, write: Write) -> Option<String> {
    if write.from == write.to {
        return None;
    }
    let mut seen = BTreeMap::new();
    for (name, cluster) in &clusters {
        seen.insert(name, cluster.get(CLUSTER).await.unwrap_or_default());
    }
    let leads = |name: &String| seen.get(name).is_some_and(|one| one["spec"]["isLeader"] == true);
    let rival =
        conflicts_of(&seen[&write.from]).into_iter().find(|rival| leads(&write.from) && leads(rival))?;
    Some(format!("{} knows that {rival} leads too", write.from))
}

async fn take(world: &mut World, step: &Step, number: u64) {
    let gc = format!("{CONFIGS}/gc-1");
    match step {
        Step::Turn(name) => {
            let leads = world.at(name).is_leader().await;
            world.at(name).set_leader(!leads).await;
        }
        Step::Faults(one, other, faults) => world.network.set_between(one, other, faults),
        Step::Heal(name) => world.network.set_around(name, &[]),
        Step::End(name, requests) => world.fuse(name).after(*requests),
        Step::Restart(name) => {
            world.crash(name).await;
            world.start(name);
        }
        Step::DeleteConfig(name) => world.at(name).delete(&gc).await,
        Step::ExtraConfig(name) => drop(world.at(name).try_create(CONFIGS, config("extra", number)).await),
        Step::MakePolicy(name) => {
            drop(world.at(name).try_create(POLICIES, policy("global-gdp", number)).await);
        }
        Step::EditConfig(name) => match world.at(name).get(&gc).await {
            Some(_) => drop(world.at(name).patch(&gc, json!({"spec": {"refreshInterval": number}})).await),
            None => drop(world.at(name).try_create(CONFIGS, config("gc-1", number)).await),
        },
    }
}

async fn federate(schedule: Schedule, trace: Trace) {
    let mut world = World::settled_with(&NAMES, schedule.chances, &trace).await;
    let clusters = world.clusters.clone();
    world.network.before_each_write(move |write| complaint(clusters.clone(), write).boxed());
    for (number, (step, pause)) in (0..).zip(&schedule.steps) {
        world.network.note(format!("{number}: {step:?}"));
        take(&mut world, step, number).await;
        tokio::time::sleep(Duration::from_millis(*pause)).await;
        trace.assert_kept();
    }
    world.network.note("all is well from here on");
    world.network.heal();
    for name in NAMES {
        world.crash(name).await;
        world.start(name);
    }
    // What was slow on its way arrives.
    tokio::time::sleep(Duration::from_secs(20)).await;
    let leader = schedule.leader;
    for name in NAMES.into_iter().filter(|name| *name != leader) {
        world.at(name).set_leader(false).await;
    }
    world.at(leader).set_leader(true).await;
    for (path, object) in [(CONFIGS, config("gc-1", 7)), (POLICIES, policy("global-gdp", 7))] {
        let name = object["metadata"]["name"].clone();
        for item in world.at(leader).items(path).await {
            if item["metadata"]["name"] != name {
                let name = item["metadata"]["name"].as_str().unwrap().to_owned();
                world.at(leader).delete(&format!("{path}/{name}")).await;
            }
        }
        drop(world.at(leader).try_create(path, object).await);
    }
    let wanted: Vec<Value> = world.at(leader).carried().await;
    world.equal(leader).await;
    world.says(leader, &ALL_WELL).await;
    assert_eq!(world.at(leader).carried().await, wanted, "nothing of the leader's was lost");
    world.rest().await;
}

#[test]
fn any_schedule_ends_well() {
    let exploration = Exploration { name: "schedules", seeds: seeds(SCHEDULES), schedules: schedules() };
    explore(&exploration, federate);
}
