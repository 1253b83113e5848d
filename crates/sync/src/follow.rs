//! Lists and watches that survive anything: cuts, stalls, refusals, and servers that forget.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use futures::TryStreamExt as _;
use koinon_control::call;
use kube::api::{ListParams, WatchParams};
use kube::core::{Request, WatchEvent};
use serde::Deserialize;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::access::Access;
use crate::record::{Item, number};

const PAGE: u32 = 500;
/// A link that cannot carry a page of this size in time carries nothing.
const SMALLEST_PAGE: u32 = 16;
/// The server ends a watch after this time; one that it did not end is dead, however alive its connection looks.
const WATCH: Duration = Duration::from_secs(120);
const GRACE: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Short enough that a link which comes back is noticed while a user still waits for it.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Where to look.
pub(crate) struct Source {
    pub(crate) access: Access,
    /// The path of the collection.
    pub(crate) path: String,
    pub(crate) labels: Option<String>,
    /// How often to list again.
    pub(crate) resync: Duration,
    /// Lists again at once.
    pub(crate) kick: std::sync::Arc<Notify>,
}

/// What is to be seen there.
pub(crate) enum News<T> {
    /// Everything, as of one version.
    All(u64, Vec<T>),
    Changed(T),
    Removed(T),
    /// Nothing is missing up to this version.
    Passed(u64),
    /// The server answers.
    Reached,
    Failed(call::Error),
}

enum End {
    /// Go on from the version where it ended.
    Resume,
    Relist,
}

/// Tells `on` everything that happens, for as long as it is polled.
pub(crate) async fn follow<T: Item>(source: Source, mut on: impl FnMut(News<T>)) -> Infallible {
    let mut pause = Pause::default();
    let mut page = PAGE;
    loop {
        let mut version = match list(&source, page, &mut on).await {
            Ok(version) => version,
            Err(error) => {
                if matches!(error, call::Error::NoAnswer) {
                    page = (page / 2).max(SMALLEST_PAGE);
                }
                on(News::Failed(error));
                pause.rest(&source.kick).await;
                continue;
            }
        };
        let relist = Instant::now() + source.resync;
        loop {
            let started = Instant::now();
            // In a fixed order, here and wherever a simulation must come out the same twice.
            let watched = tokio::select! {
                biased;
                watched = watch(&source, &mut version, &mut on) => watched,
                () = source.kick.notified() => break,
                () = tokio::time::sleep_until(relist) => break,
            };
            match watched {
                // Something in between may end every watch at once.
                Ok(End::Resume) if started.elapsed() < FIRST_PAUSE => pause.rest(&source.kick).await,
                Ok(End::Resume) => pause = Pause::default(),
                Ok(End::Relist) => break,
                Err(error) => {
                    // The version to resume from is no longer, or not yet, known there: only a list helps.
                    let refused = error.code().is_some();
                    on(News::Failed(error));
                    pause.rest(&source.kick).await;
                    if refused {
                        break;
                    }
                }
            }
        }
    }
}

/// Longer each time, unless somebody cannot wait.
struct Pause(Duration);

impl Default for Pause {
    fn default() -> Self {
        Pause(FIRST_PAUSE)
    }
}

impl Pause {
    async fn rest(&mut self, kick: &Notify) {
        tokio::select! {
            biased;
            () = tokio::time::sleep(self.0) => self.0 = (self.0 * 2).min(LONGEST_PAUSE),
            () = kick.notified() => {}
        }
    }
}

/// One page of a list.
#[derive(Deserialize)]
pub(crate) struct Page<T> {
    pub(crate) metadata: PageMetadata,
    // kube writes an empty list of a typed client as null.
    pub(crate) items: Option<Vec<T>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PageMetadata {
    #[serde(default)]
    resource_version: String,
    r#continue: Option<String>,
}

impl PageMetadata {
    pub(crate) fn version(&self) -> u64 {
        number(&self.resource_version)
    }
}

async fn list<T: Item>(source: &Source, page: u32, on: &mut impl FnMut(News<T>)) -> Result<u64, call::Error> {
    let mut params =
        ListParams { limit: Some(page), label_selector: source.labels.clone(), ..ListParams::default() };
    let mut all = Vec::new();
    loop {
        let request = Request::new(&source.path).list(&params).expect("parameters of a list make a request");
        let page: Page<T> = source.access.send(request).await?;
        on(News::Reached);
        let version = page.metadata.version();
        all.extend(page.items.unwrap_or_default());
        match page.metadata.r#continue.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => {
                all.shrink_to_fit();
                on(News::All(version, all));
                return Ok(version);
            }
        }
    }
}

async fn watch<T: Item>(
    source: &Source,
    version: &mut u64,
    on: &mut impl FnMut(News<T>),
) -> Result<End, call::Error> {
    let params = WatchParams {
        label_selector: source.labels.clone(),
        timeout: Some(WATCH.as_secs() as u32),
        bookmarks: true,
        ..WatchParams::default()
    };
    let request = Request::new(&source.path).watch(&params, &version.to_string());
    let request = request.expect("parameters of a watch make a request");
    let client = source.access.client();
    let deadline = Instant::now() + WATCH + GRACE;
    let late = || call::Error::NoAnswer;
    let events = tokio::time::timeout_at(deadline, client.request_events::<T>(request)).await;
    let mut events = pin!(events.map_err(|_| late())?.map_err(failure)?);
    on(News::Reached);
    loop {
        let event = tokio::time::timeout_at(deadline, events.try_next()).await.map_err(|_| late())?;
        match event.map_err(failure)? {
            None => return Ok(End::Resume),
            Some(WatchEvent::Added(item) | WatchEvent::Modified(item)) => {
                *version = item.version().max(*version);
                on(News::Changed(item));
            }
            Some(WatchEvent::Deleted(item)) => {
                *version = item.version().max(*version);
                on(News::Removed(item));
            }
            Some(WatchEvent::Bookmark(mark)) => {
                *version = number(&mark.metadata.resource_version).max(*version);
                on(News::Passed(*version));
            }
            Some(WatchEvent::Error(status)) if status.code == 410 => return Ok(End::Relist),
            Some(WatchEvent::Error(status)) => return Err(call::Error::Refused(status)),
        }
    }
}

fn failure(error: kube::Error) -> call::Error {
    match error {
        kube::Error::Api(status) => call::Error::Refused(status),
        error => call::Error::Failed(error),
    }
}
