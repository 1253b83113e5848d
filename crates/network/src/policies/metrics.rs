//! What federated policies count and measure. Labels are clusters and outcomes, never policies.

use std::time::Duration;

use prometheus_client::registry::Registry;

use super::plan::{Act, Why};
use super::version::Version;
pub(super) use crate::measures::Outcome;
use crate::measures::{PerMember, Writes};

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    Policy,
    /// A page of the ledger, or what it says about members.
    Ledger,
}

impl Written {
    fn as_str(self) -> &'static str {
        match self {
            Written::Policy => "Policy",
            Written::Ledger => "Ledger",
        }
    }
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

/// What can be measured of federated policies; clones share it.
#[derive(Clone, Default)]
pub struct Metrics {
    writes: Writes,
    applied: PerMember,
    pending: PerMember,
    conflicts: PerMember,
    refused: PerMember,
    ledger: PerMember,
}

impl Metrics {
    /// Makes the measurements visible under `registry`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("koinon_policies");
        self.writes.register(registry);
        self.applied.register(registry, "applied", "Policies that are in each member that is led");
        self.pending.register(registry, "pending", "Policies on their way to each member that is led");
        let help = "Policies whose name somebody's own has in each member that is led";
        self.conflicts.register(registry, "conflicts", help);
        self.refused.register(registry, "refused", "Policies that each member that is led cannot take");
        self.ledger.register(registry, "ledger_bytes", "The size of the ledger of each member that is led");
    }

    pub(super) fn wrote(&self, member: &str, kind: Written, outcome: Outcome) {
        self.writes.wrote(member, kind.as_str(), outcome);
    }

    pub(super) fn propagated(&self, after: Duration) {
        self.writes.propagated(after);
    }

    pub(super) fn stands(&self, member: &str, stands: Stands) {
        self.applied.set(member, stands.applied);
        self.pending.set(member, stands.pending);
        self.conflicts.set(member, stands.conflicts);
        self.refused.set(member, stands.refused);
        self.ledger.set(member, stands.ledger_bytes);
    }

    /// Has a member that is led no more leave no numbers behind.
    pub(super) fn forget(&self, member: &str) {
        for numbers in [&self.applied, &self.pending, &self.conflicts, &self.refused, &self.ledger] {
            numbers.forget(member);
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
