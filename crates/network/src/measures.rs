//! Metrics that both features of the role have.

use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Outcome {
    Done,
    /// Somebody else was faster.
    Conflict,
    /// The server does not want it.
    Refused,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Write {
    member: String,
    kind: &'static str,
    outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Member {
    member: String,
}

/// A number for each member that is led.
#[derive(Clone, Default)]
pub(crate) struct PerMember(Family<Member, Gauge>);

impl PerMember {
    pub(crate) fn register(&self, registry: &mut Registry, name: &str, help: &str) {
        registry.register(name, help, self.0.clone());
    }

    pub(crate) fn set(&self, member: &str, value: usize) {
        let member = Member { member: member.to_owned() };
        self.0.get_or_create(&member).set(i64::try_from(value).unwrap_or(i64::MAX));
    }

    /// Has a member that is led no more leave no number behind.
    pub(crate) fn forget(&self, member: &str) {
        self.0.remove(&Member { member: member.to_owned() });
    }
}

/// What was written to members, how that ended, and how long it took from the news to there.
#[derive(Clone)]
pub(crate) struct Writes {
    counts: Family<Write, Counter>,
    delay: Histogram,
}

impl Default for Writes {
    fn default() -> Self {
        let delay = Histogram::new([0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0]);
        Writes { counts: Family::default(), delay }
    }
}

impl Writes {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register("writes", "Writes to members by kind and how they ended", self.counts.clone());
        let help = "From the news of a change until the member that is led has what follows from it";
        registry.register("propagation_seconds", help, self.delay.clone());
    }

    pub(crate) fn wrote(&self, member: &str, kind: &'static str, outcome: Outcome) {
        self.counts.get_or_create(&Write { member: member.to_owned(), kind, outcome }).inc();
    }

    pub(crate) fn propagated(&self, after: Duration) {
        self.delay.observe(after.as_secs_f64());
    }
}
