//! Backoff against repeated drift: a server that shapes what it is given is not asked twice, and somebody else who
//! keeps undoing what we wrote is answered ever more slowly.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use koinon_control::Key;
use koinon_control::attempts::{Attempts, Backoff};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Once is an accident, which is put right at once.
const AT_ONCE: u32 = 1;
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(3600));
/// What did not drift for this long, and for the pause before that, is forgotten.
const QUIET_PERIOD: Duration = Duration::from_secs(600);
/// So many times in a row are no accident.
const NOTABLE: u32 = 4;

/// What was written, by a print of its key: there is an entry for each object of a first sync.
pub(crate) struct DriftBackoff {
    written: Mutex<HashMap<u64, Written>>,
    start: Instant,
}

impl Default for DriftBackoff {
    fn default() -> Self {
        DriftBackoff { written: Mutex::default(), start: Instant::now() }
    }
}

fn print(key: &Key) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

struct Written {
    /// What it was made from, and what came of it.
    from: u64,
    result: u64,
    attempts: Attempts,
    /// The result was not what we wrote, and writing it again would not change that.
    shaped: bool,
}

/// Whether to write.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Write,
    /// Nothing: this is what the server makes of it.
    Settled,
    /// Somebody undid it; not before this time.
    Wait(Duration),
}

impl DriftBackoff {
    /// Whether what is there now is what the server made of the same source before.
    pub(crate) fn is_settled(&self, key: &Key, from: u64, now: u64) -> bool {
        let written = self.written.lock();
        written.get(&print(key)).is_some_and(|last| last.shaped && last.from == from && last.result == now)
    }

    /// What is there now (0 for nothing) should change: may it?
    pub(crate) fn judge(&self, key: &Key, from: u64, now: u64) -> Verdict {
        let written = self.written.lock();
        match written.get(&print(key)) {
            Some(last) if last.from != from => Verdict::Write,
            Some(last) if last.shaped && last.result == now => Verdict::Settled,
            Some(last) => match last.attempts.due(AT_ONCE, BACKOFF).saturating_sub(self.start.elapsed()) {
                left if !left.is_zero() => Verdict::Wait(left),
                _ => Verdict::Write,
            },
            None => Verdict::Write,
        }
    }

    /// Remembers a write. Gives back how often in a row it was undone, if that is worth telling.
    pub(crate) fn note(&self, key: &Key, from: u64, result: u64, shaped: bool) -> Option<u32> {
        let mut written = self.written.lock();
        let now = self.start.elapsed();
        let before = written.get(&print(key)).filter(|last| last.from == from && !last.is_quiet(now));
        let attempts = Attempts::after(before.map(|last| last.attempts), now, Duration::MAX);
        written.insert(print(key), Written { from, result, attempts, shaped });
        let again = attempts.count - 1;
        (again >= NOTABLE && again.is_power_of_two()).then_some(again)
    }

    /// Forgets what did not drift for a while.
    pub(crate) fn tidy(&self) {
        let (mut written, now) = (self.written.lock(), self.start.elapsed());
        written.retain(|_, last| last.shaped || !last.is_quiet(now));
        written.shrink_to_fit();
    }
}

impl Written {
    fn is_quiet(&self, now: Duration) -> bool {
        self.attempts.is_forgotten(now, QUIET_PERIOD + self.attempts.pause(AT_ONCE, BACKOFF))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key::new("", "a")
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_server_shapes_is_written_once() {
        let drift = DriftBackoff::default();
        assert_eq!(drift.judge(&key(), 1, 0), Verdict::Write);
        drift.note(&key(), 1, 10, true);
        assert_eq!(drift.judge(&key(), 1, 10), Verdict::Settled);
        assert!(drift.is_settled(&key(), 1, 10));
        assert_eq!(drift.judge(&key(), 2, 10), Verdict::Write, "the source changed");
        assert!(!drift.is_settled(&key(), 1, 11));
        assert_eq!(drift.judge(&key(), 1, 11), Verdict::Write, "somebody changed the result");
    }

    #[tokio::test(start_paused = true)]
    async fn repeated_drift_is_answered_ever_more_slowly() {
        let drift = DriftBackoff::default();
        let mut waits = Vec::new();
        for _ in 0..6 {
            while let Verdict::Wait(left) = drift.judge(&key(), 1, 5) {
                waits.push(left.as_secs());
                tokio::time::sleep(left).await;
            }
            drift.note(&key(), 1, 10, false);
        }
        assert_eq!(waits, [2, 4, 8, 16]);
        assert_eq!(drift.judge(&key(), 2, 5), Verdict::Write, "a new source is no dispute");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_quiet_is_forgotten() {
        let drift = DriftBackoff::default();
        drift.note(&key(), 1, 10, false);
        drift.note(&key(), 1, 10, false);
        tokio::time::sleep(QUIET_PERIOD + Duration::from_secs(10)).await;
        drift.tidy();
        assert_eq!(drift.judge(&key(), 1, 5), Verdict::Write);
        assert_eq!(drift.note(&key(), 1, 10, false), None);
    }
}
