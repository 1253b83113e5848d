//! How often in a row the same was tried on one object, and when to try again: what is refused, fails, or is
//! undone by others comes back ever more slowly. Plain values; times are counted from a start that the caller
//! chooses.

use std::time::Duration;

/// Exponential backoff: each pause is twice the one before, up to a longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    pub first: Duration,
    pub longest: Duration,
}

impl Backoff {
    pub const fn new(first: Duration, longest: Duration) -> Backoff {
        Backoff { first, longest }
    }

    /// The pause after this many earlier pauses.
    pub fn pause(&self, earlier: u32) -> Duration {
        self.first.saturating_mul(2u32.saturating_pow(earlier)).min(self.longest)
    }
}

/// Attempts at the same thing in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempts {
    pub count: u32,
    /// When the last one was.
    pub last: Duration,
}

impl Attempts {
    /// One more, now. Those before it count on if they were at the same thing, and are not forgotten after a `quiet` time.
    pub fn after(same: Option<Attempts>, now: Duration, quiet: Duration) -> Attempts {
        let before = same.filter(|before| !before.is_forgotten(now, quiet));
        Attempts { count: before.map_or(0, |before| before.count).saturating_add(1), last: now }
    }

    /// Whether the last one was longer ago than `quiet`: then it says nothing any more.
    pub fn is_forgotten(&self, now: Duration, quiet: Duration) -> bool {
        now.saturating_sub(self.last) > quiet
    }

    /// When the next one is due. The first `free` are followed at once: an accident is put right without delay.
    pub fn due(&self, free: u32, backoff: Backoff) -> Duration {
        self.last + self.pause(free, backoff)
    }

    /// The pause after the last one.
    pub fn pause(&self, free: u32, backoff: Backoff) -> Duration {
        self.count.checked_sub(free + 1).map_or(Duration::ZERO, |earlier| backoff.pause(earlier))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn what_is_tried_again_and_again_waits_ever_longer_up_to_a_bound() {
        let backoff = Backoff::new(at(2), at(20));
        let mut attempts = None;
        let mut pauses = Vec::new();
        for second in 0..7 {
            let next = Attempts::after(attempts, at(second), at(600));
            pauses.push((next.due(2, backoff) - next.last).as_secs());
            attempts = Some(next);
        }
        assert_eq!(pauses, [0, 0, 2, 4, 8, 16, 20]);
        assert_eq!(backoff.pause(u32::MAX), at(20));
    }

    #[test]
    fn after_a_quiet_time_it_begins_anew() {
        let first = Attempts::after(None, at(100), at(600));
        let second = Attempts::after(Some(first), at(700), at(600));
        assert_eq!(second.count, 2);
        assert_eq!(Attempts::after(Some(second), at(1301), at(600)).count, 1);
    }
}
