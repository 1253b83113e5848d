//! Seeds, shrinking and what is told of a failure, with a controller that has a bug.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use koinon_simulation::{Exploration, Fault, Network, Site, Trace, explore, replay};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Add,
    Lose,
    Heal,
}

fn steps() -> impl Strategy<Value = Vec<Step>> + Clone {
    vec(prop_oneof![3 => Just(Step::Add), 1 => Just(Step::Lose), 2 => Just(Step::Heal)], 0..20)
}

/// Counts by creating objects; whoever gives a new name to each attempt counts twice when an answer is lost.
async fn counting(schedule: Vec<Step>, trace: Trace, names: impl Fn(usize, usize) -> String) {
    let network = Network::new(3, &trace);
    let site = Site::open(1, &network.time().clock()).await;
    network.serve("server", site.router());
    let client = network.client("counter", "server");
    let before = site.items(MAPS).await.len();
    let mut wanted = 0;
    for (number, step) in schedule.into_iter().enumerate() {
        network.note(format!("{number}: {step:?}"));
        match step {
            Step::Lose => network.set("counter", "server", &[Fault::Lose { one_in: 1 }]),
            Step::Heal => network.heal(),
            Step::Add => {
                wanted += 1;
                for attempt in 0.. {
                    let object = json!({"metadata": {"name": names(number, attempt)}}).to_string();
                    let request = http::Request::post(MAPS).header("content-type", "application/json");
                    let answer = client.request::<Value>(request.body(object.into_bytes()).unwrap()).await;
                    match answer {
                        Ok(_) => break,
                        Err(kube::Error::Api(status)) if status.code == 409 => break,
                        Err(_) => network.heal(),
                    }
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }
    assert_eq!(site.items(MAPS).await.len() - before, wanted, "each is counted once");
}

async fn careless(schedule: Vec<Step>, trace: Trace) {
    counting(schedule, trace, |number, attempt| format!("n-{number}-{attempt}")).await;
}

async fn careful(schedule: Vec<Step>, trace: Trace) {
    counting(schedule, trace, |number, _| format!("n-{number}")).await;
}

#[test]
fn what_fails_is_shrunk_and_told_with_its_seed_and_timeline() {
    let exploration = Exploration { name: "counting", seeds: 0..50, schedules: steps() };
    let panic = catch_unwind(AssertUnwindSafe(|| explore(&exploration, careless))).expect_err("it has a bug");
    let told = panic.downcast_ref::<String>().unwrap();
    assert!(told.contains("counting: seed ") && told.contains("KOINON_SEED="), "{told}");
    assert!(told.contains("[Lose, Add]"), "nothing less fails: {told}");
    assert!(told.contains("counter → server: [Lose { one_in: 1 }]"), "{told}");
    assert!(told.contains("configmaps 201, answer lost"), "{told}");
    assert!(told.contains("each is counted once"), "{told}");
    explore(&exploration, careful);
}

#[test]
fn a_found_failure_is_kept_by_its_schedule() {
    replay(vec![Step::Lose, Step::Add], careful);
    assert!(catch_unwind(|| replay(vec![Step::Lose, Step::Add], careless)).is_err());
}

#[test]
fn the_same_schedule_leaves_the_same_trace() {
    let schedule = vec![Step::Add, Step::Lose, Step::Add, Step::Heal, Step::Add];
    let first = replay(schedule.clone(), careful).timeline();
    assert_eq!(first, replay(schedule, careful).timeline());
    assert!(first.lines().count() >= 9, "{first}");
}
