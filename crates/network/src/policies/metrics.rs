//! What federated policies count and measure. Labels are clusters and outcomes, never policies.

use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::plan::{Act, Why};
use super::version::Version;

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(super) enum Written {
    Policy,
    /// A page of the ledger, or what it says about members.
    Ledger,
}

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(super) enum Outcome {
    Done,
    /// Somebody else was faster.
    Conflict,
    /// The server does not want it.
    Refused,
    Failed,
}

/// Why a policy is not, or not yet, as it should be in a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unsettled {
    /// A copy of this version is being made.
    Coming(Version),
    /// Waiting for something.
    Pending,
    /// A policy of somebody's own has its name.
    Conflict,
    /// The member cannot take it.
    Refused,
    /// The member does not want it, or has no place for it.
    Elsewhere,
}

impl Unsettled {
    /// What a plan says of a policy; nothing if it is in step, or if there is none.
    pub(super) fn of(act: &Act) -> Option<Unsettled> {
        match act {
            Act::Rest(Why::InStep | Why::Nowhere | Why::Done) => None,
            Act::Write(write) => Some(Unsettled::Coming(write.version.clone())),
            Act::Rest(Why::Foreign) => Some(Unsettled::Conflict),
            Act::Rest(Why::Refused) | Act::Refuse(_) => Some(Unsettled::Refused),
            Act::Rest(Why::Declined | Why::NoNamespace) => Some(Unsettled::Elsewhere),
            _ => Some(Unsettled::Pending),
        }
    }
}

/// How many policies of a member are how, and how large its ledger is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stands {
    pub(super) applied: usize,
    pub(super) pending: usize,
    pub(super) conflicts: usize,
    pub(super) refused: usize,
    pub(super) ledger_bytes: usize,
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

/// What can be measured of federated policies; clones share it.
#[derive(Clone)]
pub struct Metrics {
    writes: Family<Write, Counter>,
    applied: Family<Member, Gauge>,
    pending: Family<Member, Gauge>,
    conflicts: Family<Member, Gauge>,
    refused: Family<Member, Gauge>,
    ledger: Family<Member, Gauge>,
    delay: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            writes: Family::default(),
            applied: Family::default(),
            pending: Family::default(),
            conflicts: Family::default(),
            refused: Family::default(),
            ledger: Family::default(),
            delay: Histogram::new([0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0]),
        }
    }
}

impl Metrics {
    /// Makes the measurements visible under `registry`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("koinon_policies");
        registry.register("writes", "Writes to members by kind and how they ended", self.writes.clone());
        registry.register("applied", "Policies that are in each member that is led", self.applied.clone());
        let help = "Policies on their way to each member that is led";
        registry.register("pending", help, self.pending.clone());
        let help = "Policies whose name somebody's own has in each member that is led";
        registry.register("conflicts", help, self.conflicts.clone());
        registry.register(
            "refused",
            "Policies that each member that is led cannot take",
            self.refused.clone(),
        );
        let help = "The size of the ledger of each member that is led";
        registry.register("ledger_bytes", help, self.ledger.clone());
        let help = "From the news of a change until the member that is led has it";
        registry.register("propagation_seconds", help, self.delay.clone());
    }

    pub(super) fn wrote(&self, member: &str, kind: Written, outcome: Outcome) {
        self.writes.get_or_create(&Write { member: member.to_owned(), kind, outcome }).inc();
    }

    pub(super) fn propagated(&self, after: Duration) {
        self.delay.observe(after.as_secs_f64());
    }

    pub(super) fn stands(&self, member: &str, stands: Stands) {
        let member = Member { member: member.to_owned() };
        for (family, value) in [
            (&self.applied, stands.applied),
            (&self.pending, stands.pending),
            (&self.conflicts, stands.conflicts),
            (&self.refused, stands.refused),
            (&self.ledger, stands.ledger_bytes),
        ] {
            family.get_or_create(&member).set(i64::try_from(value).unwrap_or(i64::MAX));
        }
    }

    /// Has a member that is led no more leave no numbers behind.
    pub(super) fn forget(&self, member: &str) {
        let member = Member { member: member.to_owned() };
        for family in [&self.applied, &self.pending, &self.conflicts, &self.refused, &self.ledger] {
            family.remove(&member);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_shown_until_the_lead_is_lost() {
        let (metrics, mut registry) = (Metrics::default(), Registry::default());
        metrics.register(&mut registry);
        let shown = |registry: &Registry| {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
            text
        };
        metrics.stands("a", Stands { applied: 3, pending: 1, ledger_bytes: 700, ..Stands::default() });
        metrics.wrote("a", Written::Ledger, Outcome::Conflict);
        for expected in [
            "koinon_policies_applied{member=\"a\"} 3",
            "koinon_policies_pending{member=\"a\"} 1",
            "koinon_policies_ledger_bytes{member=\"a\"} 700",
            "koinon_policies_writes_total{member=\"a\",kind=\"Ledger\",outcome=\"Conflict\"} 1",
        ] {
            assert!(shown(&registry).contains(expected), "{expected} in {}", shown(&registry));
        }
        metrics.forget("a");
        assert!(!shown(&registry).contains("koinon_policies_applied{"));
    }

    #[test]
    fn a_policy_that_rests_in_step_is_settled() {
        assert_eq!(Unsettled::of(&Act::Rest(Why::InStep)), None);
        assert_eq!(Unsettled::of(&Act::Rest(Why::Foreign)), Some(Unsettled::Conflict));
        assert_eq!(Unsettled::of(&Act::Rest(Why::NoSource)), Some(Unsettled::Pending));
        assert_eq!(Unsettled::of(&Act::Forget(Why::Done)), Some(Unsettled::Pending));
    }
}
