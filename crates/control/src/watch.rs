//! A watch that never ends: lists, follows, and starts again after every cut.

use std::convert::Infallible;
use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

/// Objects of a list come in pages of this size, so that a large list is never in memory at once.
const PAGE: u32 = 250;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Short enough that a server which comes back is noticed while a user still waits for it.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Feeds everything that happens to the objects of `api` into `on`, for as long as it is polled. A relist
/// begins with `Init` and is complete only with `InitDone`: what it did not show before that is unknown.
pub async fn follow<K>(api: Api<K>, on: impl FnMut(Event<K>)) -> Infallible
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    follow_fields(api, "", on).await
}

/// Like [`follow`], but of only those objects that a field selector selects.
pub async fn follow_fields<K>(api: Api<K>, fields: &str, mut on: impl FnMut(Event<K>)) -> Infallible
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut config = watcher::Config::default().page_size(PAGE);
    if !fields.is_empty() {
        config = config.fields(fields);
    }
    let mut pause = FIRST_PAUSE;
    loop {
        let mut events = pin!(watcher::watcher(api.clone(), config.clone()));
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    // `Init` is announced before the server was asked, so it proves nothing.
                    if !matches!(event, Event::Init) {
                        pause = FIRST_PAUSE;
                    }
                    on(event);
                }
                Err(error) => {
                    tracing::debug!(url = api.resource_url(), %error, "watch failed");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    // The version to resume from is no longer, or not yet, known there: only a list helps.
                    if matches!(error, watcher::Error::WatchStartFailed(kube::Error::Api(_))) {
                        break;
                    }
                }
            }
        }
    }
}
