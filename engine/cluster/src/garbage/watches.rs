//! One metadata watch for each resource that can be deleted, and discovery of which those are.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::{AbortHandle, Abortable, BoxFuture};
use futures::stream::FuturesUnordered;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::Collector;
use super::graph::{Graph, Identity, Owner, Seen};
use super::names::{Kind, Uid};
use super::plan;
use koinon_control::discovery::{Catalog, Metadata, Served};
use koinon_control::watch::{self, Event};

/// What an aggregated server offers can change without a definition here; part of an answer may come later.
const DISCOVERY_PERIOD: Duration = Duration::from_secs(300);
const INCOMPLETE_PERIOD: Duration = Duration::from_secs(30);
const DISCOVERY_RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(5);
/// A new kind appears in discovery shortly after its definition: look soon, and once more after that.
const SETTLING: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// Keeps a watch on everything that is served, for as long as it is polled.
pub(super) async fn run(collector: &Arc<Collector>) -> Infallible {
    let mut watches = Watches::default();
    let mut pause = DISCOVERY_RETRY;
    loop {
        let discovery = Catalog::discover(&collector.live.client);
        let found = tokio::select! {
            biased;
            found = discovery => found,
            () = watches.follow() => continue,
        };
        let wait = match found {
            Ok(catalog) => {
                pause = DISCOVERY_RETRY;
                let period = if catalog.has_gaps() { INCOMPLETE_PERIOD } else { DISCOVERY_PERIOD };
                watches.update(collector, catalog);
                period
            }
            Err(error) => {
                tracing::debug!(%error, "garbage: discovery failed");
                pause = (pause * 2).min(LONGEST_RETRY);
                pause
            }
        };
        let wait = if std::mem::take(&mut watches.settling) { SETTLING[1] } else { wait };
        tokio::select! {
            biased;
            () = tokio::time::sleep(wait) => {}
            () = collector.kinds_changed.notified() => {
                let _ = tokio::time::timeout(SETTLING[0], watches.follow()).await;
                watches.settling = true;
            }
            () = watches.follow() => {}
        }
    }
}

/// They run inside the task that polls them: nothing is left behind when it ends.
#[derive(Default)]
struct Watches {
    by_url: BTreeMap<String, Watch>,
    running: FuturesUnordered<Abortable<BoxFuture<'static, Infallible>>>,
    settling: bool,
}

struct Watch {
    kind: Kind,
    task: AbortHandle,
}

impl Watches {
    /// Lets the watches run; never ends by itself.
    async fn follow(&mut self) {
        while self.running.next().await.is_some() {}
        std::future::pending().await
    }

    fn update(&mut self, collector: &Arc<Collector>, mut catalog: Catalog) {
        let before = collector.live.catalog();
        catalog.keep_unknown_of(&before);
        if let Some(failure) = catalog.failure() {
            tracing::debug!(failure, "garbage: discovery is partial");
        }
        let wanted: BTreeMap<String, &Arc<Served>> = catalog
            .preferred()
            .filter(|served| is_collectable(served))
            .map(|served| (served.metadata(&collector.live.client).resource_url().to_owned(), served))
            .collect();
        // A server that suddenly serves nothing is in trouble; it did not lose every kind.
        if wanted.is_empty() {
            return;
        }
        for (url, served) in &wanted {
            if !self.by_url.contains_key(url) {
                self.start(collector, url.clone(), served);
            }
        }
        let gone: Vec<String> =
            self.by_url.keys().filter(|url| !wanted.contains_key(*url)).cloned().collect();
        collector.discovered.store(!catalog.has_gaps(), Ordering::Release);
        let changed = catalog != *before;
        collector.live.set_catalog(Arc::new(catalog));
        for url in gone {
            self.stop(collector, &url);
        }
        collector.graph.lock().names.sweep();
        collector.listed.notify_one();
        if changed {
            collector.queue.retry_now();
        }
    }

    fn start(&mut self, collector: &Arc<Collector>, url: String, served: &Served) {
        tracing::debug!(url, "garbage: watching");
        let kind = collector.graph.lock().names.kind(&served.resource.api_version, &served.resource.kind);
        collector.unlisted.lock().insert(url.clone());
        let (task, registration) = AbortHandle::new_pair();
        let watch: BoxFuture<'static, Infallible> =
            Box::pin(follow(collector.clone(), url.clone(), kind.clone(), served.clone()));
        self.running.push(Abortable::new(watch, registration));
        self.by_url.insert(url, Watch { kind, task });
    }

    fn stop(&mut self, collector: &Collector, url: &str) {
        let Some(watch) = self.by_url.remove(url) else { return };
        tracing::debug!(url, "garbage: watching no longer");
        watch.task.abort();
        collector.unlisted.lock().remove(url);
        collector.change(|graph| graph.unwatched(&watch.kind));
    }
}

/// Events are many and own nothing.
fn is_collectable(served: &Served) -> bool {
    let is_event = served.is("", "events") || served.is("events.k8s.io", "events");
    !is_event && ["delete", "list", "watch"].iter().all(|verb| served.allows(verb))
}

async fn follow(collector: Arc<Collector>, url: String, kind: Kind, served: Served) -> Infallible {
    let defines_kinds = served.is("apiextensions.k8s.io", "customresourcedefinitions")
        || served.is("apiregistration.k8s.io", "apiservices");
    let api = served.metadata(&collector.live.client);
    let mut shown = BTreeSet::new();
    let mut present = false;
    let mut seen = || {
        if !std::mem::replace(&mut present, true) {
            collector.presence.saw(&served.resource.group, &served.resource.kind);
        }
    };
    let on = |event: Event<Metadata>| match event {
        Event::Init => shown.clear(),
        Event::InitApply(object) => {
            seen();
            shown.extend(object.metadata.uid.as_deref().map(Uid::from));
            observe(&collector, &kind, &object.metadata);
        }
        Event::InitDone => {
            collector.change(|graph| graph.relisted(&kind, &std::mem::take(&mut shown)));
            collector.unlisted.lock().remove(&url);
            collector.listed.notify_one();
        }
        Event::Apply(object) => {
            seen();
            observe(&collector, &kind, &object.metadata);
            if defines_kinds {
                collector.kinds_changed.notify_one();
            }
        }
        Event::Delete(object) => {
            if let Some(uid) = object.metadata.uid.as_deref() {
                collector.change(|graph| graph.removed(&uid.into()));
            }
            if defines_kinds {
                collector.kinds_changed.notify_one();
            }
        }
    };
    watch::follow(api, on).await
}

fn observe(collector: &Collector, kind: &Kind, object: &ObjectMeta) {
    let Some(uid) = object.uid.as_deref() else { return };
    collector.change(|graph| {
        let identity = Identity {
            kind: kind.clone(),
            namespace: graph.names.text(object.namespace.as_deref().unwrap_or_default()),
            name: object.name.as_deref().unwrap_or_default().into(),
            uid: uid.into(),
        };
        let owners =
            object.owner_references.iter().flatten().map(|reference| graph.owner(reference)).collect();
        graph.observe(Seen { identity, owners, deletion: plan::deletion(object) })
    });
}

impl Graph {
    /// An owner reference in the graph's small form.
    pub(super) fn owner(&mut self, reference: &OwnerReference) -> Owner {
        Owner {
            uid: Uid::from(&*reference.uid),
            kind: self.names.kind(&reference.api_version, &reference.kind),
            name: self.names.text(&reference.name),
            blocks: reference.block_owner_deletion == Some(true),
        }
    }
}
