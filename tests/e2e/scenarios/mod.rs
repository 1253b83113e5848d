//! The scenarios, by what they are about.

mod commands;
mod configuration;
mod connections;
mod deletion;
mod formation;
mod logs;
mod policies;
mod rollout;
mod scheduling;
mod services;
mod sets;
mod slices;
mod stateful;
mod sync;
mod up_roles;
mod up_secured;
mod workloads_deletion;
mod workloads_endings;
mod workloads_kubectl;
mod workloads_meanwhile;
mod workloads_promises;
mod workloads_rollout;
mod workloads_spread;
mod workloads_troubles;
mod workloads_views;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::engine::Engine;
use crate::order::Lane;
use crate::world::World;

type Run = Box<dyn FnOnce(Arc<World>) -> Pin<Box<dyn Future<Output = anyhow::Result<()>>>> + Send>;

/// Something that must work on every engine.
pub(crate) struct Scenario {
    pub(crate) name: String,
    /// Whether it drives stock kubectl.
    pub(crate) kubectl: bool,
    /// What it has to itself while it runs.
    pub(crate) lane: Option<Lane>,
    pub(crate) run: Run,
}

/// Every scenario for this engine, each once.
pub(crate) fn all(engine: Engine) -> Vec<Scenario> {
    // Commands run the embedded engine themselves, whatever the others run on.
    let commands = match engine {
        Engine::Embedded => {
            [commands::all(), up_roles::all(), up_secured::all()].into_iter().flatten().collect()
        }
        _ => Vec::new(),
    };
    // What takes turns comes first: it takes longest.
    [
        ("configuration", Some(Lane::Configuration), configuration::all()),
        ("formation", Some(Lane::Union), formation::all()),
        ("policies", Some(Lane::Union), policies::all()),
        ("services", Some(Lane::Union), services::all()),
        ("sync", Some(Lane::Sync), sync::all()),
        ("formation", None, formation::of_the_league()),
        ("commands", None, commands),
        ("connections", None, connections::all()),
        ("deletion", None, deletion::all()),
        ("logs", None, logs::all()),
        ("rollout", None, rollout::all()),
        ("scheduling", None, scheduling::all()),
        ("sets", None, sets::all()),
        ("slices", None, slices::all()),
        ("stateful", None, stateful::all()),
        ("workloads_deletion", None, workloads_deletion::all()),
        ("workloads_endings", None, workloads_endings::all()),
        ("workloads_kubectl", None, workloads_kubectl::all()),
        ("workloads_meanwhile", None, workloads_meanwhile::all()),
        ("workloads_promises", None, workloads_promises::all()),
        ("workloads_rollout", None, workloads_rollout::all()),
        ("workloads_spread", None, workloads_spread::all()),
        ("workloads_troubles", None, workloads_troubles::all()),
        ("workloads_views", None, workloads_views::all()),
    ]
    .into_iter()
    .flat_map(|(group, lane, scenarios)| {
        scenarios.into_iter().map(move |one| Scenario { name: format!("{group}::{}", one.name), lane, ..one })
    })
    .collect()
}

/// A scenario that speaks the API alone.
fn api<F>(name: &str, run: impl FnOnce(Arc<World>) -> F + Send + 'static) -> Scenario
where
    F: Future<Output = anyhow::Result<()>> + 'static,
{
    Scenario {
        name: name.into(),
        kubectl: false,
        lane: None,
        run: Box::new(move |world| Box::pin(run(world))),
    }
}

/// A scenario that drives stock kubectl.
fn kubectl<F>(name: &str, run: impl FnOnce(Arc<World>) -> F + Send + 'static) -> Scenario
where
    F: Future<Output = anyhow::Result<()>> + 'static,
{
    Scenario { kubectl: true, ..api(name, run) }
}
