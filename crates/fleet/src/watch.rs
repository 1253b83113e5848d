//! Follows the objects of one kind in one member into an index, by the watch loop of every controller
//! ([`koinon_control::watch`]). What is here is what a member adds to it: its permits, its circuit, and how much of it
//! may be held.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use koinon_control::Clock;
use koinon_control::attempts::Backoff;
use koinon_control::bounds::{Excess, Portion};
use koinon_control::watch::{Cut, Events, Meta, Page, Sink, Source, Timing};
pub use koinon_control::watch::{Lists, Selection, Unserved};
use kube::Api;
use kube::api::{ListParams, WatchParams};
use tokio::sync::Semaphore;

use crate::index::{Index, Record};
use crate::member::{MemberClient, cause};
use crate::metrics::Metrics;

/// Whoever lists takes turns with all other members: a list that is not complete after this time gives its turn away.
const LIST_WITHIN: Duration = Duration::from_secs(120);

/// A silent death is noticed within 60 s: the round and the grace stay below that.
const TIMING: Timing = Timing {
    page: 250,
    // The member's guard has deadlines of its own, which end sooner.
    answer: LIST_WITHIN,
    list: Some(LIST_WITHIN),
    round: Duration::from_secs(40),
    round_spread: Duration::from_secs(12),
    grace: Duration::from_secs(5),
    resync: None,
    backoff: Backoff::new(Duration::from_millis(500), Duration::from_secs(30)),
    spread: Duration::ZERO,
};

/// What all watches of a fleet share.
#[derive(Clone)]
pub(crate) struct Shared {
    /// Lists that may be on their way at once.
    pub(crate) turnstile: Arc<Semaphore>,
    pub(crate) metrics: Metrics,
    pub(crate) clock: Clock,
    /// New watches begin within this time, each at its own moment.
    pub(crate) spread: Duration,
}

/// A watch of one kind in one member.
pub(crate) struct Watch<R: Record> {
    pub(crate) member: MemberClient,
    pub(crate) api: Api<R::Object>,
    pub(crate) index: Arc<Index<R>>,
    pub(crate) selection: Selection,
    pub(crate) shared: Shared,
    /// The kind, for metrics.
    pub(crate) kind: String,
}

impl<R: Record> Watch<R> {
    /// Follows for as long as it is polled.
    pub(crate) async fn run(self) -> Infallible {
        let Watch { member, api, index, selection, shared, kind } = self;
        let timing = Timing { spread: shared.spread, ..TIMING };
        let name = (member.name().to_string(), kind.clone());
        let source = MemberObjects { api, member: member.clone(), turnstile: shared.turnstile.clone() };
        let portion = member.held().portion();
        let sink = Indexing { member, index, shared, kind, portion };
        let watch = koinon_control::watch::Watch::new(source, sink, selection).timed(timing);
        watch.named(name.0, name.1).run().await
    }
}

/// The objects of one kind in a member, asked for only while its circuit is closed, and listed in turn.
struct MemberObjects<K> {
    api: Api<K>,
    member: MemberClient,
    turnstile: Arc<Semaphore>,
}

impl<K> Source for MemberObjects<K>
where
    Api<K>: Source<Object = K>,
    K: Send,
{
    type Object = K;

    async fn list(&self, params: &ListParams) -> kube::Result<Page<K>> {
        Source::list(&self.api, params).await
    }

    async fn watch(&self, params: &WatchParams, version: &str) -> kube::Result<Events<K>> {
        Source::watch(&self.api, params, version).await
    }

    fn meta(object: &K) -> Meta<'_> {
        <Api<K> as Source>::meta(object)
    }

    async fn admitted(&self) {
        self.member.admitted().await;
    }

    fn list_turn(&self) -> impl Future<Output: Send> + Send {
        async { (self.member.list_turn().await, self.turnstile.acquire().await) }
    }
}

/// Folds what a member's watch shows into an index.
struct Indexing<R: Record> {
    member: MemberClient,
    index: Arc<Index<R>>,
    shared: Shared,
    kind: String,
    /// What is held of the member because of this watch.
    portion: Portion,
}

impl<R: Record> Indexing<R> {
    fn alive(&self) {
        let now = self.shared.clock.now();
        self.shared.metrics.watch_alive(self.member.name().as_str(), &self.kind, now);
    }
}

impl<R: Record> Sink<R::Object> for Indexing<R> {
    fn begin_list(&mut self) {
        self.index.begin_list(self.member.name());
    }

    fn list(&mut self, object: R::Object) {
        self.index.list(self.member.name(), &object);
    }

    fn end_list(&mut self, version: u64) {
        self.shared.metrics.relisted(self.member.name().as_str(), &self.kind);
        self.index.end_list(self.member.name(), version);
    }

    fn drop_list(&mut self) {
        self.index.drop_list(self.member.name());
        let _ = self.hold();
    }

    fn apply(&mut self, object: R::Object) {
        self.index.apply(self.member.name(), &object);
        self.alive();
    }

    fn delete(&mut self, object: R::Object) {
        self.index.delete(self.member.name(), &object);
        self.alive();
    }

    fn observed_up_to(&mut self, version: u64) {
        self.index.pass(self.member.name(), version);
        self.alive();
    }

    fn following(&mut self) {
        self.index.followed(self.member.name());
        self.alive();
    }

    fn cut(&mut self, cut: &Cut) {
        let member = self.member.name();
        match cut {
            Cut::Unserved => return self.index.unserved(member),
            Cut::Hostile(why) => {
                self.member.doubt();
                tracing::warn!(%member, kind = self.kind, why, "the member's objects are not followed for now");
            }
            Cut::Failed(error) => {
                self.member.doubt();
                let why = cause(error);
                tracing::debug!(%member, kind = self.kind, why, "watch failed");
            }
            Cut::Over | Cut::Relist | Cut::Expired | Cut::Unstreamed | Cut::LargePage(_) => {}
        }
        self.index.cut(member, self.shared.clock.now());
    }

    fn hold(&mut self) -> Result<(), Excess> {
        self.portion.set(self.index.held(self.member.name().as_str()))
    }
}
