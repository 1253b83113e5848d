//! Events are kept for a while only: a cluster that runs for months would otherwise fill up with them.
//!
//! The lifetime is one for all and counts from an Event's last write, so the order of writes is the order of
//! deadlines: a queue is enough, and one timer that waits for its head. A cluster without Events has no timer.
//!
//! The moment of a write is not stored. After a restart the youngest time that an Event carries stands for it.

use std::collections::VecDeque;
use std::sync::Weak;
use std::time::Duration;

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Inner, object};
use crate::context::Context;
use crate::store::{CommitError, Event, EventKind, Key, ListQuery, Op, Store, Watch, WatchError};

/// Where Events of both groups are stored.
const EVENTS: &str = "/events";
/// What expires within a moment goes together, and a clock that stands still does not keep a core busy.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);
/// Removals that are asked for at once.
const AT_ONCE: usize = 256;

/// Which Events there are and when they go, soonest first. One that was written again is in it again; its
/// earlier place says an older revision, which no longer matches anything.
#[derive(Default)]
struct Deadlines(VecDeque<Deadline>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Deadline {
    at: Timestamp,
    key: Key,
    revision: u64,
}

impl Deadlines {
    /// Notes a write. A clock that was set back does not bring the queue out of order.
    fn add(&mut self, at: Timestamp, key: Key, revision: u64) {
        let at = self.0.back().map_or(at, |last| last.at.max(at));
        self.0.push_back(Deadline { at, key, revision });
    }

    /// Takes out what is due, a part of it when it is much.
    fn due(&mut self, now: Timestamp) -> Vec<Deadline> {
        let count = self.0.iter().take(AT_ONCE).take_while(|deadline| deadline.at <= now).count();
        self.0.drain(..count).collect()
    }

    fn next(&self) -> Option<Timestamp> {
        self.0.front().map(|deadline| deadline.at)
    }
}

/// Removes Events until the server is closed or gone.
pub(super) async fn run(server: Weak<Inner>, lifetime: Duration) {
    loop {
        let Some((context, (mut deadlines, mut watch))) =
            server.upgrade().and_then(|inner| Some((inner.context.clone(), begin(&inner, lifetime)?)))
        else {
            return;
        };
        let ended = follow(&server, &context, lifetime, &mut deadlines, &mut watch).await;
        // More was written in a moment than the history keeps: what is there now tells it all.
        if !matches!(ended, WatchError::Compacted { .. }) {
            return;
        }
    }
}

/// What is there already, and a watch for what comes.
fn begin(inner: &Inner, lifetime: Duration) -> Option<(Deadlines, Watch)> {
    let found = inner.store.list(&ListQuery::all(EVENTS)).ok()?;
    let watch = inner.store.watch(EVENTS, found.revision).ok()?;
    let now = inner.context.now();
    let mut known: Vec<Deadline> = found
        .items
        .into_iter()
        .map(|item| Deadline {
            at: after(last_written(&object::of_entry(None, &item.entry)).unwrap_or(now).min(now), lifetime),
            key: Key::new(EVENTS, item.namespace, item.name),
            revision: item.entry.revision,
        })
        .collect();
    known.sort_by_key(|deadline| deadline.at);
    Some((Deadlines(known.into()), watch))
}

async fn follow(
    server: &Weak<Inner>,
    context: &Context,
    lifetime: Duration,
    deadlines: &mut Deadlines,
    watch: &mut Watch,
) -> WatchError {
    loop {
        let wait = deadlines.next().map(|at| until(context.now(), at).max(SHORTEST_WAIT));
        let alarm = async {
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            events = watch.next() => match events {
                Ok(events) => note(deadlines, &events, after(context.now(), lifetime)),
                Err(ended) => return ended,
            },
            () = alarm => {
                let Some(inner) = server.upgrade() else { return WatchError::Closed };
                loop {
                    let due = deadlines.due(context.now());
                    if due.is_empty() {
                        break;
                    }
                    remove(&inner.store, due).await;
                }
            }
        }
    }
}

fn note(deadlines: &mut Deadlines, events: &[std::sync::Arc<Event>], at: Timestamp) {
    for event in events.iter().filter(|event| event.kind != EventKind::Deleted) {
        deadlines.add(at, event.key.clone(), event.revision);
    }
}

/// Removes what has not been written since; all that is asked for at once goes to the disk together.
async fn remove(store: &Store, due: Vec<Deadline>) {
    let removals = due.into_iter().map(|Deadline { key, revision, .. }| {
        store.commit(vec![Op::Delete { key, revision: Some(revision) }])
    });
    for removed in join_all(removals).await {
        match removed {
            Ok(_) | Err(CommitError::Conflict { .. } | CommitError::Closed) => {}
            Err(error) => tracing::error!(%error, "an Event that has expired could not be removed"),
        }
    }
}

fn after(time: Timestamp, lifetime: Duration) -> Timestamp {
    SignedDuration::try_from(lifetime)
        .ok()
        .and_then(|lifetime| time.checked_add(lifetime).ok())
        .unwrap_or(Timestamp::MAX)
}

fn until(now: Timestamp, at: Timestamp) -> Duration {
    now.duration_until(at).try_into().unwrap_or(Duration::ZERO)
}

/// The youngest of the times that an Event carries, whatever its version.
fn last_written(event: &Value) -> Option<Timestamp> {
    let managers = event["metadata"]["managedFields"].as_array().into_iter().flatten();
    [
        &event["metadata"]["creationTimestamp"],
        &event["lastTimestamp"],
        &event["deprecatedLastTimestamp"],
        &event["eventTime"],
        &event["series"]["lastObservedTime"],
    ]
    .into_iter()
    .chain(managers.map(|manager| &manager["time"]))
    .filter_map(|time| time.as_str()?.parse().ok())
    .max()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use axum::body::Body;
    use serde_json::json;
    use tower::ServiceExt as _;

    use super::super::{Options, Server};
    use super::*;
    use crate::auth::User;
    use crate::auth::pki::Authority;

    const HOUR: Duration = Duration::from_secs(3600);

    /// Wall-clock time that runs with tokio's.
    fn context() -> Context {
        let start = tokio::time::Instant::now();
        let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        Context::seeded(1, move || after(epoch, start.elapsed()))
    }

    async fn server(context: &Context, data: Option<PathBuf>) -> Server {
        let authority = Authority::in_memory(context).expect("an authority");
        let options = Options { data, ..Options::default() };
        Server::open(options, &authority, context.clone()).await.expect("a server")
    }

    async fn call(server: &Server, method: &str, path: &str, body: Value) -> Value {
        let router = server.trusted_router(User::new("test", &["system:masters"]));
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(
                "content-type",
                if method == "PATCH" { "application/merge-patch+json" } else { "application/json" },
            )
            .body(Body::from(body.to_string()))
            .expect("a request");
        let response = router.oneshot(request).await.expect("an answer");
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("a body");
        serde_json::from_slice(&body).expect("JSON")
    }

    async fn put_event(server: &Server, name: &str) {
        let event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": name},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
            "reason": "Tested", "message": "m", "type": "Normal",
        });
        let made = call(server, "POST", "/api/v1/namespaces/default/events", event).await;
        assert_eq!(made["metadata"]["name"], name, "{made}");
    }

    async fn names(server: &Server) -> Vec<String> {
        let list = call(server, "GET", "/apis/events.k8s.io/v1/events", Value::Null).await;
        let items = list["items"].as_array().expect("a list");
        items.iter().map(|item| item["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_goes_an_hour_after_its_last_write() {
        let context = context();
        let server = server(&context, None).await;
        put_event(&server, "once").await;
        put_event(&server, "twice").await;
        tokio::time::sleep(HOUR / 2).await;
        let patched =
            call(&server, "PATCH", "/api/v1/namespaces/default/events/twice", json!({"count": 2})).await;
        assert_eq!(patched["count"], 2, "{patched}");
        let mut watch = server.0.store.watch(EVENTS, server.0.store.revision()).expect("a watch");
        let gone = watch.next().await.expect("an event");
        assert_eq!((gone.len(), gone[0].kind, &*gone[0].key.name), (1, EventKind::Deleted, "once"));
        assert_eq!(names(&server).await, ["twice"]);
        let gone = watch.next().await.expect("an event");
        assert_eq!((gone[0].kind, &*gone[0].key.name), (EventKind::Deleted, "twice"));
        let waited = context.now().duration_since("2026-01-01T00:00:00Z".parse().expect("a time"));
        assert_eq!(waited.as_mins(), 90);
        assert_eq!(names(&server).await, [""; 0]);
    }

    /// Not on paused time: it would run on while the disk is busy.
    #[tokio::test]
    async fn a_restart_neither_forgets_nor_prolongs() {
        let folder = tempfile::tempdir().expect("a folder");
        let clock = Arc::new(AtomicI64::new(1_000_000));
        let seconds = clock.clone();
        let now = move || Timestamp::from_second(seconds.load(Ordering::Relaxed)).expect("a time");
        let context = Context::seeded(1, now);
        let first = server(&context, Some(folder.path().into())).await;
        put_event(&first, "young").await;
        clock.fetch_add(-600, Ordering::Relaxed);
        put_event(&first, "old").await;
        first.close().await;
        clock.fetch_add(1800, Ordering::Relaxed);
        let second = server(&context, Some(folder.path().into())).await;
        let (deadlines, _) = begin(&second.0, HOUR).expect("a beginning");
        let found: Vec<_> = deadlines.0.iter().map(|one| (&*one.key.name, one.at.as_second())).collect();
        assert_eq!(found, [("old", 1_000_000 - 600 + 3600), ("young", 1_000_000 + 3600)]);
        second.close().await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_timer_does_not_keep_a_server_alive() {
        let server = server(&context(), None).await;
        put_event(&server, "a").await;
        let gone = Arc::downgrade(&server.0);
        drop(server);
        assert!(gone.upgrade().is_none());
    }

    #[test]
    fn what_is_due_goes_in_order_and_a_clock_set_back_does_not_disturb_it() {
        let second = |seconds| Timestamp::from_second(seconds).expect("a time");
        let mut deadlines = Deadlines::default();
        for (at, name) in [(10, "a"), (8, "b"), (12, "c")] {
            deadlines.add(second(at), Key::new(EVENTS, "n", name), 1);
        }
        assert_eq!(deadlines.next(), Some(second(10)));
        assert!(deadlines.due(second(9)).is_empty());
        let due = deadlines.due(second(11));
        assert_eq!(due.iter().map(|due| &*due.key.name).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(deadlines.next(), Some(second(12)));
    }

    #[test]
    fn the_youngest_time_counts() {
        let event = json!({
            "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{"time": "2026-01-01T00:20:00Z"}]},
            "series": {"lastObservedTime": "2026-01-01T00:10:00.000000Z"}, "eventTime": null,
        });
        assert_eq!(last_written(&event), "2026-01-01T00:20:00Z".parse().ok());
        assert_eq!(last_written(&json!({"metadata": {}})), None);
    }
}
