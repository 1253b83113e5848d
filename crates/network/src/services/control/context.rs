//! What the reconcilers of one led member share: the lead, the caches, the writer, the notices and the queue.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use koinon_control::queue::Next;
use koinon_fleet::ClusterId;
use parking_lot::Mutex;

use super::Options;
use super::inbox::Inbox;
use super::notices::Notices;
use super::own_slices::OwnSlices;
use super::sources::Sources;
use super::undone::Undone;
use super::writer::Writer;
use crate::leader_context::LeaderContext;
use crate::services::metrics::Metrics;

pub(super) struct Context {
    pub(super) leader: LeaderContext,
    pub(super) sources: Arc<Sources>,
    pub(super) options: Options,
    pub(super) metrics: Metrics,
    pub(super) slices: Arc<OwnSlices>,
    pub(super) writer: Writer,
    pub(super) notices: Notices,
    pub(super) inbox: Arc<Inbox>,
    /// Values of `trafficDistribution` that the led member does not take.
    unsupported: Mutex<BTreeSet<String>>,
}

impl Context {
    pub(super) fn new(
        leader: LeaderContext,
        sources: Arc<Sources>,
        options: Options,
        metrics: Metrics,
    ) -> Arc<Context> {
        let inbox = Arc::new(Inbox::new(leader.name().clone()));
        leader.fleet.metrics().queue("services", &inbox, |inbox| inbox.queue.waiting());
        let slices = Arc::new(OwnSlices::new(leader.name(), &inbox));
        let writer = Writer::new(leader.clone(), sources.clone(), slices.clone(), metrics.clone());
        let notices = Notices::new(leader.recorder.clone());
        let unsupported = Mutex::default();
        Arc::new(Context { leader, sources, options, metrics, slices, writer, notices, inbox, unsupported })
    }

    /// The led member.
    pub(super) fn here(&self) -> &ClusterId {
        self.leader.name()
    }

    pub(super) fn unsupported(&self) -> BTreeSet<String> {
        self.unsupported.lock().clone()
    }

    /// Whether a cluster refused a Service for a field that older servers do not know: it goes without from now on.
    pub(super) fn learn_unsupported(&self, undone: &Undone, value: Option<&str>) -> bool {
        let Some(value) = value.filter(|_| undone.is_about("spec.trafficDistribution")) else { return false };
        self.unsupported.lock().insert(value.to_owned())
    }

    pub(super) fn look_again(&self, due: Option<Timestamp>) -> Next {
        let now = self.leader.clock().now();
        let left = due.map(|due| Duration::try_from(due.duration_since(now)).unwrap_or_default());
        left.map_or(Next::Done, |left| Next::After(left.max(Duration::from_secs(1))))
    }
}
