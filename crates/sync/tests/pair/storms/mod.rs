//! Any edits on both sides, any faults, and ends at any request: afterwards both sides agree, nothing is lost, nothing
//! comes back, and then there is silence. `KOINON_SEEDS=300` asks for another number of storms, `KOINON_SEED=17` for
//! one alone.

mod large;
mod model;
mod schedule;

use std::time::Duration;

use jiff::SignedDuration;
use koinon_simulation::{Exploration, Site, Trace, explore, seeds};

use crate::world::{CRDS, SYNCER, Skew, World};
use model::Model;
use schedule::{Kind, Side, Step, Storm, storms};

const STORMS: u64 = 40;
const STEPS: usize = 60;

async fn weather(storm: Storm, trace: Trace) {
    let [cloud, robot, syncer] = storm.skew.map(SignedDuration::from_hours);
    let mut world = World::simulated(storm.chances, &trace, Skew { cloud, robot, syncer }).await;
    let toys = storm.toys();
    world.cloud.define(&toys).await;
    world.robot.define(&toys).await;
    world.start();
    let (above, below) = match storm.kind {
        Kind::Plain | Kind::Filtered => (world.cloud.clone(), world.robot.clone()),
        Kind::FromRobot => (world.robot.clone(), world.cloud.clone()),
    };
    let mut model = Model::new(above, below, storm.kind, toys);
    model.watch(&world.network);
    for (number, (step, pause)) in storm.steps.iter().enumerate() {
        world.network.note(format!("{number}: {step:?}"));
        match step {
            Step::Write(name) => model.write(*name, number).await,
            Step::Erase(name) => model.erase(*name).await,
            Step::Replace(name) => {
                model.erase(*name).await;
                model.write(*name, number).await;
            }
            Step::Report(name) => model.report(*name, number).await,
            Step::Meddle(name, what) => model.meddle(*name, *what).await,
            Step::Faults(Side::Cloud, faults) => world.cloud.turn(faults),
            Step::Faults(Side::Robot, faults) => world.robot.turn(faults),
            Step::Heal => {
                world.clear();
                world.network.serve(model.above.name(), model.above.router());
            }
            Step::Impostor => {
                let impostor = Site::open(3, &world.network.time().clock()).await;
                impostor.create(CRDS, model.toys.crd()).await;
                world.network.serve(model.above.name(), impostor.router());
            }
            Step::End(requests) => {
                let fuse = world.network.fuse(SYNCER);
                fuse.after(*requests);
                let _ = tokio::time::timeout(Duration::from_secs(20), fuse.blown()).await;
                world.kill().await;
                world.start();
            }
            Step::Nothing => {}
        }
        tokio::time::sleep(Duration::from_millis(*pause)).await;
        trace.assert_kept();
    }
    world.network.note("all is well from here on");
    world.clear();
    world.network.serve(model.above.name(), model.above.router());
    world.rest().await;
    model.check().await;
    world.stop().await;
}

#[test]
fn after_any_storm_both_sides_agree() {
    let exploration = Exploration { name: "storms", seeds: seeds(STORMS), schedules: storms(STEPS) };
    explore(&exploration, weather);
}

/// Everything that is random comes from the storm, and everything else in a fixed order.
#[test]
fn the_same_storm_leaves_the_same_trace() {
    let runs = || {
        let all = std::sync::Mutex::new(Vec::new());
        let exploration = Exploration { name: "twice", seeds: 1000..1004, schedules: storms(STEPS) };
        explore(&exploration, async |storm: Storm, trace: Trace| {
            weather(storm, trace.clone()).await;
            all.lock().unwrap().push(trace.timeline());
        });
        all.into_inner().unwrap()
    };
    let (first, second) = (runs(), runs());
    for (one, other) in first.iter().zip(&second) {
        assert_eq!(one, other);
    }
    let lines: usize = first.iter().map(|one| one.lines().count()).sum();
    assert!(lines > 2 * STEPS, "that is no trace: {first:#?}");
}
