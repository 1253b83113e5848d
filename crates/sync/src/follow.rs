//! Lists and watches of one collection on one side, by the watch loop of every controller.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use koinon_control::watch::{Lists, Named, Selection, Sink, Text, Timing, Watch};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use crate::access::Access;

/// Where to look.
pub(crate) struct Source {
    pub(crate) access: Access,
    /// `cloud` or `robot`.
    pub(crate) place: &'static str,
    /// The path of the collection.
    pub(crate) path: String,
    pub(crate) labels: Option<String>,
    /// How often to list again.
    pub(crate) resync: Duration,
    /// Lists again at once.
    pub(crate) kick: Arc<Notify>,
}

/// Puts everything that happens there into `sink`, for as long as it is polled.
pub(crate) async fn follow<T>(source: Source, sink: impl Sink<T>) -> Infallible
where
    T: Named + DeserializeOwned + Clone + Send + 'static,
{
    let Source { access, place, path, labels, resync, kick } = source;
    // Links to robots are slow and lose connections: larger pages, and a death that is noticed sooner than beside a server.
    let timing = Timing {
        page: 500,
        round: Duration::from_secs(120),
        grace: Duration::from_secs(10),
        resync: Some(resync),
        ..Timing::default()
    };
    let selection = Selection { labels, lists: Lists::Paged, ..Selection::default() };
    let watch = Watch::new(Text::<T>::new(access.client(), &path), sink, selection);
    Box::pin(watch.timed(timing).named(place, path).relisting_on(kick).run()).await
}
