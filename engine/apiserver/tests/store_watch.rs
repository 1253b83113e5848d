//! Watches while many write at once: every event once, in order, and resumable from what was seen.

use std::sync::Arc;

use koinon_apiserver::context::Context;
use koinon_apiserver::store::{
    Event, EventKind, Expect, Key, Labels, ListQuery, Op, Options, Store, WatchError,
};

const RESOURCES: [&str; 3] = ["/pods", "/services", "apps/deployments"];
const WRITERS: usize = 8;
const WRITES: usize = 60;
const LAST: &str = "last";

fn put(resource: &str, name: &str, body: String) -> Op {
    let key = Key::new(resource, "default", name);
    Op::Put { key, expect: Expect::Any, body: body.into_bytes().into(), labels: Labels::default() }
}

/// Writes to all resources, also to several at once, and deletes now and then. Answers what it wrote.
async fn write(store: Store, writer: usize) -> Vec<(u64, Key)> {
    let mut written = Vec::new();
    for turn in 0..WRITES {
        let resource = RESOURCES[(writer + turn) % RESOURCES.len()];
        let name = format!("own-{writer}");
        let mut ops = vec![put(resource, &name, format!("{writer} {turn}"))];
        if turn % 3 == 0 {
            ops.push(put(RESOURCES[turn % RESOURCES.len()], "shared", format!("{writer} {turn}")));
        }
        if turn % 5 == 0 {
            ops.push(Op::Delete { key: Key::new(resource, "default", name), revision: None });
        }
        let keys: Vec<Key> = ops
            .iter()
            .map(|op| match op {
                Op::Put { key, .. } | Op::Delete { key, .. } => key.clone(),
            })
            .collect();
        let committed = store.commit(ops).await.unwrap();
        assert!(store.revision() >= *committed.revisions.last().unwrap(), "a writer sees its own write");
        written.extend(committed.revisions.into_iter().zip(keys));
    }
    written
}

/// Reads on one watch until the last event.
async fn follow(store: Store, resource: &'static str, from: u64) -> Vec<Arc<Event>> {
    let mut watch = store.watch(resource, from).unwrap();
    let mut events = Vec::new();
    while events.last().is_none_or(|event: &Arc<Event>| event.key.name.as_ref() != LAST) {
        events.extend(watch.next().await.unwrap());
    }
    events
}

/// Takes a new watch after every read, from where the one before said it was.
async fn hop(store: Store, resource: &'static str, mut from: u64) -> Vec<Arc<Event>> {
    let mut events = Vec::new();
    while events.last().is_none_or(|event: &Arc<Event>| event.key.name.as_ref() != LAST) {
        let mut watch = store.watch(resource, from).unwrap();
        events.extend(watch.next().await.unwrap());
        from = watch.seen();
    }
    events
}

async fn check(store: Store) {
    let from = store.revision();
    let mut readers = Vec::new();
    for resource in RESOURCES {
        readers.push((resource, tokio::spawn(follow(store.clone(), resource, from))));
        readers.push((resource, tokio::spawn(hop(store.clone(), resource, from))));
    }
    let writers: Vec<_> = (0..WRITERS).map(|writer| tokio::spawn(write(store.clone(), writer))).collect();
    let mut written = Vec::new();
    for writer in writers {
        written.extend(writer.await.unwrap());
    }
    let last = store.commit(RESOURCES.iter().map(|it| put(it, LAST, String::new())).collect()).await.unwrap();
    written.extend(last.revisions.into_iter().zip(RESOURCES.map(|it| Key::new(it, "default", LAST))));
    written.sort();
    let given: Vec<u64> = written.iter().map(|(revision, _)| *revision).collect();
    assert!(given.iter().copied().eq(from + 1..=store.revision()), "each revision is given once");

    for (resource, reader) in readers {
        let events = reader.await.unwrap();
        let expected: Vec<_> =
            written.iter().filter(|(_, key)| key.resource.as_ref() == resource).cloned().collect();
        let seen: Vec<_> = events.iter().map(|event| (event.revision, event.key.clone())).collect();
        assert_eq!(seen, expected);
        for event in &events {
            assert_eq!(event.kind == EventKind::Added, event.previous.is_none());
        }
        let mut alive: Vec<&Key> = Vec::new();
        for event in &events {
            alive.retain(|key| **key != event.key);
            if event.kind != EventKind::Deleted {
                alive.push(&event.key);
            }
        }
        assert_eq!(store.list(&ListQuery::all(resource)).unwrap().items.len(), alive.len());
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_event_once_and_in_order_in_memory() {
    check(Store::in_memory(Options::default(), &Context::real())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_event_once_and_in_order_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    check(Store::open(dir.path(), Options::default(), &Context::real()).unwrap()).await;
}

#[tokio::test]
async fn an_idle_watch_is_never_behind_and_a_slow_one_is_told() {
    let options = Options { events_per_resource: 4, ..Options::default() };
    let store = Store::in_memory(options, &Context::real());
    store.commit(vec![put("/pods", "a", String::new())]).await.unwrap();
    let mut idle = store.watch("/pods", store.revision()).unwrap();
    let mut slow = store.watch("/services", store.revision()).unwrap();
    for turn in 0..20 {
        store.commit(vec![put("/services", "s", turn.to_string())]).await.unwrap();
    }
    assert_eq!(idle.try_next(), Ok(vec![]));
    assert_eq!(idle.seen(), store.revision());
    assert_eq!(slow.next().await, Err(WatchError::Compacted { floor: store.revision() - 4 }));
    assert!(store.watch("/services", store.revision() - 4).unwrap().try_next().is_ok_and(|it| it.len() == 4));
}

#[tokio::test]
async fn a_watch_ends_with_the_last_handle_and_a_commit_is_refused_after_close() {
    let store = Store::in_memory(Options::default(), &Context::real());
    let mut watch = store.watch("/pods", store.revision()).unwrap();
    store.commit(vec![put("/pods", "a", String::new())]).await.unwrap();
    drop(store);
    assert_eq!(watch.next().await.unwrap().len(), 1);
    assert_eq!(watch.next().await, Err(WatchError::Closed));

    let store = Store::in_memory(Options::default(), &Context::real());
    store.close().await;
    assert!(store.commit(vec![put("/pods", "a", String::new())]).await.is_err());
}
