//! Numbers for those who watch over many federators.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::plan::{Lead, Outcome, Plan};

/// What a federator counts. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    leading: Gauge,
    rivals: Gauge,
    stopped: Gauge,
    members: Gauge,
    writes: Family<Came, Counter<u64, AtomicU64>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Came {
    outcome: &'static str,
}

impl Metrics {
    /// Adds the numbers to those that a process shows.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("koinon_config");
        registry.register("leading", "1 while this cluster leads without a rival", self.leading.clone());
        registry.register("rivals", "Other leaders that are known", self.rivals.clone());
        registry.register("stopped", "1 while nothing is federated", self.stopped.clone());
        registry.register("members", "Clusters that are connected to", self.members.clone());
        registry.register("writes", "Writes to members, by what came of them", self.writes.clone());
    }

    pub(crate) fn planned(&self, plan: &Plan, members: usize) {
        match plan.lead {
            Lead::As(_) => drop(self.leading.set(1)),
            Lead::No => drop(self.leading.set(0)),
            Lead::Undecided => {}
        }
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.rivals.set(number(plan.conflicts.len()));
        self.stopped.set(i64::from(plan.stopped.is_some()));
        self.members.set(number(members));
    }

    pub(crate) fn wrote(&self, outcome: &Outcome) {
        let outcome = match outcome {
            Outcome::Done { .. } => "done",
            Outcome::Conflict => "conflict",
            Outcome::Failed(_) => "failed",
        };
        self.writes.get_or_create(&Came { outcome }).inc();
    }
}
