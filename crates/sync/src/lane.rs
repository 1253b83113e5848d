//! One direction of one CRD: the keys that wait, since when, and which of them fail.

use std::collections::BTreeMap;
use std::time::Duration;

use koinon_control::Key;
use koinon_control::queue::{Next, Queue};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::drift::DriftBackoff;
use crate::side::Name;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Where writes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Direction {
    /// Spec, labels, annotations and deletions.
    Down,
    /// Status.
    Up,
}

impl Direction {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Direction::Down => "down",
            Direction::Up => "up",
        }
    }
}

/// Work in one direction. One that is stuck does not hold up the other.
pub(crate) struct Lane {
    pub(crate) direction: Direction,
    pub(crate) queue: Queue<Name>,
    pub(crate) drift: DriftBackoff,
    waiting: Mutex<BTreeMap<Name, Instant>>,
    failing: Mutex<BTreeMap<Name, String>>,
}

impl Lane {
    pub(crate) fn new(direction: Direction) -> Lane {
        Lane {
            direction,
            queue: Queue::new(FIRST_PAUSE, LONGEST_PAUSE),
            drift: DriftBackoff::default(),
            waiting: Mutex::default(),
            failing: Mutex::default(),
        }
    }

    pub(crate) fn add(&self, key: Name) {
        self.waiting.lock().entry(key.clone()).or_insert_with(Instant::now);
        self.queue.add(key);
    }

    /// How long this key has been waiting.
    pub(crate) fn waited(&self, key: &Key) -> Duration {
        self.waiting.lock().get(key).map(Instant::elapsed).unwrap_or_default()
    }

    pub(crate) fn done(&self, key: &Key) -> Next {
        self.waiting.lock().remove(key);
        self.failing.lock().remove(key);
        Next::Done
    }

    pub(crate) fn failed(&self, key: &Name, why: String) {
        self.failing.lock().insert(key.clone(), why);
    }

    /// Whether everything that can be done is done.
    pub(crate) fn is_idle(&self) -> bool {
        let failing = self.failing.lock();
        self.waiting.lock().keys().all(|key| failing.contains_key(key))
    }

    pub(crate) fn backlog(&self) -> Backlog {
        let failing = self.failing.lock().len();
        let waiting = self.waiting.lock();
        let oldest = waiting.values().min().map(Instant::elapsed).unwrap_or_default();
        Backlog { direction: self.direction, pending: waiting.len(), oldest, failing }
    }
}

/// What is left to do in one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backlog {
    pub(crate) direction: Direction,
    pub(crate) pending: usize,
    /// How long the first of them has waited.
    pub(crate) oldest: Duration,
    /// How many of them failed.
    pub(crate) failing: usize,
}
