//! Whatever happens on the way, the end is the one that users asked for, nothing is counted twice, and then there is silence.
//!
//! `KOINON_SEEDS=300` runs more schedules, `KOINON_SEEDS=300..600` others, `KOINON_SEED=17` one alone.

use std::time::Duration;

use koinon_simulation::{Exploration, Fault, Requests, Trace, explore, repeat, seeds};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::harness::{DEPLOY, Deploy, PREFERENCES, WEB, World, room, updated};
use crate::wire::ROLE;

const SCHEDULES: u64 = 4;
/// Longer than the longest pause after which something happens by itself.
const QUIET: Duration = Duration::from_secs(130);
/// Longer than what goes round and round would take for a round.
const LONG_QUIET: Duration = Duration::from_secs(400);
const EVEN: &str = r#"{"rebalance":true}"#;
const MEMBERS: [(&str, u32); 3] = [("a", 110), ("b", 110), ("c", 6)];

#[derive(Clone, Debug)]
struct Schedule {
    chances: u64,
    /// What happens, and for how many milliseconds nothing does afterwards.
    steps: Vec<(Step, u64)>,
}

#[derive(Clone, Debug)]
enum Step {
    /// The ReplicaSet should have so many.
    Scale(i64),
    /// All of its replicas should be in one cluster.
    Only(&'static str),
    /// The Deployment should have so many.
    ScaleDeployment(i64),
    /// It gets another template.
    Image(u8),
    /// It is paused, or goes on.
    Pause(bool),
    /// This goes wrong on the way to a server.
    Faults(&'static str, Vec<Fault>),
    Heal(&'static str),
    /// The role ends at its so many-th write from here, until somebody starts it again.
    End(usize),
    Restart,
    /// Somebody deletes a member's object.
    Delete(&'static str, &'static str),
}

fn schedules() -> impl Strategy<Value = Schedule> + Clone {
    let pauses = select(vec![0u64, 200, 1_500, 5_000, 9_500, 40_000]);
    (any::<u64>(), vec((step(), pauses), 1..=30)).prop_map(|(chances, steps)| Schedule { chances, steps })
}

fn step() -> impl Strategy<Value = Step> + Clone {
    let member = || select(vec!["a", "b", "c"]);
    let server = || select(vec!["a", "b", "c", "federation"]);
    let faults = || {
        prop_oneof![
            2 => Just(vec![Fault::Cut]),
            1 => (0u64..6_000).prop_map(|millis| vec![Fault::Delay(Duration::from_millis(millis))]),
            3 => (3u32..20).prop_map(shaky),
            1 => (1u32..4).prop_map(|after| vec![Fault::MissEvents { after }]),
            1 => (1u64..20).prop_map(|seconds| vec![Fault::Stale(Duration::from_secs(seconds))]),
        ]
    };
    // The role finds out by itself which ways to members are dead. The one to the federation is an ordinary client's, whose
    // connections end after minutes of silence, and here there are no connections.
    let silence = select(vec![vec![Fault::Hang], vec![Fault::StallWatches]]);
    prop_oneof![
        2 => (4i64..24).prop_map(Step::Scale),
        1 => member().prop_map(Step::Only),
        2 => (3i64..9).prop_map(Step::ScaleDeployment),
        2 => any::<u8>().prop_map(Step::Image),
        1 => any::<bool>().prop_map(Step::Pause),
        4 => (server(), faults()).prop_map(|(to, faults)| Step::Faults(to, faults)),
        1 => (member(), silence).prop_map(|(to, faults)| Step::Faults(to, faults)),
        3 => server().prop_map(Step::Heal),
        1 => (1usize..25).prop_map(Step::End),
        2 => Just(Step::Restart),
        1 => (member(), select(vec![WEB, DEPLOY])).prop_map(|(member, path)| Step::Delete(member, path)),
    ]
}

/// One in so many requests meets with something, of each kind.
fn shaky(one_in: u32) -> Vec<Fault> {
    let refuse = |what, code| Fault::Refuse { what, code, one_in: 4 * one_in };
    vec![
        refuse(Requests::Writes, 409),
        refuse(Requests::Any, 429),
        refuse(Requests::Any, 500),
        refuse(Requests::Any, 503),
        Fault::Lose { one_in },
        Fault::CutWatches { after: one_in },
    ]
}

#[test]
fn the_end_is_the_same_whatever_happens_on_the_way() {
    let exploration = Exploration { name: "storms", seeds: seeds(SCHEDULES), schedules: schedules() };
    explore(&exploration, storm);
}

#[test]
fn a_seed_repeats_to_the_letter() {
    let exploration = Exploration { name: "storms", seeds: seeds(2), schedules: schedules() };
    repeat(&exploration, storm);
}

async fn storm(schedule: Schedule, trace: Trace) {
    let mut world = World::simulated(&MEMBERS, schedule.chances, &trace).await;
    world.start().await;
    world.create_set(12, Some(EVEN)).await;
    let preferences = json!({"federation.kubernetes.io/deployment-preferences": EVEN});
    world.create_deployment(Deploy { replicas: 6, annotations: preferences, ..Deploy::default() }).await;
    for (number, (step, pause)) in schedule.steps.iter().enumerate() {
        world.network.note(format!("{number}: {step:?}"));
        take(&mut world, step).await;
        tokio::time::sleep(Duration::from_millis(*pause)).await;
    }
    settle(&mut world).await;
}

async fn take(world: &mut World, step: &Step) {
    let federation = &world.federation;
    match step {
        Step::Scale(replicas) => drop(federation.patch(WEB, json!({"spec": {"replicas": replicas}})).await),
        Step::Only(member) => {
            let only = format!(r#"{{"rebalance":true,"clusters":{{"{member}":{{"weight":1}}}}}}"#);
            federation.patch(WEB, json!({"metadata": {"annotations": {PREFERENCES: only}}})).await;
        }
        Step::ScaleDeployment(replicas) => {
            federation.patch(DEPLOY, json!({"spec": {"replicas": replicas}})).await;
        }
        Step::Image(number) => set_image(world, &format!("web:{number}")).await,
        Step::Pause(paused) => drop(federation.patch(DEPLOY, json!({"spec": {"paused": paused}})).await),
        Step::Faults(to, faults) => world.network.set(ROLE, to, faults),
        Step::Heal(to) => world.network.set(ROLE, to, &[]),
        Step::End(writes) => world.network.fuse(ROLE).after_writes(*writes),
        Step::Restart => {
            world.kill().await;
            world.start().await;
        }
        Step::Delete(member, path) => {
            drop(world.members[*member].send("DELETE", path, "application/json", Value::Null).await);
        }
    }
}

async fn set_image(world: &World, image: &str) {
    let containers = json!([{"name": "web", "image": image}]);
    world.federation.patch(DEPLOY, json!({"spec": {"template": {"spec": {"containers": containers}}}})).await;
}

/// The last words are always the same, and so is what comes of them.
async fn settle(world: &mut World) {
    world.network.note("all is well from here on");
    world.network.heal();
    if world.network.fuse(ROLE).is_blown() {
        world.kill().await;
        world.start().await;
    }
    world.network.fuse(ROLE).renew();
    let change = json!({"metadata": {"annotations": {PREFERENCES: EVEN}}, "spec": {"replicas": 20}});
    world.federation.patch(WEB, change).await;
    world.federation.patch(DEPLOY, json!({"spec": {"replicas": 6, "paused": false}})).await;
    set_image(world, "web:last").await;
    let all_there = |one: &Value| {
        let status = &one["status"];
        let wanted = &one["spec"]["replicas"];
        status["observedGeneration"] == one["metadata"]["generation"]
            && status["availableReplicas"] == *wanted
            && status["replicas"] == *wanted
    };
    world.until(WEB, "all are available", all_there).await;
    world
        .until(DEPLOY, "all are updated", |one| all_there(one) && one["status"]["updatedReplicas"] == 6)
        .await;
    world.network.note("all are there");
    // Pods that only wait in a full cluster find each other out one after another, each after its patience.
    world.network.until_quiet(LONG_QUIET).await;
    // c has room for six in all: what one workload has there, the other has not.
    for (path, wanted) in [(WEB, 20), (DEPLOY, 6)] {
        let federated = world.federation.get(path).await.unwrap();
        assert_eq!(world.available(path).await, wanted, "{federated:#}");
        assert_eq!(federated["status"]["availableReplicas"], wanted);
        assert_eq!(federated["status"]["replicas"], wanted);
    }
    for (name, site) in &world.members {
        if let Some(found) = site.get(DEPLOY).await.filter(|found| found["spec"]["replicas"] != 0) {
            let image = &found["spec"]["template"]["spec"]["containers"][0]["image"];
            assert_eq!(image, "web:last", "{name}");
        }
    }
}

/// Ten members with two hundred pods, of which one is slow, one is lost half-way and one joins: at every moment as many are
/// available as must be, and no more are there than may be.
#[tokio::test(start_paused = true)]
async fn the_budget_holds_over_a_large_fleet() {
    let names: Vec<String> = (0..11).map(|number| format!("m{number:02}")).collect();
    let mut world = World::bare(&[]).await;
    for (number, name) in names.iter().enumerate() {
        let mut settings = room(110);
        if number == 3 {
            settings.ready_after = Duration::from_secs(20);
        }
        world.add(name, settings).await;
    }
    world.start().await;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    world.join(&names[..10]).await;
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 8, "maxSurge": 6}});
    let annotations = json!({"koinon.dev/max-concurrent-clusters": "3"});
    world.create_deployment(Deploy { replicas: 200, strategy, annotations, ..Deploy::default() }).await;
    let available = |one: &Value| one["status"]["availableReplicas"] == 200;
    world.until(DEPLOY, "all are available", available).await;
    world.rest_for(Duration::from_secs(65)).await;

    set_image(&world, "web:2").await;
    let (mut samples, mut lost, mut joined) = (0, false, false);
    loop {
        let deployment = world.federation.get(DEPLOY).await.unwrap();
        let updated = updated(&deployment);
        if updated > 60 && !lost {
            world.members["m07"].wire.cut();
            lost = true;
        }
        if updated > 100 && !joined {
            world.join(&names).await;
            joined = true;
        }
        // Who is lost runs on: what is really there counts, whoever can see it.
        let there = world.available(DEPLOY).await;
        assert!(there >= 192, "{there} of 200 are available after {samples} samples");
        let pods = world.pods(DEPLOY).await;
        let beyond = if lost { 20 } else { 0 };
        assert!(pods <= 206 + beyond, "{pods} of 200 are there after {samples} samples");
        samples += 1;
        let done = updated == 200 && deployment["status"]["availableReplicas"] == 200;
        if lost && joined && done {
            break;
        }
        assert!(samples < 20_000, "{deployment:#}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(samples > 100, "the rollout was hardly seen: {samples} samples");
    world.members["m07"].wire.heal();
    let back = |one: &Value| {
        one["status"]["updatedReplicas"] == 200 && one["status"]["replicas"] == 200 && available(one)
    };
    world.until(DEPLOY, "the lost one is back and updated", back).await;
    world.rest_for(QUIET).await;
    let image = &world.members["m07"].get(DEPLOY).await.unwrap()["spec"]["template"]["spec"]["containers"][0]
        ["image"];
    assert_eq!(image, "web:2");
}
