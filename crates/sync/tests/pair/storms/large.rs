//! Very many objects through very many failures.

use std::time::Duration;

use jiff::SignedDuration;
use koinon_simulation::{Dice, Fault, Requests, Trace, replay};

use super::model::Model;
use super::schedule::{Kind, Meddling};
use crate::world::{SYNCER, Skew, Toys, World};

const EDITS: usize = 60;

#[derive(Clone, Copy)]
struct Size {
    seed: u64,
    objects: usize,
    failures: usize,
}

async fn failures(size: Size, trace: Trace) {
    let Size { seed, objects, failures } = size;
    let mut dice = Dice::new(seed);
    let mut hours = || SignedDuration::from_hours(dice.pick(&[-30, 7, 5000]));
    let skew = Skew { cloud: hours(), robot: hours(), syncer: hours() };
    let mut world = World::simulated(seed, &trace, skew).await;
    let toys = Toys::filtered();
    world.cloud.define(&toys).await;
    world.robot.define(&toys).await;
    let mut model = Model::new(world.cloud.clone(), world.robot.clone(), Kind::Filtered, toys);
    model.watch(&world.network);
    for number in 0..objects {
        model.write(number, 0).await;
    }
    world.start();
    for failure in 1..=failures {
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
            let number = dice.roll(objects);
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
        trace.assert_kept();
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
    trace.assert_kept();
    model.check().await;
    world.stop().await;
}

#[test]
fn a_thousand_objects_through_fifteen_failures() {
    replay(Size { seed: 5, objects: 1_000, failures: 15 }, failures);
}

#[test]
#[ignore = "takes minutes; run it with --ignored"]
fn ten_thousand_objects_through_fifty_failures() {
    replay(Size { seed: 17, objects: 10_000, failures: 50 }, failures);
}
