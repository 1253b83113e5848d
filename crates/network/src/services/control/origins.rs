//! What is known of federated Services, for other features: all their members, before any cluster prefers its own.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use jiff::Timestamp;
use koinon_control::Key;

use super::snapshot;
use super::sources::Sources;
use crate::services::endpoints::Resolved;
use crate::services::plan::balancers;
use crate::services::view::{Clusters, Stale};

/// Whoever wants to hear which federated Services changed. It must not block.
pub(crate) trait ServiceListener: Send + Sync {
    /// The members of this one are others, or reached otherwise.
    fn federated(&self, key: &Key);
    /// Those of all may be.
    fn everything(&self);
}

/// Federated Services as their members are.
#[derive(Clone)]
pub struct Origins {
    sources: Arc<Sources>,
    stale: Stale,
}

impl Origins {
    pub(super) fn new(sources: Arc<Sources>, stale: Stale) -> Origins {
        Origins { sources, stale }
    }

    /// Has somebody hear of changes, for as long as it is there.
    pub(crate) fn tell(&self, listener: Weak<dyn ServiceListener>) {
        let mut listeners = self.sources.subscribers.listeners.write();
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(listener);
    }

    /// All federated Services that are known to have members.
    pub(crate) fn federated(&self) -> BTreeSet<Key> {
        self.sources.subscribers.joins.read().federated().cloned().collect()
    }

    /// All clusters as far as one federated Service is concerned, what the names of load balancers lead to, and when to look
    /// again even if nothing changes.
    pub(crate) fn look(&self, key: &Key) -> (Clusters, Resolved, Option<Timestamp>) {
        let (clusters, again) = snapshot::clusters(&self.sources, key, &self.stale);
        let resolved = self.sources.resolver.look(key, balancers(&clusters));
        (clusters, resolved, again)
    }
}
