//! What the fleet counts and measures. Labels are members and kinds, never objects.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// How a call to a member ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Outcome {
    /// The member did what it was asked.
    Ok,
    /// The member answered, but did not.
    Refused,
    /// There was no answer in time.
    Timeout,
    /// The connection failed, or the member was not able to serve.
    Failed,
    /// Not sent: the member is offline, or not the one it should be.
    Offline,
    /// Not sent: as many calls as allowed are on their way already.
    Busy,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    member: String,
    outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Member {
    member: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Watch {
    member: String,
    kind: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Queued {
    queue: String,
}

/// The measurements of one fleet; clones share them.
#[derive(Clone)]
pub struct Metrics {
    calls: Family<Call, Counter>,
    latency: Family<Member, Histogram, fn() -> Histogram>,
    watch_cut: Family<Watch, Gauge>,
    relists: Family<Watch, Counter>,
    offline_seconds: Family<Member, Counter>,
    reachable: Family<Member, Gauge>,
    queue_depth: Family<Queued, Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            calls: Family::default(),
            latency: Family::new_with_constructor(latency_buckets),
            watch_cut: Family::default(),
            relists: Family::default(),
            offline_seconds: Family::default(),
            reachable: Family::default(),
            queue_depth: Family::default(),
        }
    }
}

impl Metrics {
    /// Makes the measurements visible under `registry`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("koinon_member");
        registry.register("calls", "Calls to members by how they ended", self.calls.clone());
        registry.register("call_seconds", "How long members took to answer", self.latency.clone());
        registry.register(
            "watch_cut_seconds",
            "How long the watch has been without a connection; 0 while it is followed",
            self.watch_cut.clone(),
        );
        registry.register("relists", "How often a kind had to be listed", self.relists.clone());
        registry.register("offline_seconds", "Time that members were offline", self.offline_seconds.clone());
        registry.register("reachable", "1 while the member is reachable", self.reachable.clone());
        registry.register("queue_depth", "Keys that wait to be worked on", self.queue_depth.clone());
    }

    pub(crate) fn call(&self, member: &str, outcome: Outcome) {
        self.calls.get_or_create(&Call { member: member.into(), outcome }).inc();
    }

    pub(crate) fn answered_after(&self, member: &str, seconds: f64) {
        self.latency.get_or_create(&Member { member: member.into() }).observe(seconds);
    }

    pub(crate) fn watch_cut(&self, member: &str, kind: &str, seconds: u64) {
        let watch = Watch { member: member.into(), kind: kind.into() };
        self.watch_cut.get_or_create(&watch).set(i64::try_from(seconds).unwrap_or(i64::MAX));
    }

    pub(crate) fn relisted(&self, member: &str, kind: &str) {
        self.relists.get_or_create(&Watch { member: member.into(), kind: kind.into() }).inc();
    }

    pub(crate) fn health(&self, member: &str, reachable: bool, offline_for: std::time::Duration) {
        let member = Member { member: member.into() };
        self.reachable.get_or_create(&member).set(reachable.into());
        self.offline_seconds.get_or_create(&member).inc_by(offline_for.as_secs());
    }

    /// Says how many keys wait in a role's queue.
    pub fn queue_depth(&self, queue: &str, waiting: usize) {
        let queue = Queued { queue: queue.into() };
        self.queue_depth.get_or_create(&queue).set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    /// Drops what is measured of a member that is none any more.
    pub(crate) fn forget(&self, member: &str) {
        for outcome in [
            Outcome::Ok,
            Outcome::Refused,
            Outcome::Timeout,
            Outcome::Failed,
            Outcome::Offline,
            Outcome::Busy,
        ] {
            self.calls.remove(&Call { member: member.into(), outcome });
        }
        let member = Member { member: member.into() };
        self.latency.remove(&member);
        self.offline_seconds.remove(&member);
        self.reachable.remove(&member);
    }
}

fn latency_buckets() -> Histogram {
    Histogram::new([0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0])
}
