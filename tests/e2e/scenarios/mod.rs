//! The scenarios, by what they are about.

mod commands;
mod configuration;
mod deletion;
mod formation;
mod policies;
mod rollout;
mod scheduling;
mod services;
mod sets;
mod slices;
mod sync;
mod workloads_deletion;
mod workloads_kubectl;
mod workloads_rollout;
mod workloads_spread;
mod workloads_troubles;
mod workloads_views;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::engine::Engine;
use crate::world::World;

type Run = Box<dyn FnOnce(Arc<World>) -> Pin<Box<dyn Future<Output = anyhow::Result<()>>>> + Send>;

/// Something that must work on every engine.
pub(crate) struct Scenario {
    pub(crate) name: String,
    /// Whether it drives stock kubectl.
    pub(crate) kubectl: bool,
    pub(crate) run: Run,
}

/// Every scenario for this engine, each once.
pub(crate) fn all(engine: Engine) -> Vec<Scenario> {
    // Commands run the embedded engine themselves, whatever the others run on.
    let commands = if engine == Engine::Embedded { commands::all() } else { Vec::new() };
    [
        ("commands", commands),
        ("configuration", configuration::all()),
        ("deletion", deletion::all()),
        ("formation", formation::all()),
        ("policies", policies::all()),
        ("rollout", rollout::all()),
        ("scheduling", scheduling::all()),
        ("services", services::all()),
        ("sets", sets::all()),
        ("slices", slices::all()),
        ("sync", sync::all()),
        ("workloads_deletion", workloads_deletion::all()),
        ("workloads_kubectl", workloads_kubectl::all()),
        ("workloads_rollout", workloads_rollout::all()),
        ("workloads_spread", workloads_spread::all()),
        ("workloads_troubles", workloads_troubles::all()),
        ("workloads_views", workloads_views::all()),
    ]
    .into_iter()
    .flat_map(|(group, scenarios)| {
        scenarios.into_iter().map(move |one| Scenario { name: format!("{group}::{}", one.name), ..one })
    })
    .collect()
}

/// A scenario that speaks the API alone.
fn api<F>(name: &str, run: impl FnOnce(Arc<World>) -> F + Send + 'static) -> Scenario
where
    F: Future<Output = anyhow::Result<()>> + 'static,
{
    Scenario { name: name.into(), kubectl: false, run: Box::new(move |world| Box::pin(run(world))) }
}

/// A scenario that drives stock kubectl.
fn kubectl<F>(name: &str, run: impl FnOnce(Arc<World>) -> F + Send + 'static) -> Scenario
where
    F: Future<Output = anyhow::Result<()>> + 'static,
{
    Scenario { kubectl: true, ..api(name, run) }
}
