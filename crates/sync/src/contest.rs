//! What we wrote before: so that a server that shapes what it is given is not asked twice, and somebody else who
//! keeps writing the same thing is not fought at full speed.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use koinon_control::Key;
use parking_lot::Mutex;
use tokio::time::Instant;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// What was not disputed for this long is forgotten.
const PEACE: Duration = Duration::from_secs(600);
/// So many times in a row are no accident.
const NOTABLE: u32 = 4;

/// What was written, by a print of its key: there is an entry for each object of a first sync.
#[derive(Default)]
pub(crate) struct Contest {
    written: Mutex<HashMap<u64, Written>>,
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
    at: Instant,
    again: u32,
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

impl Contest {
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
            Some(last) => match (last.at + last.pause()).checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => Verdict::Wait(left),
                _ => Verdict::Write,
            },
            None => Verdict::Write,
        }
    }

    /// Remembers a write. Gives back how often in a row it was undone, if that is worth telling.
    pub(crate) fn note(&self, key: &Key, from: u64, result: u64, shaped: bool) -> Option<u32> {
        let mut written = self.written.lock();
        let again = match written.get(&print(key)) {
            Some(last) if last.from == from && !last.is_peaceful() => last.again.saturating_add(1),
            _ => 0,
        };
        written.insert(print(key), Written { from, result, at: Instant::now(), again, shaped });
        (again >= NOTABLE && again.is_power_of_two()).then_some(again)
    }

    /// Forgets what nobody disputed for a while.
    pub(crate) fn tidy(&self) {
        let mut written = self.written.lock();
        written.retain(|_, last| last.shaped || !last.is_peaceful());
        written.shrink_to_fit();
    }
}

impl Written {
    fn pause(&self) -> Duration {
        match self.again {
            // Once is an accident, which is put right at once.
            0 => Duration::ZERO,
            again => FIRST_PAUSE.saturating_mul(2u32.saturating_pow(again)).min(LONGEST_PAUSE),
        }
    }

    fn is_peaceful(&self) -> bool {
        self.at.elapsed() >= PEACE + self.pause()
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
        let contest = Contest::default();
        assert_eq!(contest.judge(&key(), 1, 0), Verdict::Write);
        contest.note(&key(), 1, 10, true);
        assert_eq!(contest.judge(&key(), 1, 10), Verdict::Settled);
        assert!(contest.is_settled(&key(), 1, 10));
        assert_eq!(contest.judge(&key(), 2, 10), Verdict::Write, "the source changed");
        assert!(!contest.is_settled(&key(), 1, 11));
        assert_eq!(contest.judge(&key(), 1, 11), Verdict::Write, "somebody changed the result");
    }

    #[tokio::test(start_paused = true)]
    async fn who_undoes_it_again_and_again_is_fought_ever_more_slowly() {
        let contest = Contest::default();
        let mut waits = Vec::new();
        for _ in 0..6 {
            while let Verdict::Wait(left) = contest.judge(&key(), 1, 5) {
                waits.push(left.as_secs());
                tokio::time::sleep(left).await;
            }
            contest.note(&key(), 1, 10, false);
        }
        assert_eq!(waits, [2, 4, 8, 16]);
        assert_eq!(contest.judge(&key(), 2, 5), Verdict::Write, "a new source is no dispute");
    }

    #[tokio::test(start_paused = true)]
    async fn peace_is_forgotten() {
        let contest = Contest::default();
        contest.note(&key(), 1, 10, false);
        contest.note(&key(), 1, 10, false);
        tokio::time::sleep(PEACE + Duration::from_secs(10)).await;
        contest.tidy();
        assert_eq!(contest.judge(&key(), 1, 5), Verdict::Write);
        assert_eq!(contest.note(&key(), 1, 10, false), None);
    }
}
