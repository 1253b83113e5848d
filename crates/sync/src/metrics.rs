//! What is counted: writes by direction and outcome, and how long changes waited.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::lane::Direction;

/// From the usual to hours without a link.
const BUCKETS: [f64; 13] = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3600.0];

/// Counters of all CRDs.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    writes: Family<Write, Counter>,
    waits: Family<Lane, Histogram>,
    lists: Family<Looked, Counter>,
    reports: Family<Report, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Write {
    crd: String,
    direction: &'static str,
    verb: &'static str,
    outcome: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Lane {
    direction: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Looked {
    crd: String,
    side: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Report {
    crd: String,
    reason: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            writes: Family::default(),
            waits: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            lists: Family::default(),
            reports: Family::default(),
        }
    }
}

impl Metrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "koinon_sync_writes",
            "Writes of copies (down) and of status (up)",
            self.writes.clone(),
        );
        registry.register(
            "koinon_sync_wait_seconds",
            "From the first notice of a change to its write",
            self.waits.clone(),
        );
        registry.register("koinon_sync_lists", "Complete lists", self.lists.clone());
        registry.register("koinon_sync_reports", "Warnings told on CRDs", self.reports.clone());
    }

    /// Counts a write. The outcome is `ok`, an HTTP status, `timeout` or `unreachable`.
    pub(crate) fn wrote(&self, crd: &str, direction: Direction, verb: &'static str, outcome: String) {
        let labels = Write { crd: crd.into(), direction: direction.as_str(), verb, outcome };
        self.writes.get_or_create(&labels).inc();
    }

    pub(crate) fn waited(&self, direction: Direction, seconds: f64) {
        self.waits.get_or_create(&Lane { direction: direction.as_str() }).observe(seconds);
    }

    pub(crate) fn reported(&self, crd: &str, reason: &'static str) {
        self.reports.get_or_create(&Report { crd: crd.into(), reason }).inc();
    }

    pub(crate) fn listed(&self, crd: &str, side: &'static str) {
        self.lists.get_or_create(&Looked { crd: crd.into(), side }).inc();
    }
}
