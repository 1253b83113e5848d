//! How many objects of a kind each namespace has. A kind is watched, by its metadata alone, from when the
//! first quota counts it.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use koinon_control::discovery::{Catalog, Metadata, Served};
use koinon_control::watch::{self, Event};
use kube::{Client, ResourceExt as _};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::plan::Counted;

/// A kind that is not served now may be later.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(super) struct Counts {
    kinds: Mutex<BTreeMap<Counted, Names>>,
    asked: Notify,
}

#[derive(Default)]
struct Names {
    listed: bool,
    by_namespace: BTreeMap<String, BTreeSet<String>>,
}

impl Counts {
    /// How many there are in a namespace; nothing while that is not known. Whoever asks for a kind has it
    /// watched from then on.
    pub(super) fn get(&self, kind: &Counted, namespace: &str) -> Option<usize> {
        let mut kinds = self.kinds.lock();
        if let Some(names) = kinds.get(kind) {
            return names.listed.then(|| names.by_namespace.get(namespace).map_or(0, BTreeSet::len));
        }
        kinds.insert(kind.clone(), Names::default());
        self.asked.notify_one();
        None
    }

    /// Watches what was asked for. `changed` gets each namespace whose count changed, and `None` when a kind
    /// was listed.
    pub(super) async fn follow(&self, client: &Client, changed: impl Fn(Option<&str>)) -> Infallible {
        let mut started = BTreeSet::new();
        let mut watches = FuturesUnordered::new();
        loop {
            let new: Vec<Counted> =
                self.kinds.lock().keys().filter(|kind| !started.contains(*kind)).cloned().collect();
            for kind in new {
                started.insert(kind.clone());
                watches.push(self.follow_kind(client, kind, &changed));
            }
            tokio::select! {
                biased;
                Some(never) = watches.next(), if !watches.is_empty() => match never {},
                () = self.asked.notified() => {}
            }
        }
    }

    async fn follow_kind(
        &self,
        client: &Client,
        kind: Counted,
        changed: &impl Fn(Option<&str>),
    ) -> Infallible {
        let served = served(client, &kind).await;
        let mut listing = BTreeMap::new();
        let on = |event: Event<Metadata>| match event {
            Event::Init => listing = BTreeMap::new(),
            Event::InitApply(object) => insert(&mut listing, &object),
            Event::InitDone => {
                let names = Names { listed: true, by_namespace: std::mem::take(&mut listing) };
                self.kinds.lock().insert(kind.clone(), names);
                changed(None);
            }
            Event::Apply(object) => {
                let namespace = object.namespace().unwrap_or_default();
                let mut kinds = self.kinds.lock();
                let names = &mut kinds.entry(kind.clone()).or_default().by_namespace;
                if names.entry(namespace.clone()).or_default().insert(object.name_any()) {
                    drop(kinds);
                    changed(Some(&namespace));
                }
            }
            Event::Delete(object) => {
                let namespace = object.namespace().unwrap_or_default();
                let mut kinds = self.kinds.lock();
                let names = &mut kinds.entry(kind.clone()).or_default().by_namespace;
                if names.get_mut(&namespace).is_some_and(|names| names.remove(&object.name_any())) {
                    drop(kinds);
                    changed(Some(&namespace));
                }
            }
        };
        watch::follow(served.metadata(client), on).await
    }
}

fn insert(names: &mut BTreeMap<String, BTreeSet<String>>, object: &Metadata) {
    names.entry(object.namespace().unwrap_or_default()).or_default().insert(object.name_any());
}

/// Waits until a kind is served.
async fn served(client: &Client, kind: &Counted) -> std::sync::Arc<Served> {
    loop {
        match Catalog::discover(client).await {
            Ok(catalog) => {
                let mut all = catalog.preferred();
                if let Some(served) = all.find(|served| served.is(&kind.group, &kind.resource)) {
                    return served.clone();
                }
            }
            Err(error) => tracing::debug!(?kind, %error, "quota: discovery failed"),
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
