//! Anything in any order: users in every cluster, faults on every way, supervisors that end at any of their requests or
//! lose their lead, clusters that leave the federation and return. Afterwards all clusters agree, nothing is lost or back from the dead, and there is silence.
//!
//! `KOINON_SEEDS=500` runs more of them, `KOINON_SEED=17` one alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use koinon_simulation::{Exploration, Fault, Network, Requests, Trace, explore, seeds};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use crate::harness::{ACNPS, ANPS, World, acnp, anp};

const NAMES: [&str; 3] = ["a", "b", "c"];
const SUPERVISORS: [&str; 2] = ["a", "b"];
const SCHEDULES: u64 = 8;

/// Which policy: its collection and its name.
type Policy = (&'static str, &'static str);

const POLICIES: [Policy; 3] = [(ACNPS, "x"), (ACNPS, "y"), (ANPS, "z")];

#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub(crate) chances: u64,
    /// What happens, and for how many milliseconds nothing does afterwards.
    pub(crate) steps: Vec<(Step, u64)>,
    /// Where each policy is removed once everything is at rest.
    pub(crate) removals: [&'static str; 3],
    /// What happens then.
    pub(crate) aftermath: Vec<(Step, u64)>,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Edit(&'static str, Policy),
    Remove(&'static str, Policy),
    /// A namespace goes, or comes again.
    Turn(&'static str),
    /// On the way from a supervisor to a cluster.
    Faults(&'static str, &'static str, Vec<Fault>),
    Heal(&'static str, &'static str),
    /// The supervisor ends at its so many-th request from here.
    End(&'static str, usize),
    Kill(&'static str),
    Restart(&'static str),
    /// The cluster leaves the federation, or returns.
    Part(&'static str),
    Return(&'static str),
}

fn name() -> impl Strategy<Value = &'static str> + Clone {
    select(NAMES.to_vec())
}

fn supervisor() -> impl Strategy<Value = &'static str> + Clone {
    select(SUPERVISORS.to_vec())
}

fn trouble() -> impl Strategy<Value = Step> + Clone {
    let refuse = |code| move |one_in| vec![Fault::Refuse { what: Requests::Any, code, one_in }];
    let faults = prop_oneof![
        3 => Just(vec![Fault::Cut]),
        2 => Just(vec![Fault::Hang]),
        1 => (0u64..6_000).prop_map(|millis| vec![Fault::Delay(Duration::from_millis(millis))]),
        2 => (2u32..8).prop_map(|one_in| vec![Fault::Lose { one_in }]),
        1 => (2u32..8).prop_map(refuse(500)),
        1 => (2u32..8).prop_map(refuse(429)),
        1 => Just(vec![Fault::StallWatches]),
        1 => (1u32..3).prop_map(|after| vec![Fault::MissEvents { after }]),
        1 => (1u64..20).prop_map(|seconds| vec![Fault::Stale(Duration::from_secs(seconds))]),
    ];
    prop_oneof![
        4 => (supervisor(), name(), faults).prop_map(|(from, to, faults)| Step::Faults(from, to, faults)),
        2 => (supervisor(), name()).prop_map(|(from, to)| Step::Heal(from, to)),
        2 => (supervisor(), 1usize..30).prop_map(|(name, requests)| Step::End(name, requests)),
        1 => supervisor().prop_map(Step::Kill),
        2 => supervisor().prop_map(Step::Restart),
    ]
}

/// Schedules in which so many in sixteen steps are a cluster's leaving or returning.
fn schedules(moves: u32) -> impl Strategy<Value = Schedule> + Clone {
    let policy = || select(POLICIES.to_vec());
    let step = prop_oneof![
        5 => (name(), policy()).prop_map(|(name, policy)| Step::Edit(name, policy)),
        2 + moves / 2 => (name(), policy()).prop_map(|(name, policy)| Step::Remove(name, policy)),
        1 => name().prop_map(Step::Turn),
        8 - moves => trouble(),
        moves => name().prop_map(Step::Part),
        moves => name().prop_map(Step::Return),
    ];
    let pauses = || select(vec![0u64, 5, 50, 1_000, 8_000, 60_000]);
    let removals = (name(), name(), name()).prop_map(|(x, y, z)| [x, y, z]);
    (any::<u64>(), vec((step, pauses()), 1..=30), removals, vec((trouble(), pauses()), 0..=8))
        .prop_map(|(chances, steps, removals, aftermath)| Schedule { chances, steps, removals, aftermath })
}

/// What users did to one policy.
#[derive(Debug, Default)]
struct History {
    /// What was ever said.
    said: BTreeSet<i64>,
    removed: bool,
    /// The last thing that was done was a removal, with everything at rest.
    cleanly: bool,
}

type Histories = BTreeMap<&'static str, History>;

fn path(policy: Policy) -> String {
    format!("{}/{}", policy.0, policy.1)
}

async fn edit(world: &World, history: &mut History, policy: Policy, name: &str, says: i64) {
    let cluster = world.at(name);
    let patch = json!({"spec": {"priority": says}});
    let edited = cluster.send("PATCH", &path(policy), "application/merge-patch+json", patch).await.is_ok();
    let done = edited || {
        let body = if policy.0 == ANPS { anp(policy.1, says) } else { acnp(policy.1, says) };
        cluster.send("POST", policy.0, "application/json", body).await.is_ok()
    };
    if done {
        history.said.insert(says);
        history.cleanly = false;
    }
}

async fn remove(world: &World, history: &mut History, policy: Policy, name: &str) -> bool {
    let done = world.at(name).send("DELETE", &path(policy), "application/json", json!(null)).await.is_ok();
    // In a cluster that is no member that is nobody's removal, unless no member has it.
    history.removed |= done && (!world.out.contains(name) || !is_held(world, policy).await);
    done
}

async fn is_held(world: &World, policy: Policy) -> bool {
    for name in NAMES.iter().filter(|name| !world.out.contains(**name)) {
        if world.at(name).get(&path(policy)).await.is_some() {
            return true;
        }
    }
    false
}

async fn turn(world: &World, name: &str) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod"}});
    let cluster = world.at(name);
    let path = "/api/v1/namespaces/prod";
    if cluster.send("DELETE", path, "application/json", json!(null)).await.is_err() {
        let _ = cluster.send("POST", "/api/v1/namespaces", "application/json", namespace).await;
    }
}

async fn take(world: &mut World, histories: &mut Histories, step: &Step, says: i64) {
    world.network.note(format!("{step:?} {says}"));
    match step {
        Step::Edit(name, policy) => {
            edit(world, histories.entry(policy.1).or_default(), *policy, name, says).await
        }
        Step::Remove(name, policy) => {
            remove(world, histories.entry(policy.1).or_default(), *policy, name).await;
        }
        Step::Turn(name) => turn(world, name).await,
        Step::Faults(from, to, faults) => world.network.set(from, to, faults),
        Step::Heal(from, to) => world.network.set(from, to, &[]),
        Step::End(name, requests) => world.network.fuse(name).after(*requests),
        Step::Kill(name) => world.kill(name).await,
        Step::Restart(name) => {
            world.kill(name).await;
            world.start(name).await;
        }
        Step::Part(name) => world.part(name).await,
        Step::Return(name) => world.return_to(name).await,
    }
}

/// Everything works again, and comes to rest.
async fn heal(world: &mut World) {
    for supervisor in SUPERVISORS {
        world.kill(supervisor).await;
    }
    for name in NAMES {
        world.return_to(name).await;
    }
    for supervisor in SUPERVISORS {
        world.start(supervisor).await;
    }
    for name in NAMES {
        let prod = "/api/v1/namespaces/prod";
        let is_going = |found: serde_json::Value| found["metadata"].get("deletionTimestamp").is_some();
        while world.at(name).get(prod).await.is_none_or(is_going) {
            if world.at(name).get(prod).await.is_none() {
                world.at(name).create_namespace("prod").await;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
    world.until_forgotten().await;
    world.rest().await;
}

async fn check(world: &World, histories: &Histories) {
    for policy in POLICIES {
        let shows = world.shows(&path(policy)).await;
        let mut all = shows.split(' ').map(|one| one.split_once('=').unwrap().1);
        let first = all.next().unwrap().to_owned();
        assert!(all.all(|one| one == first), "they do not agree on {}: {shows}", policy.1);
        let Some(history) = histories.get(policy.1) else { continue };
        match first.parse::<i64>() {
            Ok(says) => {
                assert!(history.said.contains(&says), "nobody said {says}: {history:?}");
                assert!(!history.cleanly, "{} is back from the dead: {shows}", policy.1);
            }
            // A namespace that goes in every cluster takes the last copy with it.
            Err(_) => {
                let lost = !history.said.is_empty() && !history.removed && policy.0 == ACNPS;
                assert!(!lost, "{} was lost: {history:?}", policy.1);
            }
        }
    }
}

pub(crate) async fn scenario(schedule: Schedule, trace: Trace) {
    let mut world = World::on(Network::new(schedule.chances, &trace), &NAMES).await;
    for supervisor in SUPERVISORS {
        world.start(supervisor).await;
    }
    let mut histories = Histories::new();
    for (number, (step, pause)) in schedule.steps.iter().enumerate() {
        take(&mut world, &mut histories, step, 2 + number as i64).await;
        tokio::time::sleep(Duration::from_millis(*pause)).await;
    }
    heal(&mut world).await;
    check(&world, &histories).await;
    // With everything at rest a removal is for good, whatever happens then.
    for (policy, name) in POLICIES.into_iter().zip(schedule.removals) {
        let history = histories.entry(policy.1).or_default();
        history.cleanly = remove(&world, history, policy, name).await;
    }
    for (step, pause) in &schedule.aftermath {
        take(&mut world, &mut histories, step, 0).await;
        tokio::time::sleep(Duration::from_millis(*pause)).await;
    }
    heal(&mut world).await;
    check(&world, &histories).await;
}

#[test]
fn any_schedule_ends_well() {
    let exploration =
        Exploration { name: "any_schedule_ends_well", seeds: seeds(SCHEDULES), schedules: schedules(0) };
    explore(&exploration, scenario);
}

#[test]
fn members_leave_and_return_in_any_order() {
    let exploration = Exploration {
        name: "members_leave_and_return_in_any_order",
        seeds: seeds(SCHEDULES),
        schedules: schedules(3),
    };
    explore(&exploration, scenario);
}
