//! The one watch loop: lists, follows, resumes after every cut, lists again only where it must, and is never
//! fooled by a connection that died in silence.
//!
//! ```text
//! Source ──list, watch──► Watch ──► Sink
//! (typed, dynamic, text)  (loop)    (a store, a fold, a function)
//! ```

mod cut;
mod settings;
mod sink;
mod source;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

pub use self::cut::Cut;
use self::cut::{LONGEST_TOKEN, check, checked_version, short, smaller};
pub use self::settings::{Lists, Selection, Timing, Unserved};
use self::sink::Calls;
pub use self::sink::{Event, Sink};
pub use self::source::{Events, Meta, Named, Page, Source, Text, TextList};
use crate::call::{self, within};

/// A list that streams shows signs of life at least so often.
const STREAM_STALLS: Duration = Duration::from_secs(20);
/// A round that ends sooner than this was no use, even if it ended well.
const SHORTEST_ROUND: Duration = Duration::from_secs(1);
/// A kind that was not served is asked for again after this time.
const SERVED_YET: Duration = Duration::from_secs(30);

/// Feeds everything that happens to the objects of `api` into `on`, for as long as it is polled. A relist
/// begins with `Init` and is complete only with `InitDone`: what it did not show before that is unknown.
pub async fn follow<K>(api: Api<K>, on: impl FnMut(Event<K>)) -> Infallible
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let what = api.resource_url().to_owned();
    let selection = Selection { lists: Lists::Paged, ..Selection::default() };
    let name = what.clone();
    Box::pin(Watch::new(api, Calls { on, what }, selection).named("", name).run()).await
}

/// A watch of the objects of one source, which puts them into one sink.
pub struct Watch<S, K> {
    source: S,
    sink: K,
    selection: Selection,
    timing: Timing,
    /// Whose objects these are and of which kind: moments that differ from watch to watch follow from it.
    name: (String, String),
    relist: Arc<Notify>,
}

/// Where a watch stands.
struct Progress {
    /// The version to go on from.
    from: Option<String>,
    lists: Lists,
    /// Objects in a page.
    page: u32,
    /// When to list again.
    resync: Option<Instant>,
}

impl<S: Source, K: Sink<S::Object>> Watch<S, K> {
    pub fn new(source: S, sink: K, selection: Selection) -> Watch<S, K> {
        let (timing, relist) = (Timing::default(), Arc::default());
        Watch { source, sink, selection, timing, name: Default::default(), relist }
    }

    pub fn timed(self, timing: Timing) -> Watch<S, K> {
        Watch { timing, ..self }
    }

    /// A watch of `kind` in `place`.
    pub fn named(self, place: impl Into<String>, kind: impl Into<String>) -> Watch<S, K> {
        Watch { name: (place.into(), kind.into()), ..self }
    }

    /// Lists again whenever this is notified, and waits for no pause then.
    pub fn relisting_on(self, relist: Arc<Notify>) -> Watch<S, K> {
        Watch { relist, ..self }
    }

    /// Follows for as long as it is polled.
    pub async fn run(mut self) -> Infallible {
        let mut progress =
            Progress { from: None, lists: self.selection.lists, page: self.timing.page, resync: None };
        let mut failures = 0u32;
        if !self.timing.spread.is_zero() {
            tokio::time::sleep(self.share_of(self.timing.spread, 0)).await;
        }
        loop {
            self.source.admitted().await;
            let began = Instant::now();
            let cut = self.round(&mut progress).await;
            let useful = began.elapsed() >= SHORTEST_ROUND && progress.from.is_some();
            if useful {
                failures = 0;
            }
            match cut {
                Cut::Over if useful => continue,
                Cut::Over | Cut::Failed(_) => {}
                Cut::Relist => {
                    progress.from = None;
                    continue;
                }
                Cut::Unstreamed => {
                    progress.lists = Lists::Paged;
                    continue;
                }
                // What was taken in so far may be wrong too.
                Cut::Expired | Cut::Hostile(_) => progress.from = None,
                Cut::LargePage(ref error) => progress.page = smaller(progress.page, error),
                Cut::Unserved => {
                    progress.from = None;
                    self.sink.cut(&cut);
                    self.pause(SERVED_YET, 0).await;
                    continue;
                }
            }
            self.sink.cut(&cut);
            if useful && matches!(cut, Cut::Expired) {
                continue;
            }
            let pause = self.timing.backoff.pause(failures);
            failures = failures.saturating_add(1);
            let pause = self.pause(pause, failures);
            // A list that is due does not wait for a watch that fails.
            let due = progress.resync.filter(|at| *at > Instant::now());
            let woken = timeout_at(due.unwrap_or_else(far), pause).await.unwrap_or(Woken::ToRelist);
            if woken == Woken::ToRelist {
                progress.from = None;
            }
        }
    }

    /// Rests for half a time to a whole one, unless somebody wants a list.
    async fn pause(&self, time: Duration, attempt: u32) -> Woken {
        // In a fixed order, here and wherever a simulation must come out the same twice.
        tokio::select! {
            biased;
            () = tokio::time::sleep(time / 2 + self.share_of(time / 2, attempt)) => Woken::InTime,
            () = self.relist.notified() => Woken::ToRelist,
        }
    }

    /// From the version to go on from, or from a list, until the connection ends.
    async fn round(&mut self, progress: &mut Progress) -> Cut {
        if progress.resync.is_some_and(|at| at <= Instant::now()) {
            progress.from = None;
        }
        let outcome = match (progress.from.is_some(), progress.lists) {
            (true, _) => self.resume(progress).await,
            (false, Lists::Paged) => match self.list(progress).await {
                Ok(()) => self.resume(progress).await,
                Err(cut) => Err(cut),
            },
            (false, Lists::Streamed) => self.stream(progress).await,
        };
        if outcome.is_err() {
            // Of half a list nothing is kept, however long the next try takes to come.
            self.sink.drop_list();
        }
        outcome.err().unwrap_or(Cut::Over)
    }

    /// Lists page by page.
    async fn list(&mut self, progress: &mut Progress) -> Result<(), Cut> {
        let Watch { source, sink, selection, timing, .. } = self;
        let _turn = source.list_turn().await;
        let pages = pages(source, sink, selection, *timing, progress);
        match timing.list {
            Some(most) => timeout(most, pages).await.unwrap_or_else(|_| Err(too_slow(most))),
            None => pages.await,
        }
    }

    /// Lists in the stream of a watch, then goes on with that.
    async fn stream(&mut self, progress: &mut Progress) -> Result<(), Cut> {
        let (params, end) = self.params();
        let Watch { source, sink, selection, timing, .. } = self;
        let turn = source.list_turn().await;
        let most = timing.list.unwrap_or(timing.round);
        let complete_by = Instant::now() + most;
        let params = params.initial_events();
        // Before the server is asked: what was written until now is in its answer.
        sink.begin_list();
        let started = within(timing.answer, source.watch(&params, "")).await;
        let mut events = started.map_err(|error| Cut::at_stream(error, selection.unserved))?;
        sink.answered();
        loop {
            // A server that knows nothing of this sends the objects, but never says that they were all.
            let stalls = Instant::now() + STREAM_STALLS;
            let event = match timeout_at(stalls.min(complete_by), events.next()).await {
                Ok(event) => event,
                Err(_) if complete_by <= stalls => return Err(too_slow(most)),
                Err(_) => return Err(Cut::Unstreamed),
            };
            match event {
                // Objects that come without a pause would else be read on and on.
                _ if Instant::now() >= complete_by => return Err(too_slow(most)),
                Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                    take_listed::<S>(sink, object)?;
                }
                Some(Ok(WatchEvent::Bookmark(mark))) => {
                    if mark.metadata.annotations.contains_key("k8s.io/initial-events-end") {
                        listed(sink, mark.metadata.resource_version, *timing, progress)?;
                        break;
                    }
                }
                Some(Ok(WatchEvent::Deleted(_))) => return Err(Cut::Expired),
                Some(Ok(WatchEvent::Error(status))) => return Err(Cut::ended_by(status)),
                Some(Err(error)) => return Err(error.into()),
                None => return Err(Cut::Unstreamed),
            }
        }
        drop(turn);
        self.drain(events, end, progress).await
    }

    /// Goes on from where it was.
    async fn resume(&mut self, progress: &mut Progress) -> Result<(), Cut> {
        let (params, end) = self.params();
        let version = progress.from.clone().unwrap_or_default();
        let started = tokio::select! {
            biased;
            () = self.relist.notified() => return Err(Cut::Relist),
            () = sleep_until(progress.resync.unwrap_or_else(far)) => return Err(Cut::Relist),
            started = within(self.timing.answer, self.source.watch(&params, &version)) => started,
        };
        let events = started.map_err(|error| Cut::at_resume(error, self.selection.unserved))?;
        self.sink.answered();
        self.drain(events, end, progress).await
    }

    async fn drain(
        &mut self,
        mut events: Events<S::Object>,
        end: Instant,
        progress: &mut Progress,
    ) -> Result<(), Cut> {
        let sink = &mut self.sink;
        let mut wanted = pin!(self.relist.notified());
        let mut over = pin!(sleep_until(progress.resync.map_or(end, |at| at.min(end))));
        sink.following();
        loop {
            let event = tokio::select! {
                biased;
                () = &mut wanted => return Err(Cut::Relist),
                event = events.next() => event,
                () = &mut over => {
                    let dead = Instant::now() >= end;
                    return Err(if dead { silent(&self.timing) } else { Cut::Relist });
                }
            };
            match event {
                Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                    progress.from = checked::<S>(&object)?;
                    sink.apply(object);
                    sink.hold().map_err(|excess| Cut::Hostile(excess.to_string()))?;
                }
                Some(Ok(WatchEvent::Deleted(object))) => {
                    progress.from = checked::<S>(&object)?;
                    sink.delete(object);
                }
                Some(Ok(WatchEvent::Bookmark(mark))) => {
                    let version = checked_version(mark.metadata.resource_version)?;
                    sink.observed_up_to(number(&version));
                    progress.from = Some(version);
                }
                Some(Ok(WatchEvent::Error(status))) => return Err(Cut::ended_by(status)),
                Some(Err(error)) => return Err(error.into()),
                None => return Ok(()),
            }
        }
    }

    /// What to ask for, and when the answer must have ended.
    fn params(&self) -> (WatchParams, Instant) {
        let round = self.timing.round + self.share_of(self.timing.round_spread, 0);
        let seconds = round.as_secs();
        let params = WatchParams {
            label_selector: self.selection.labels.clone(),
            field_selector: self.selection.fields.clone(),
            timeout: Some(u32::try_from(seconds).unwrap_or(u32::MAX)),
            ..WatchParams::default()
        };
        (params, Instant::now() + Duration::from_secs(seconds) + self.timing.grace)
    }

    /// A part of a time that differs from watch to watch, but is the same whenever it is asked for.
    fn share_of(&self, time: Duration, attempt: u32) -> Duration {
        let mut hasher = DefaultHasher::new();
        (&self.name, attempt).hash(&mut hasher);
        time.mul_f64((hasher.finish() % 1000) as f64 / 1000.0)
    }
}

/// How a pause ended.
#[derive(PartialEq)]
enum Woken {
    InTime,
    ToRelist,
}

async fn pages<S: Source, K: Sink<S::Object>>(
    source: &S,
    sink: &mut K,
    selection: &Selection,
    timing: Timing,
    progress: &mut Progress,
) -> Result<(), Cut> {
    sink.begin_list();
    let mut params = ListParams {
        label_selector: selection.labels.clone(),
        field_selector: selection.fields.clone(),
        limit: Some(progress.page),
        ..ListParams::default()
    };
    loop {
        let page = within(timing.answer, source.list(&params)).await;
        let page = page.map_err(|error| Cut::at_page(error, selection.unserved, progress.page))?;
        sink.answered();
        for object in page.items {
            take_listed::<S>(sink, object)?;
        }
        if page.next.is_empty() {
            return listed(sink, page.version, timing, progress);
        }
        short("continue token", &page.next, LONGEST_TOKEN)?;
        params.continue_token = Some(page.next);
    }
}

fn take_listed<S: Source>(sink: &mut impl Sink<S::Object>, object: S::Object) -> Result<(), Cut> {
    check(S::meta(&object))?;
    sink.list(object);
    sink.hold().map_err(|excess| Cut::Hostile(excess.to_string()))
}

/// The list is complete.
fn listed<T>(
    sink: &mut impl Sink<T>,
    version: String,
    timing: Timing,
    progress: &mut Progress,
) -> Result<(), Cut> {
    let version = checked_version(version)?;
    sink.end_list(number(&version));
    progress.from = Some(version);
    progress.resync = timing.resync.map(|every| Instant::now() + every);
    Ok(())
}

/// The version of an object to go on from, if it can be one.
fn checked<S: Source>(object: &S::Object) -> Result<Option<String>, Cut> {
    let meta = S::meta(object);
    check(meta)?;
    Ok((number(meta.version) > 0).then(|| meta.version.to_owned()))
}

/// Versions of one server are numbers that grow; one that is not counts as older than all.
pub fn number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}

/// A time that does not come.
fn far() -> Instant {
    Instant::now() + Duration::from_secs(365 * 24 * 3600)
}

fn too_slow(most: Duration) -> Cut {
    Cut::Failed(call::Error::NoAnswer(most))
}

/// The connection died in silence.
fn silent(timing: &Timing) -> Cut {
    Cut::Failed(call::Error::NoAnswer(timing.round + timing.grace))
}
