//! The reconciler of federated Services: what the members of all clusters make in the led one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use koinon_control::Key;
use koinon_control::queue::Next;
use koinon_fleet::Knowledge;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::context::Context;
use super::inbox::Job;
use super::machines::Machines;
use super::member_conditions::MemberConditions;
use super::snapshot;
use super::undone::Undone;
use crate::services::endpoints::Resolved;
use crate::services::member_condition::Completeness;
use crate::services::model::Kind;
use crate::services::plan::{Plan, SliceStep, balancers, plan};
use crate::services::records::{Manager, Occupant};
use crate::services::view::{Dns, Site};

/// For so long changes of membership are debounced, after the first of them.
const DEBOUNCE_FOR: Duration = Duration::from_millis(500);

pub(super) struct FederatedServices {
    cx: Arc<Context>,
    machines: Arc<Machines>,
    members: Arc<MemberConditions>,
    /// Until when changes of a federated Service's membership are debounced.
    debouncing: Mutex<BTreeMap<Key, Instant>>,
}

impl FederatedServices {
    pub(super) fn new(
        cx: Arc<Context>,
        machines: Arc<Machines>,
        members: Arc<MemberConditions>,
    ) -> FederatedServices {
        FederatedServices { cx, machines, members, debouncing: Mutex::default() }
    }

    /// Measures how much there is, whenever that may have changed.
    pub(super) fn measure(&self) {
        let federated = self.cx.sources.subscribers.joins.read().federated().len();
        let (slices, waiting) = (self.cx.slices.len(), self.cx.inbox.queue.waiting());
        self.cx.metrics.stands(self.cx.here().as_str(), federated, slices, waiting);
    }

    /// All federated Services that there are, or that something of is here.
    pub(super) fn all(&self) -> BTreeSet<Key> {
        let here = self.cx.here().as_str();
        let mut all: BTreeSet<Key> = self.cx.sources.subscribers.joins.read().federated().cloned().collect();
        let services = self.cx.sources.services.of_member(here).into_iter();
        all.extend(services.filter(|(_, one)| matches!(**one, Occupant::Ours(_))).map(|(key, _)| key));
        all.extend(self.cx.slices.services());
        all
    }

    /// Reconciles one federated Service.
    pub(super) async fn reconcile(&self, key: &Key) -> Next {
        let here = self.cx.here();
        // What was not listed yet is unknown: nothing is written where it is not known what is there.
        let is_known = self.cx.slices.is_known()
            && self.cx.sources.services.knowledge(here.as_str()) != Knowledge::Unknown
            && self.cx.sources.namespaces.knowledge(here.as_str()) != Knowledge::Unknown;
        if !is_known {
            return Next::Done;
        }
        let since = self.cx.inbox.take_since(key);
        self.measure();
        let (clusters, again) = snapshot::clusters_at(&self.cx.sources, here, key, &self.cx.options.stale);
        let site = self.site(key, self.cx.sources.resolver.look(key, balancers(&clusters)));
        let plan = plan(here, key, &clusters, &site);
        tracing::trace!(%here, %key, why = plan.why, "looked at");
        if let Some(left) = self.debounced(key, &plan) {
            self.cx.inbox.put_since(key, since);
            return Next::After(left);
        }
        let undone = if plan.is_settled() { Undone::default() } else { self.cx.writer.act(key, &plan).await };
        let mut notices = plan.notices.clone();
        if self.cx.learn_unsupported(&undone, plan.traffic_distribution()) {
            return Next::Retry;
        }
        let uid = match site.occupant.as_deref() {
            Some(Occupant::Ours(published)) => published.uid.as_str(),
            _ => "",
        };
        notices.extend(undone.told(Kind::Service, key, uid));
        let local = clusters.get(here).map(|cluster| cluster.members.as_slice()).unwrap_or_default();
        notices.extend(undone.told_to_members(local));
        let is_changed = self.cx.notices.tell(Job::Federated(key.clone()), notices);
        let completeness = if clusters.values().all(|one| one.known) {
            Completeness::Complete
        } else {
            Completeness::Partial
        };
        self.members.federated(key, local, completeness, is_changed);
        if undone.is_empty() {
            if let (Some(since), false) = (since, plan.is_settled()) {
                self.cx.metrics.propagated(since.elapsed());
            }
            return self.cx.look_again(again);
        }
        self.cx.inbox.put_since(key, since);
        tracing::debug!(%here, %key, ?undone, "not as it should be yet");
        Next::Retry
    }

    /// For how long the change of a federated Service is debounced. The first member that comes or goes is written at once; those
    /// that follow within a moment are written together: where many clusters join within a moment, and then use their own members alone, most of what each
    /// would be told in between is over before it is written. Changes of endpoints wait for nothing.
    fn debounced(&self, key: &Key, plan: &Plan) -> Option<Duration> {
        let comes_or_goes =
            |step: &SliceStep| matches!(step, SliceStep::Create { .. } | SliceStep::Delete { .. });
        if !plan.slices.iter().any(comes_or_goes) {
            return None;
        }
        let now = Instant::now();
        let mut debouncing = self.debouncing.lock();
        debouncing.retain(|_, until| *until > now);
        if let Some(until) = debouncing.get(key) {
            return Some(*until - now);
        }
        debouncing.insert(key.clone(), now + DEBOUNCE_FOR);
        None
    }

    fn site(&self, key: &Key, resolved: Resolved) -> Site {
        let here = self.cx.here();
        Site {
            namespace: self
                .cx
                .sources
                .namespaces
                .get(here.as_str(), &Key::new("", &*key.namespace))
                .is_some(),
            occupant: self.cx.sources.services.get(here.as_str(), key),
            slices: self.cx.slices.of_service(key, Manager::Federation),
            resolved,
            dns: self.dns(),
            unsupported: self.cx.unsupported(),
            locality: self.cx.options.locality,
        }
    }

    /// Virtual machines of the led member look for names outside the cluster.
    fn dns(&self) -> Dns {
        match &self.cx.options.dns_suffix {
            None => Dns::Nowhere,
            Some(suffix) => match self.machines.are_there() {
                None => Dns::Unknown,
                Some(false) => Dns::Nowhere,
                Some(true) => Dns::Under(suffix.clone()),
            },
        }
    }
}
