//! What federated Services count and measure. Labels are clusters and kinds, never objects.

use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Written {
    Service,
    Slice,
    /// A ServiceImport, or the status of a ServiceExport.
    Import,
}

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Outcome {
    Done,
    /// Somebody else was faster.
    Conflict,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Write {
    member: String,
    kind: Written,
    outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Member {
    member: String,
}

/// What can be measured of federated Services.
#[derive(Clone)]
pub struct Metrics {
    writes: Family<Write, Counter>,
    federated: Family<Member, Gauge>,
    slices: Family<Member, Gauge>,
    waiting: Family<Member, Gauge>,
    delay: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            writes: Family::default(),
            federated: Family::default(),
            slices: Family::default(),
            waiting: Family::default(),
            delay: Histogram::new([0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0]),
        }
    }
}

impl Metrics {
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("koinon_services");
        registry.register("writes", "Writes to members by kind and how they ended", self.writes.clone());
        registry.register(
            "federated",
            "Federated Services with members, as seen at each post",
            self.federated.clone(),
        );
        registry.register(
            "slices",
            "Generated EndpointSlices in each member that is led",
            self.slices.clone(),
        );
        registry.register("waiting", "Federated Services that wait to be looked at", self.waiting.clone());
        let help = "From the news of a change until the member that is led has what follows from it";
        registry.register("propagation_seconds", help, self.delay.clone());
    }

    pub(crate) fn wrote(&self, member: &str, kind: Written, outcome: Outcome) {
        self.writes.get_or_create(&Write { member: member.to_owned(), kind, outcome }).inc();
    }

    pub(crate) fn propagated(&self, after: Duration) {
        self.delay.observe(after.as_secs_f64());
    }

    pub(crate) fn stands(&self, member: &str, federated: usize, slices: usize, waiting: usize) {
        let member = Member { member: member.to_owned() };
        let set = |family: &Family<Member, Gauge>, value: usize| {
            family.get_or_create(&member).set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        set(&self.federated, federated);
        set(&self.slices, slices);
        set(&self.waiting, waiting);
    }

    /// Has a member that is led no more leave no numbers behind.
    pub(crate) fn forget(&self, member: &str) {
        let member = Member { member: member.to_owned() };
        self.federated.remove(&member);
        self.slices.remove(&member);
        self.waiting.remove(&member);
    }
}
