//! What federated Services count and measure. Labels are clusters and kinds, never objects.

use std::time::Duration;

use prometheus_client::registry::Registry;

pub(crate) use crate::measures::Outcome;
use crate::measures::{PerMember, Writes};

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Service,
    Slice,
    /// A ServiceImport, or the status of a ServiceExport.
    Import,
    /// How a member stands.
    Status,
}

impl Written {
    fn as_str(self) -> &'static str {
        match self {
            Written::Service => "Service",
            Written::Slice => "Slice",
            Written::Import => "Import",
            Written::Status => "Status",
        }
    }
}

/// What can be measured of federated Services.
#[derive(Clone, Default)]
pub struct Metrics {
    writes: Writes,
    federated: PerMember,
    slices: PerMember,
    waiting: PerMember,
}

impl Metrics {
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("koinon_services");
        self.writes.register(registry);
        let help = "Federated Services with members, as seen by the leader of each member";
        self.federated.register(registry, "federated", help);
        self.slices.register(registry, "slices", "Generated EndpointSlices in each member that is led");
        self.waiting.register(registry, "waiting", "Federated Services that wait to be looked at");
    }

    pub(crate) fn wrote(&self, member: &str, kind: Written, outcome: Outcome) {
        self.writes.wrote(member, kind.as_str(), outcome);
    }

    pub(crate) fn propagated(&self, after: Duration) {
        self.writes.propagated(after);
    }

    pub(crate) fn stands(&self, member: &str, federated: usize, slices: usize, waiting: usize) {
        self.federated.set(member, federated);
        self.slices.set(member, slices);
        self.waiting.set(member, waiting);
    }

    /// Has a member that is led no more leave no numbers behind.
    pub(crate) fn forget(&self, member: &str) {
        for numbers in [&self.federated, &self.slices, &self.waiting] {
            numbers.forget(member);
        }
    }
}
