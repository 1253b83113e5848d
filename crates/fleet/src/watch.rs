//! Follows the objects of one kind in one member into an index: resumed after every cut, listed again only
//! where it must be, and never fooled by a connection that died in silence.

use std::convert::Infallible;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use koinon_control::Clock;
use koinon_control::known;
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use crate::index::{Index, Record};
use crate::member::MemberClient;
use crate::metrics::Metrics;

/// Objects of a list come in pages of this size, so that a large list is never in memory at once.
const PAGE: u32 = 250;
/// The server ends a watch after this many seconds, and after some more that differ from watch to watch, so
/// that they do not all come back at once.
const ROUND: u32 = 40;
const ROUND_SPREAD: u64 = 12;
/// A watch that the server should have ended so long ago is dead. With the round it stays below 60 s.
const GRACE: Duration = Duration::from_secs(5);
/// A list that streams shows signs of life at least so often.
const STREAM_STALLS: Duration = Duration::from_secs(20);
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A round that ends sooner than this was no use, even if it ended well.
const SHORTEST_ROUND: Duration = Duration::from_secs(1);
/// A kind that was not served is asked for again after this time.
const SERVED_YET: Duration = Duration::from_secs(30);

/// Which objects of a kind to follow, and how.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    pub labels: Option<String>,
    pub fields: Option<String>,
    pub lists: Lists,
    /// What a member that does not serve the kind says about its objects.
    pub unserved: Unserved,
}

/// What it means that a member does not serve a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unserved {
    /// Nothing: every member should serve it.
    #[default]
    Unknown,
    /// There are no such objects, for now.
    Empty,
}

/// How the first look at the objects is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lists {
    /// In the stream of the watch where the server can, in pages where it refuses.
    #[default]
    Streamed,
    Paged,
}

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

/// Why a round ended.
#[derive(Debug)]
enum Cut {
    /// As the server said it would.
    Over,
    /// What the version to go on from was is no longer known there.
    Expired,
    /// The server does not list in streams.
    Unstreamed,
    /// The server knows no such kind.
    Unserved,
    Failed(String),
}

impl<R: Record> Watch<R>
where
    R::Object: DeserializeOwned + Debug,
{
    /// Follows for as long as it is polled.
    pub(crate) async fn run(self) -> Infallible {
        let mut from = None;
        let mut lists = self.selection.lists;
        let mut failures = 0u32;
        tokio::time::sleep(self.share_of(self.shared.spread, 0)).await;
        loop {
            self.member.admitted().await;
            let began = Instant::now();
            let cut = self.round(&mut from, lists).await;
            let useful = began.elapsed() >= SHORTEST_ROUND && from.is_some();
            match cut {
                Cut::Over if useful => {
                    failures = 0;
                    continue;
                }
                Cut::Over => {}
                Cut::Expired => from = None,
                Cut::Unstreamed => {
                    lists = Lists::Paged;
                    continue;
                }
                Cut::Unserved => {
                    from = None;
                    self.index.unserved(self.member.name());
                    tokio::time::sleep(SERVED_YET / 2 + self.share_of(SERVED_YET / 2, 0)).await;
                    continue;
                }
                Cut::Failed(ref why) => {
                    self.member.doubt();
                    let member = self.member.name();
                    tracing::debug!(%member, kind = self.kind, why, "watch failed");
                }
            }
            if useful {
                failures = 0;
            }
            self.index.cut(self.member.name(), self.shared.clock.now());
            let pause = FIRST_PAUSE.saturating_mul(2u32.saturating_pow(failures)).min(LONGEST_PAUSE);
            failures = failures.saturating_add(1);
            tokio::time::sleep(pause / 2 + self.share_of(pause / 2, failures)).await;
        }
    }

    /// From the version to go on from, or from a list, until the connection ends.
    async fn round(&self, from: &mut Option<String>, lists: Lists) -> Cut {
        let outcome = match (from.is_some(), lists) {
            (true, _) => self.resume(from).await,
            (false, Lists::Paged) => match self.list(from).await {
                Ok(()) => self.resume(from).await,
                Err(cut) => Err(cut),
            },
            (false, Lists::Streamed) => self.stream(from).await,
        };
        outcome.err().unwrap_or(Cut::Over)
    }

    /// Lists page by page.
    async fn list(&self, from: &mut Option<String>) -> Result<(), Cut> {
        let member = self.member.name();
        let _turn = self.shared.turnstile.acquire().await;
        self.shared.metrics.relisted(member.as_str(), &self.kind);
        self.index.begin_list(member);
        let mut params = ListParams {
            label_selector: self.selection.labels.clone(),
            field_selector: self.selection.fields.clone(),
            limit: Some(PAGE),
            ..ListParams::default()
        };
        loop {
            let page = self.api.list(&params).await.map_err(|error| self.failed(error))?;
            for object in &page.items {
                self.index.list(member, object);
            }
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_some() {
                continue;
            }
            let Some(version) = page.metadata.resource_version.filter(|version| !version.is_empty()) else {
                return Err(Cut::Failed("the list has no version to go on from".into()));
            };
            self.index.end_list(member, version.parse().unwrap_or(0));
            *from = Some(version);
            return Ok(());
        }
    }

    /// Lists in the stream of a watch, then goes on with that.
    async fn stream(&self, from: &mut Option<String>) -> Result<(), Cut> {
        let member = self.member.name();
        let turn = self.shared.turnstile.acquire().await;
        let (params, end) = self.params();
        let params = params.initial_events();
        let started = self.api.watch(&params, "").await;
        let mut events = pin!(started.map_err(|error| match &error {
            kube::Error::Api(status) if self.is_unserved(status.code) => Cut::Unserved,
            kube::Error::Api(status) if matches!(status.code, 400 | 404 | 405 | 415 | 422) => Cut::Unstreamed,
            _ => failed(error),
        })?);
        self.shared.metrics.relisted(member.as_str(), &self.kind);
        self.index.begin_list(member);
        loop {
            // A server that knows nothing of this sends the objects, but never says that they were all.
            let Ok(event) = timeout(STREAM_STALLS, events.next()).await else { return Err(Cut::Unstreamed) };
            match event {
                Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                    self.index.list(member, &object);
                }
                Some(Ok(WatchEvent::Bookmark(mark))) => {
                    if mark.metadata.annotations.contains_key("k8s.io/initial-events-end") {
                        let version = mark.metadata.resource_version;
                        self.index.end_list(member, version.parse().unwrap_or(0));
                        *from = Some(version);
                        break;
                    }
                }
                Some(Ok(WatchEvent::Deleted(_))) => return Err(Cut::Expired),
                Some(Ok(WatchEvent::Error(status))) => return Err(ended_by(&status)),
                Some(Err(error)) => return Err(failed(error)),
                None => return Err(Cut::Unstreamed),
            }
        }
        drop(turn);
        self.drain(events, end, from).await
    }

    /// Goes on from where it was.
    async fn resume(&self, from: &mut Option<String>) -> Result<(), Cut> {
        let (params, end) = self.params();
        let version = from.clone().unwrap_or_default();
        let events = self.api.watch(&params, &version).await.map_err(|error| self.failed(error))?;
        self.drain(events, end, from).await
    }

    async fn drain(
        &self,
        events: impl Stream<Item = kube::Result<WatchEvent<R::Object>>>,
        end: Instant,
        from: &mut Option<String>,
    ) -> Result<(), Cut> {
        let member = self.member.name();
        let mut events = pin!(events);
        self.index.followed(member);
        loop {
            self.shared.metrics.watch_alive(member.as_str(), &self.kind, self.shared.clock.now());
            let Ok(event) = timeout_at(end, events.next()).await else {
                return Err(Cut::Failed("the connection died in silence".into()));
            };
            match event {
                Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                    self.index.apply(member, &object);
                    *from = version_of(&object);
                }
                Some(Ok(WatchEvent::Deleted(object))) => {
                    self.index.delete(member, &object);
                    *from = version_of(&object);
                }
                Some(Ok(WatchEvent::Bookmark(mark))) => {
                    let version = mark.metadata.resource_version;
                    self.index.pass(member, version.parse().unwrap_or(0));
                    *from = Some(version);
                }
                Some(Ok(WatchEvent::Error(status))) => return Err(ended_by(&status)),
                Some(Err(error)) => return Err(failed(error)),
                None => return Ok(()),
            }
        }
    }

    fn is_unserved(&self, code: u16) -> bool {
        code == 404 && self.selection.unserved == Unserved::Empty
    }

    fn failed(&self, error: kube::Error) -> Cut {
        match &error {
            kube::Error::Api(status) if self.is_unserved(status.code) => Cut::Unserved,
            _ => failed(error),
        }
    }

    /// What to ask for, and when the answer must have ended.
    fn params(&self) -> (WatchParams, Instant) {
        let spread = self.share_of(Duration::from_secs(ROUND_SPREAD), 0).as_secs();
        let round = ROUND + u32::try_from(spread).unwrap_or(0);
        let params = WatchParams {
            label_selector: self.selection.labels.clone(),
            field_selector: self.selection.fields.clone(),
            timeout: Some(round),
            ..WatchParams::default()
        };
        (params, Instant::now() + Duration::from_secs(round.into()) + GRACE)
    }

    /// A part of a time that differs from watch to watch, but is the same whenever it is asked for.
    fn share_of(&self, time: Duration, attempt: u32) -> Duration {
        let mut hasher = DefaultHasher::new();
        (self.member.name().as_str(), &self.kind, attempt).hash(&mut hasher);
        time.mul_f64((hasher.finish() % 1000) as f64 / 1000.0)
    }
}

fn version_of(object: &impl kube::Resource) -> Option<String> {
    object.meta().resource_version.clone().filter(|_| known::version(object) > 0)
}

fn ended_by(status: &kube::core::Status) -> Cut {
    if status.code == 410 { Cut::Expired } else { Cut::Failed(status.message.clone()) }
}

fn failed(error: kube::Error) -> Cut {
    match error {
        kube::Error::Api(status) => ended_by(&status),
        error => Cut::Failed(error.to_string()),
    }
}
