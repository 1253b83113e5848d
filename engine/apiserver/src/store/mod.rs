//! Where objects live: a map with many versions, one revision counter and a bounded history.
//!
//! ```text
//!   commit ─▶ queue ─▶ a writer thread ─▶ journal (redb, fsync) ─▶ state ─▶ get, list, watch
//!                                                               └▶ answer
//! ```
//!
//! - All objects are in memory; the file is read once, when the store opens.
//! - Every operation has a revision of its own. Those of one transaction are consecutive, and become visible
//!   together; a list of the past may still show a state between two of them.
//! - Nobody sees a write before it is on the disk, so nothing that was seen is undone by a crash.
//! - Waiting transactions share one journal transaction. There is no timer: a batch is what queued up while
//!   the one before it was written.
//! - Writer threads are shared by all stores of the process, so a thousand idle ones cost none.
//! - A store in memory has no thread and never blocks: `commit` is done when it first returns.
//! - The store knows neither HTTP nor the kinds of objects; a body is opaque to it.

mod batch;
mod entry;
mod error;
mod journal;
mod list;
mod objects;
mod pool;
mod record;
mod state;
mod watch;
mod writer;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{RwLock, RwLockWriteGuard};

use self::batch::Batch;
use self::journal::{FIRST_REVISION, Journal, Recovered};
use self::state::State;
use self::writer::Writer;
use crate::context::Context;

pub use self::entry::{Entry, Event, EventKind, Expect, Key, Labels, Op};
pub use self::error::{Cause, Closed, CommitError, OpenError, ReadError, WatchError};
pub use self::list::{Item, ListAt, ListQuery, Snapshot};
pub use self::watch::Watch;

/// How much a store keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Events kept of each resource.
    pub events_per_resource: usize,
    /// Memory that the events of all resources may take, roughly.
    pub history_bytes: usize,
    /// Transactions that may wait for the disk before `commit` waits for room.
    pub queue: usize,
}

/// A transaction that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The revision of each operation, in their order.
    pub revisions: Vec<u64>,
}

/// Figures of a store at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    pub revision: u64,
    pub objects: usize,
    /// The size of the file; 0 in memory.
    pub journal_bytes: u64,
    /// Journal transactions since the start; in memory, transactions.
    pub batches: u64,
    /// Operations since the start.
    pub ops: u64,
    /// Events kept, and roughly the memory they take.
    pub events: usize,
    pub history_bytes: usize,
}

/// A handle on a store; clones share it. Dropping the last one closes it, in the background.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    /// None in memory.
    writer: Option<Writer>,
}

struct Shared {
    state: RwLock<State>,
    published: tokio::sync::watch::Sender<Published>,
    batches: AtomicU64,
    ops: AtomicU64,
    /// Why no more is written.
    failure: RwLock<Option<Cause>>,
    id: String,
    /// None in memory.
    path: Option<PathBuf>,
}

/// Whether a store still takes writes.
#[derive(Debug, Clone)]
pub enum Health {
    Good,
    /// Its file could not be written.
    Failed(Cause),
    Closed,
}

struct Published {
    revision: u64,
    closed: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { events_per_resource: 4096, history_bytes: 64 << 20, queue: 1024 }
    }
}

impl Store {
    /// A store that is gone when its last handle is.
    pub fn in_memory(options: Options, context: &Context) -> Store {
        let shared = Shared::new(State::new(FIRST_REVISION, options), context.uid(), None);
        Store { inner: Arc::new(Inner { shared: Arc::new(shared), writer: None }) }
    }

    /// Opens the store in a folder, or begins one. It blocks while it reads the file.
    pub fn open(dir: &Path, options: Options, context: &Context) -> Result<Store, OpenError> {
        let recovered = Journal::open(dir, options, context)?;
        Ok(Store::start(recovered, options))
    }

    fn start(recovered: Recovered, options: Options) -> Store {
        let Recovered { journal, state, id, path } = recovered;
        let shared = Arc::new(Shared::new(state, id, Some(path)));
        let writer = Writer::start(shared.clone(), journal, options.queue);
        Store { inner: Arc::new(Inner { shared, writer: Some(writer) }) }
    }

    /// Does all operations, or none of them. An operation sees those before it in the same transaction.
    ///
    /// Once this is polled the transaction may happen, even if the future is dropped before it is done.
    pub async fn commit(&self, ops: Vec<Op>) -> Result<Committed, CommitError> {
        match &self.inner.writer {
            Some(writer) => writer.commit(ops).await,
            None => self.inner.shared.commit_now(ops),
        }
    }

    /// The current version of an object.
    pub fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        self.inner.shared.state.read().get(key).cloned()
    }

    /// The latest published revision.
    pub fn revision(&self) -> u64 {
        self.inner.shared.state.read().revision
    }

    /// Made when the store began, and kept: another id means other objects and other revisions.
    pub fn id(&self) -> &str {
        &self.inner.shared.id
    }

    /// The objects of a resource.
    pub fn list(&self, query: &ListQuery) -> Result<Snapshot, ReadError> {
        list::list(&self.inner.shared, query)
    }

    /// The objects of a resource that pass a filter; a limit counts those alone.
    pub fn list_filtered(
        &self,
        query: &ListQuery,
        keep: &mut dyn FnMut(&Item) -> bool,
    ) -> Result<Snapshot, ReadError> {
        list::list_filtered(&self.inner.shared, query, keep)
    }

    /// Watches a resource for all that comes after revision `from`. The resource need not have objects, but
    /// its name is remembered, so it should be one that is served.
    pub fn watch(&self, resource: &str, from: u64) -> Result<Watch, ReadError> {
        Watch::new(&self.inner.shared, resource, from)
    }

    /// Waits until a revision is published.
    pub async fn wait_for(&self, revision: u64) -> Result<(), Closed> {
        let mut published = self.inner.shared.published.subscribe();
        let reached = published.wait_for(|at| at.revision >= revision || at.closed).await;
        if reached.is_ok_and(|at| at.revision >= revision) { Ok(()) } else { Err(Closed) }
    }

    /// Figures for metrics.
    pub fn stats(&self) -> Stats {
        let shared = &self.inner.shared;
        let journal_bytes =
            shared.path.as_ref().and_then(|path| Some(std::fs::metadata(path).ok()?.len())).unwrap_or(0);
        let state = shared.state.read();
        Stats {
            revision: state.revision,
            objects: state.objects,
            journal_bytes,
            batches: shared.batches.load(Ordering::Relaxed),
            ops: shared.ops.load(Ordering::Relaxed),
            events: state.events,
            history_bytes: state.history_bytes,
        }
    }

    /// Whether writes are taken, for who asks how the server is.
    pub fn health(&self) -> Health {
        let shared = &self.inner.shared;
        if let Some(cause) = shared.failure.read().clone() {
            return Health::Failed(cause);
        }
        if shared.state.read().closed { Health::Closed } else { Health::Good }
    }

    /// Answers what is queued, ends watches and closes the file. Afterwards commits are refused, and the
    /// folder can be opened again. Reads still show the last state.
    pub async fn close(&self) {
        match &self.inner.writer {
            Some(writer) => writer.close().await,
            None => self.inner.shared.close(),
        }
    }
}

impl Shared {
    fn new(state: State, id: String, path: Option<PathBuf>) -> Self {
        let published = Published { revision: state.revision, closed: false };
        Shared {
            state: RwLock::new(state),
            published: tokio::sync::watch::Sender::new(published),
            batches: AtomicU64::new(0),
            ops: AtomicU64::new(0),
            failure: RwLock::new(None),
            id,
            path,
        }
    }

    fn commit_now(&self, ops: Vec<Op>) -> Result<Committed, CommitError> {
        let state = self.state.write();
        if state.closed {
            return Err(CommitError::Closed);
        }
        let mut batch = Batch::after(state.revision);
        let committed = batch.add(&state, ops)?;
        self.publish(state, batch);
        Ok(committed)
    }

    /// Shows a durable batch to everyone.
    fn publish(&self, mut state: RwLockWriteGuard<'_, State>, batch: Batch) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.ops.fetch_add(batch.changes().len() as u64, Ordering::Relaxed);
        let touched = state.apply(batch.into_changes());
        let revision = state.revision;
        // Waking many takes a while, and the first thing they want is the lock.
        drop(state);
        for changed in touched {
            changed.send_replace(());
        }
        self.published.send_modify(|published| published.revision = published.revision.max(revision));
    }

    fn close(&self) {
        let mut state = self.state.write();
        state.closed = true;
        let everyone = state.everyone();
        drop(state);
        for changed in everyone {
            changed.send_replace(());
        }
        self.published.send_modify(|published| published.closed = true);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A writer closes the store itself, once it has written what is queued.
        if self.writer.is_none() {
            self.shared.close();
        }
    }
}
