//! Ten thousand objects through fifty failures.

use std::time::Duration;

use koinon_simulation::{Dice, Fault, Requests, Trace, replay};

use super::model::Model;
use super::schedule::{Kind, Meddling};
use crate::world::{SYNCER, Skew, Toys, World};

const OBJECTS: usize = 10_000;
const FAILURES: usize = 50;
const EDITS: usize = 60;

async fn failures(seed: u64, trace: Trace) {
    let mut dice = Dice::new(seed);
    let mut world = World::simulated(seed, &trace, Skew::default()).await;
    let toys = Toys::filtered();
    world.cloud.define(&toys).await;
    world.robot.define(&toys).await;
    let mut model = Model::new(world.cloud.clone(), world.robot.clone(), Kind::Filtered, toys);
    for number in 0..OBJECTS {
        model.write(number, 0).await;
    }
    world.start();
    for failure in 1..=FAILURES {
        let faults = [
            Fault::Cut,
            Fault::Hang,
            Fault::StallWatches,
            Fault::MissEvents { after: 3 },
            Fault::Lose { one_in: 3 },
            Fault::Refuse { what: Requests::Any, code: 503, one_in: 3 },
            Fault::Refuse { what: Requests::Writes, code: 409, one_in: 2 },
        ];
        let side = if dice.one_in(3) { &world.robot } else { &world.cloud };
        side.turn(&[dice.pick(&faults)]);
        if dice.one_in(3) {
            world.network.fuse(SYNCER).after(1 + dice.roll(300));
        }
        for _ in 0..EDITS {
            let number = dice.roll(OBJECTS);
            match dice.roll(10) {
                0 => model.erase(number).await,
                1 => {
                    model.erase(number).await;
                    model.write(number, failure).await;
                }
                2..=5 => model.write(number, failure).await,
                6 => model.meddle(number, dice.pick(&[Meddling::Delete, Meddling::ChangeSpec])).await,
                _ => model.report(number, failure).await,
            }
        }
        tokio::time::sleep(Duration::from_secs(1 + dice.roll(200) as u64)).await;
        if world.network.fuse(SYNCER).is_blown() {
            world.kill().await;
            world.start();
        }
        if dice.one_in(2) {
            world.clear();
        }
    }
    world.clear();
    world.kill().await;
    world.start();
    world.rest().await;
    model.check().await;
    world.stop().await;
}

#[test]
#[ignore = "takes minutes; run it with --ignored"]
fn ten_thousand_objects_through_fifty_failures() {
    replay(17, failures);
}
