//! What the fleet counts and measures. Labels are members and kinds, never objects.

mod held;
mod queues;

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use jiff::Timestamp;
use koinon_api::membership::ClusterId;
use koinon_control::bounds::Held;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use self::held::Holdings;
use self::queues::Queues;

/// How a call to a member ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

impl Outcome {
    const ALL: [Outcome; 6] =
        [Outcome::Ok, Outcome::Refused, Outcome::Timeout, Outcome::Failed, Outcome::Offline, Outcome::Busy];
}

impl EncodeLabelValue for Outcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        encoder.write_str(match self {
            Outcome::Ok => "ok",
            Outcome::Refused => "refused",
            Outcome::Timeout => "timeout",
            Outcome::Failed => "failed",
            Outcome::Offline => "offline",
            Outcome::Busy => "busy",
        })
    }
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

/// The measurements of one fleet; clones share them.
#[derive(Clone)]
pub struct Metrics {
    calls: Family<Call, Counter>,
    latency: Family<Member, Histogram, fn() -> Histogram>,
    watch_alive: Family<Watch, Gauge>,
    relists: Family<Watch, Counter>,
    offline_seconds: Family<Member, Counter<f64, AtomicU64>>,
    reachable: Family<Member, Gauge>,
    queues: Queues,
    held: Holdings,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            calls: Family::default(),
            latency: Family::new_with_constructor(latency_buckets),
            watch_alive: Family::default(),
            relists: Family::default(),
            offline_seconds: Family::default(),
            reachable: Family::default(),
            queues: Queues::default(),
            held: Holdings::default(),
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
            "watch_alive_timestamp_seconds",
            "When the watch last showed a sign of life; its age is the time since then",
            self.watch_alive.clone(),
        );
        registry.register("relists", "How often a kind had to be listed", self.relists.clone());
        registry.register("offline_seconds", "Time that members were offline", self.offline_seconds.clone());
        registry.register("reachable", "1 while the member is reachable", self.reachable.clone());
        registry.register_collector(Box::new(self.queues.clone()));
        registry.register_collector(Box::new(self.held.clone()));
    }

    /// Has it shown how many bytes are held because of a member, for as long as anything of it is there.
    pub(crate) fn held(&self, member: &ClusterId, held: &Arc<Held>) {
        self.held.add(member.as_str(), held);
    }

    /// How many bytes are held because of each member.
    pub fn held_bytes(&self) -> std::collections::BTreeMap<String, u64> {
        self.held.bytes()
    }

    pub(crate) fn call(&self, member: &str, outcome: Outcome) {
        self.calls.get_or_create(&Call { member: member.into(), outcome }).inc();
    }

    pub(crate) fn answered_after(&self, member: &str, seconds: f64) {
        self.latency.get_or_create(&Member { member: member.into() }).observe(seconds);
    }

    pub(crate) fn watch_alive(&self, member: &str, kind: &str, now: Timestamp) {
        self.watch_alive
            .get_or_create(&Watch { member: member.into(), kind: kind.into() })
            .set(now.as_second());
    }

    pub(crate) fn watch_over(&self, member: &str, kind: &str) {
        let watch = Watch { member: member.into(), kind: kind.into() };
        self.watch_alive.remove(&watch);
        self.relists.remove(&watch);
    }

    pub(crate) fn relisted(&self, member: &str, kind: &str) {
        self.relists.get_or_create(&Watch { member: member.into(), kind: kind.into() }).inc();
    }

    pub(crate) fn health(&self, member: &str, reachable: bool, offline_for: Duration) {
        let member = Member { member: member.into() };
        self.reachable.get_or_create(&member).set(reachable.into());
        self.offline_seconds.get_or_create(&member).inc_by(offline_for.as_secs_f64());
    }

    /// Has it shown how many keys wait in a role's queue, for as long as its owner is there. Queues of one name count
    /// together.
    pub fn queue<T: Send + Sync + 'static>(
        &self,
        name: &'static str,
        owner: &Arc<T>,
        waiting: impl Fn(&T) -> usize + Send + Sync + 'static,
    ) {
        self.queues.add(name, owner, waiting);
    }

    /// Drops what is measured of a member that is none any more.
    pub(crate) fn forget(&self, member: &str) {
        for outcome in Outcome::ALL {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_shown_until_the_member_leaves() {
        let (metrics, mut registry) = (Metrics::default(), Registry::default());
        metrics.register(&mut registry);
        metrics.call("a", Outcome::Timeout);
        metrics.watch_alive("a", "pods", Timestamp::UNIX_EPOCH);
        metrics.health("a", false, Duration::from_millis(6_500));
        metrics.health("a", false, Duration::from_millis(750));
        let shown = |registry: &Registry| {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
            text.lines().filter(|line| line.contains("member=\"a\"")).map(str::to_owned).collect::<Vec<_>>()
        };
        let text = shown(&registry).join("\n");
        for expected in [
            "koinon_member_calls_total{member=\"a\",outcome=\"timeout\"} 1",
            "koinon_member_watch_alive_timestamp_seconds{member=\"a\",kind=\"pods\"} 0",
            "koinon_member_offline_seconds_total{member=\"a\"} 7.25",
            "koinon_member_reachable{member=\"a\"} 0",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
        metrics.forget("a");
        metrics.watch_over("a", "pods");
        assert_eq!(shown(&registry), Vec::<String>::new());
    }
}
