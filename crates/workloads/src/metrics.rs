//! What the role counts and measures. Labels are kinds and parts, never objects.

use std::collections::HashMap;
use std::sync::Arc;

use koinon_control::Key;
use koinon_control::queue::Next;
use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::members::Kind;

/// A part of the work on one workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Part {
    /// Deciding, from what is known.
    Plan,
    /// Writing to members.
    Members,
    /// Writing to the federation.
    Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum Outcome {
    Done,
    Again,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Timed {
    part: Part,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Check {
    kind: &'static str,
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum State {
    Wanted,
    Placed,
    Ready,
    Available,
    Stuck,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Replicas {
    kind: &'static str,
    state: State,
}

/// What is remembered of workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelValue)]
pub(crate) enum Memory {
    /// What members were sent, by workload.
    Writes,
    /// What shadows were given.
    Shadows,
    /// What was decided and written of Deployments and ReplicaSets.
    Workloads,
    /// What members have under a name that no watch tells of.
    Presence,
    /// Which clusters fail, and why pods do not start there.
    Troubles,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Remembered {
    what: Memory,
}

/// The replicas of one workload, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) wanted: i64,
    pub(crate) placed: i64,
    pub(crate) ready: i64,
    pub(crate) available: i64,
    pub(crate) stuck: i64,
}

/// The measurements of the role; clones share them.
#[derive(Clone)]
pub struct Metrics {
    seconds: Family<Timed, Histogram, fn() -> Histogram>,
    checks: Family<Check, Counter>,
    replicas: Family<Replicas, Gauge>,
    remembered: Family<Remembered, Gauge>,
    /// What each workload adds to the sums.
    counted: Arc<Mutex<HashMap<(Kind, Key), Counts>>>,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            seconds: Family::new_with_constructor(buckets),
            checks: Family::default(),
            replicas: Family::default(),
            remembered: Family::default(),
            counted: Arc::default(),
        }
    }
}

impl Metrics {
    /// Makes the measurements visible under `registry`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("koinon_workloads");
        registry.register("check_seconds", "Time in each part of a look at a workload", self.seconds.clone());
        registry.register("checks", "Looks at workloads by how they ended", self.checks.clone());
        registry.register("replicas", "Replicas of all workloads by state", self.replicas.clone());
        let help = "Entries that are remembered of workloads, by what they are for";
        registry.register("remembered", help, self.remembered.clone());
    }

    /// Takes in how many entries a memory has.
    pub(crate) fn remembers(&self, what: Memory, entries: usize) {
        let entries = i64::try_from(entries).unwrap_or(i64::MAX);
        self.remembered.get_or_create(&Remembered { what }).set(entries);
    }

    /// How many entries all memories have together. What goes is forgotten, so this follows what there is.
    pub fn entries(&self) -> i64 {
        use Memory::{Presence, Shadows, Troubles, Workloads, Writes};
        let all = [Writes, Shadows, Workloads, Presence, Troubles];
        let counted = self.counted.lock().len();
        let sum: i64 = all.map(|what| self.remembered.get_or_create(&Remembered { what }).get()).iter().sum();
        sum + i64::try_from(counted).unwrap_or(i64::MAX)
    }

    /// How long a part of the work takes, from now until what is returned is dropped.
    pub(crate) fn time(&self, part: Part) -> Timer {
        let histogram = self.seconds.get_or_create(&Timed { part }).clone();
        Timer { histogram, since: tokio::time::Instant::now() }
    }

    pub(crate) fn checked(&self, kind: Kind, next: Next) {
        let outcome = match next {
            Next::Done => Outcome::Done,
            Next::After(_) => Outcome::Again,
            Next::Retry => Outcome::Failed,
        };
        self.checks.get_or_create(&Check { kind: kind.as_str(), outcome }).inc();
    }

    /// Takes in what a workload has now; nothing of one that is no more.
    pub(crate) fn count(&self, kind: Kind, key: &Key, now: Option<Counts>) {
        let mut counted = self.counted.lock();
        let before = match now {
            Some(now) => counted.insert((kind, key.clone()), now),
            None => counted.remove(&(kind, key.clone())),
        };
        let (before, now) = (before.unwrap_or_default(), now.unwrap_or_default());
        for (state, change) in [
            (State::Wanted, now.wanted - before.wanted),
            (State::Placed, now.placed - before.placed),
            (State::Ready, now.ready - before.ready),
            (State::Available, now.available - before.available),
            (State::Stuck, now.stuck - before.stuck),
        ] {
            self.replicas.get_or_create(&Replicas { kind: kind.as_str(), state }).inc_by(change);
        }
    }
}

/// Measures until it is dropped.
pub(crate) struct Timer {
    histogram: Histogram,
    since: tokio::time::Instant,
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.histogram.observe(self.since.elapsed().as_secs_f64());
    }
}

fn buckets() -> Histogram {
    Histogram::new([0.0001, 0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_follow_what_workloads_have() {
        let metrics = Metrics::default();
        let (web, api) = (Key::new("default", "web"), Key::new("default", "api"));
        let counts = |wanted, stuck| Some(Counts { wanted, stuck, ..Counts::default() });
        metrics.count(Kind::Deployment, &web, counts(5, 1));
        metrics.count(Kind::Deployment, &api, counts(3, 0));
        metrics.count(Kind::Deployment, &web, counts(4, 0));
        metrics.count(Kind::Deployment, &api, None);
        let sum = |state| metrics.replicas.get_or_create(&Replicas { kind: "Deployment", state }).get();
        assert_eq!((sum(State::Wanted), sum(State::Stuck)), (4, 0));
    }
}
