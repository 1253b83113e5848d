//! End-to-end scenarios, driven through the API and stock kubectl, the same on both engines.
//!
//! `KOINON_E2E_ENGINE` names the engine: `embedded` (the default) or `kubernetes`, stock control planes from
//! `hack/kubernetes` with our simulated nodes. Clusters start once and are shared; each scenario has a
//! namespace of its own. Everything is stopped by its process id, also when a scenario fails or the runner is
//! killed. `--list` and a part of a name work as with any Rust test.

mod engine;
mod http;
mod kubectl;
mod league;
mod objects;
mod order;
mod sampling;
mod scenarios;
mod union;
mod wait;
mod world;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};

use crate::order::Order;
use crate::world::World;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    let engine = match engine::Engine::from_environment() {
        Ok(engine) => engine,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
    let kubectl = kubectl::find();
    let world = Arc::new(World::new(engine, kubectl.clone()));
    let order = Arc::new(Order::new());
    let trials: Vec<Trial> = scenarios::all(engine)
        .into_iter()
        .map(|scenario| {
            let (world, order, handle) = (world.clone(), order.clone(), runtime.handle().clone());
            let name = format!("{}::{}", engine.name(), scenario.name);
            // A newcomer needs nothing but Rust; where it counts, the script that runs this provides kubectl.
            let ignored = scenario.kubectl && kubectl.is_none();
            Trial::test(name, move || {
                handle
                    .block_on(async move {
                        let _turn = order.turn(scenario.lane).await?;
                        (scenario.run)(world).await
                    })
                    .map_err(|error| Failed::from(format!("{error:#}")))
            })
            .with_ignored_flag(ignored)
        })
        .collect();
    if kubectl.is_none() {
        eprintln!("kubectl is not in PATH: the scenarios that drive it are ignored");
    }
    // Whose turn it is, is decided here, so that nobody who waits keeps another from running.
    arguments.test_threads.get_or_insert(trials.len());
    let conclusion = libtest_mimic::run(&arguments, trials);
    runtime.block_on(world.stop());
    if conclusion.has_failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
