//! What happens between a write and the disk, on storage that a test can hold or break.

use std::io::{Error, Result};
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use proptest::prelude::*;
use redb::StorageBackend;
use redb::backends::InMemoryBackend;

use super::journal::{FIRST_REVISION, Journal, Recovered};
use super::state::State;
use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disk {
    Works,
    Hangs,
    Fails,
}

#[derive(Debug)]
struct Switch {
    disk: Mutex<Disk>,
    moved: Condvar,
    /// Rises when a sync begins to hang.
    hanging: tokio::sync::watch::Sender<usize>,
}

impl Switch {
    fn set(&self, disk: Disk) {
        *self.disk.lock() = disk;
        self.moved.notify_all();
    }

    async fn hangs(&self) {
        self.hanging.subscribe().wait_for(|count| *count > 0).await.expect("the switch is alive");
    }
}

#[derive(Debug)]
struct Storage {
    memory: InMemoryBackend,
    switch: Arc<Switch>,
}

impl StorageBackend for Storage {
    fn len(&self) -> Result<u64> {
        self.memory.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.memory.read(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.memory.set_len(len)
    }

    fn sync_data(&self) -> Result<()> {
        let mut disk = self.switch.disk.lock();
        while *disk == Disk::Hangs {
            self.switch.hanging.send_modify(|count| *count += 1);
            self.switch.moved.wait(&mut disk);
        }
        if *disk == Disk::Fails { Err(Error::other("no disk")) } else { self.memory.sync_data() }
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.memory.write(offset, data)
    }
}

fn store() -> (Store, Arc<Switch>) {
    let switch = Arc::new(Switch {
        disk: Mutex::new(Disk::Works),
        moved: Condvar::new(),
        hanging: tokio::sync::watch::Sender::new(0),
    });
    let options = Options::default();
    let journal = Journal::on(Storage { memory: InMemoryBackend::new(), switch: switch.clone() });
    let state = State::new(FIRST_REVISION, options);
    let recovered = Recovered { journal, state, id: "test".to_owned(), path: PathBuf::new() };
    (Store::start(recovered, options), switch)
}

fn pod(name: &str) -> Key {
    Key::new("/pods", "default", name)
}

fn put(name: &str, expect: Expect) -> Vec<Op> {
    vec![Op::Put { key: pod(name), expect, body: name.as_bytes().into(), labels: Labels::default() }]
}

fn spawn(
    store: &Store,
    ops: Vec<Op>,
) -> tokio::task::JoinHandle<std::result::Result<Committed, CommitError>> {
    let store = store.clone();
    tokio::spawn(async move { store.commit(ops).await })
}

/// Lets every other task run until it waits for something else.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn nobody_sees_a_write_before_the_disk_has_it() {
    let (store, switch) = store();
    let mut watch = store.watch("/pods", store.revision()).unwrap();
    let late = store.wait_for(FIRST_REVISION + 1);
    switch.set(Disk::Hangs);
    let created = spawn(&store, put("a", Expect::Absent));
    switch.hangs().await;
    // These queue up behind the write on its way; the second of them depends on the first.
    let second = spawn(&store, put("b", Expect::Absent));
    let conflicting = spawn(&store, put("b", Expect::Absent));
    settle().await;

    assert!(!created.is_finished() && !second.is_finished() && !conflicting.is_finished());
    assert_eq!((store.revision(), store.get(&pod("a"))), (FIRST_REVISION, None));
    assert!(store.list(&ListQuery::all("/pods")).unwrap().items.is_empty());
    assert_eq!(watch.try_next(), Ok(vec![]));
    assert_eq!(watch.seen(), FIRST_REVISION);

    switch.set(Disk::Works);
    assert_eq!(created.await.unwrap().unwrap().revisions, [2]);
    late.await.unwrap();
    assert_eq!(second.await.unwrap().unwrap().revisions, [3]);
    match conflicting.await.unwrap() {
        Err(CommitError::Conflict { index: 0, current }) => assert_eq!(current, store.get(&pod("b"))),
        other => panic!("{other:?}"),
    }
    assert_eq!(store.stats().batches, 2, "what queued up went to the disk together");
    let seen: Vec<u64> = watch.next().await.unwrap().iter().map(|event| event.revision).collect();
    assert_eq!(seen, [2, 3]);
}

#[tokio::test]
async fn after_the_disk_failed_reads_go_on_and_writes_are_refused() {
    let (store, switch) = store();
    store.commit(put("a", Expect::Absent)).await.unwrap();
    switch.set(Disk::Fails);
    let failed = store.commit(put("b", Expect::Absent)).await;
    assert!(matches!(failed, Err(CommitError::Journal(_))), "{failed:?}");
    assert!(matches!(store.health(), super::Health::Failed(_)), "{:?}", store.health());
    switch.set(Disk::Works);
    for ops in [put("c", Expect::Absent), put("a", Expect::Absent)] {
        let refused = store.commit(ops).await;
        assert!(matches!(refused, Err(CommitError::Journal(_))), "{refused:?}");
    }
    assert_eq!(store.revision(), 2);
    assert!(store.get(&pod("a")).is_some() && store.get(&pod("b")).is_none());
    store.close().await;
    assert!(matches!(store.commit(put("d", Expect::Any)).await, Err(CommitError::Closed)));
}

#[tokio::test]
async fn closing_answers_what_is_queued_and_ends_watches() {
    let (store, switch) = store();
    let mut watch = store.watch("/pods", store.revision()).unwrap();
    switch.set(Disk::Hangs);
    let first = spawn(&store, put("a", Expect::Absent));
    switch.hangs().await;
    let second = spawn(&store, put("b", Expect::Absent));
    settle().await;
    let closing = tokio::spawn({
        let store = store.clone();
        async move { store.close().await }
    });
    let never = tokio::spawn({
        let store = store.clone();
        async move { store.wait_for(1000).await }
    });
    settle().await;
    switch.set(Disk::Works);
    closing.await.unwrap();
    assert!(first.await.unwrap().is_ok() && second.await.unwrap().is_ok());
    assert_eq!(never.await.unwrap(), Err(Closed));
    assert_eq!(watch.next().await.unwrap().len(), 2);
    assert_eq!(watch.next().await, Err(WatchError::Closed));
    store.close().await;
}

/// Operations whose expectations sometimes hold, on few enough objects that they meet.
fn op() -> impl Strategy<Value = Op> {
    let expect = prop_oneof![
        Just(Expect::Any),
        Just(Expect::Absent),
        (FIRST_REVISION + 1..FIRST_REVISION + 12).prop_map(Expect::Revision),
    ];
    (0..3usize, expect, any::<bool>()).prop_map(|(name, expect, delete)| {
        let key = pod(["a", "b", "c"][name]);
        match expect {
            Expect::Revision(revision) if delete => Op::Delete { key, revision: Some(revision) },
            Expect::Any if delete => Op::Delete { key, revision: None },
            expect => Op::Put { key, expect, body: Box::default(), labels: Labels::default() },
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn one_batch_does_what_the_transactions_would_do_one_by_one(
        transactions in proptest::collection::vec(proptest::collection::vec(op(), 1..4), 1..20),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (batching, switch) = store();
            let one_by_one = Store::in_memory(Options::default(), &Context::real());
            switch.set(Disk::Hangs);
            let first = spawn(&batching, put("a", Expect::Absent));
            switch.hangs().await;
            let answers: Vec<_> = transactions.iter().map(|ops| spawn(&batching, ops.clone())).collect();
            settle().await;
            switch.set(Disk::Works);
            first.await.unwrap().unwrap();
            one_by_one.commit(put("a", Expect::Absent)).await.unwrap();
            for (answer, ops) in answers.into_iter().zip(transactions) {
                let expected = one_by_one.commit(ops).await;
                assert_eq!(format!("{:?}", answer.await.unwrap()), format!("{expected:?}"));
            }
            assert!(batching.stats().batches <= 2);
            let all = ListQuery::all("/pods");
            assert_eq!(batching.list(&all), one_by_one.list(&all));
            let history = |store: &Store| store.watch("/pods", FIRST_REVISION).unwrap().try_next();
            assert_eq!(history(&batching), history(&one_by_one));
        });
    }
}
