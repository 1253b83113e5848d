//! The work queue of one led member: keys to reconcile, and since when each waits.

use std::collections::BTreeMap;
use std::time::Duration;

use koinon_control::Key;
use koinon_control::queue::Queue;
use koinon_fleet::ClusterId;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::services::model::Source;

const FIRST_BACKOFF: Duration = Duration::from_millis(200);
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

/// One unit of work: what to reconcile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Job {
    /// A federated Service.
    Federated(Key),
    /// A Service of virtual machines.
    Machines(Key),
    /// An import.
    Import(Key),
    /// The import behind which a Service stands.
    Derived(Key),
    /// All imports.
    Imports,
    /// A member of this cluster, which may have to be told something.
    Member(Source),
    /// Everything there is.
    All,
}

/// What waits to be reconciled in one led member. Keys coalesce; a failure is requeued with backoff.
pub(super) struct Inbox {
    pub(super) cluster: ClusterId,
    pub(super) queue: Queue<Job>,
    /// When the change came that a federated Service waits with, for the metric of propagation.
    since: Mutex<BTreeMap<Key, Instant>>,
}

impl Inbox {
    pub(super) fn new(cluster: ClusterId) -> Inbox {
        Inbox { cluster, queue: Queue::new(FIRST_BACKOFF, LONGEST_BACKOFF), since: Mutex::default() }
    }

    pub(super) fn add(&self, job: Job) {
        if let Job::Federated(key) = &job {
            self.since.lock().entry(key.clone()).or_insert_with(Instant::now);
        }
        self.queue.add(job);
    }

    /// Since when a federated Service waits; from now on it does not.
    pub(super) fn take_since(&self, key: &Key) -> Option<Instant> {
        self.since.lock().remove(key)
    }

    /// It waits on, since when it did.
    pub(super) fn put_since(&self, key: &Key, since: Option<Instant>) {
        if let Some(since) = since {
            self.since.lock().entry(key.clone()).or_insert(since);
        }
    }
}
