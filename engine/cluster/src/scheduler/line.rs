//! Who is placed next: pods in the order of their priority, and those that wait for room.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use koinon_control::Key;
use tokio::time::Instant;

use super::ledger::Gain;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The pods that have no place yet.
#[derive(Default)]
pub(super) struct Line {
    next: BTreeSet<(Reverse<i32>, u64, Key)>,
    pods: BTreeMap<Key, Standing>,
    arrivals: u64,
    later: BTreeSet<(Instant, Key)>,
    waiting: BTreeSet<(Gain, Key)>,
    busy: BTreeSet<Key>,
}

#[derive(Clone, Copy)]
struct Standing {
    priority: i32,
    arrival: u64,
    /// How often in a row something failed.
    attempts: u32,
    state: State,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    InLine,
    /// Somebody is placing it; `true` once it should be looked at again afterwards.
    Busy(bool),
    /// It fitted nowhere: it waits for at least so much.
    WaitsFor(Gain),
    /// Something failed: not before this time.
    Later(Instant),
}

impl Line {
    /// Puts a pod in line, if it is not there yet.
    pub(super) fn add(&mut self, key: Key, priority: i32) {
        let arrivals = &mut self.arrivals;
        let standing = self.pods.entry(key.clone()).or_insert_with(|| {
            *arrivals += 1;
            Standing { priority, arrival: *arrivals, attempts: 0, state: State::WaitsFor(Gain::Room) }
        });
        match standing.state {
            State::Busy(_) => standing.state = State::Busy(true),
            State::InLine => {}
            State::WaitsFor(_) | State::Later(_) => self.wake(&key),
        }
    }

    /// Takes a pod out of the line: it has a place, or is gone.
    pub(super) fn remove(&mut self, key: &Key) {
        self.step_out(key);
        self.pods.remove(key);
    }

    /// Takes a pod out of wherever its state has put it.
    fn step_out(&mut self, key: &Key) {
        let Some(standing) = self.pods.get(key) else { return };
        match standing.state {
            State::InLine => {
                self.next.remove(&(Reverse(standing.priority), standing.arrival, key.clone()));
            }
            State::Busy(_) => {
                self.busy.remove(key);
            }
            State::WaitsFor(needs) => {
                self.waiting.remove(&(needs, key.clone()));
            }
            State::Later(time) => {
                self.later.remove(&(time, key.clone()));
            }
        }
    }

    /// The next pod to place.
    pub(super) fn take(&mut self, now: Instant) -> Option<Key> {
        while let Some((time, key)) = self.later.first().cloned()
            && time <= now
        {
            self.wake(&key);
        }
        let (_, _, key) = self.next.pop_first()?;
        if let Some(standing) = self.pods.get_mut(&key) {
            standing.state = State::Busy(false);
            self.busy.insert(key.clone());
        }
        Some(key)
    }

    /// When a pod that failed is to be tried again.
    pub(super) fn next_time(&self) -> Option<Instant> {
        self.later.first().map(|(time, _)| *time)
    }

    /// A pod that was taken fitted nowhere; it comes back after a gain of this kind.
    pub(super) fn wait(&mut self, key: &Key, needs: Gain) {
        if let Some(standing) = self.pods.get_mut(key) {
            standing.attempts = 0;
        }
        self.put_back(key, State::WaitsFor(needs));
    }

    /// Something failed for a pod that was taken: it comes back after a pause, longer each time.
    pub(super) fn try_again(&mut self, key: &Key, now: Instant) {
        let Some(standing) = self.pods.get_mut(key) else { return };
        let pause = FIRST_PAUSE.saturating_mul(2u32.saturating_pow(standing.attempts)).min(LONGEST_PAUSE);
        standing.attempts = standing.attempts.saturating_add(1);
        self.put_back(key, State::Later(now + pause));
    }

    fn put_back(&mut self, key: &Key, state: State) {
        self.step_out(key);
        let Some(standing) = self.pods.get_mut(key) else { return };
        let again = standing.state == State::Busy(true);
        standing.state = state;
        match state {
            State::Later(time) => {
                self.later.insert((time, key.clone()));
            }
            State::WaitsFor(needs) => {
                self.waiting.insert((needs, key.clone()));
            }
            State::InLine | State::Busy(_) => {}
        }
        if again {
            self.wake(key);
        }
    }

    /// Something changed that may help those who wait. Pods that are being placed look again as well: they may
    /// have decided before it.
    pub(super) fn gained(&mut self, gain: Gain) {
        while let Some((needs, key)) = self.waiting.first().cloned()
            && needs <= gain
        {
            self.wake(&key);
        }
        if gain == Gain::Room {
            for key in &self.busy {
                if let Some(standing) = self.pods.get_mut(key) {
                    standing.state = State::Busy(true);
                }
            }
        }
    }

    fn wake(&mut self, key: &Key) {
        self.step_out(key);
        let Some(standing) = self.pods.get_mut(key) else { return };
        standing.state = State::InLine;
        self.next.insert((Reverse(standing.priority), standing.arrival, key.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("default", name)
    }

    fn names(line: &mut Line) -> Vec<String> {
        std::iter::from_fn(|| line.take(Instant::now())).map(|key| key.name).collect()
    }

    #[test]
    fn higher_priority_first_and_then_who_came_first() {
        let mut line = Line::default();
        for (name, priority) in [("b", 0), ("a", 0), ("high", 10), ("low", -1)] {
            line.add(key(name), priority);
        }
        line.add(key("b"), 0);
        assert_eq!(names(&mut line), ["high", "b", "a", "low"]);
    }

    #[test]
    fn who_waits_comes_back_only_for_what_can_help() {
        let mut line = Line::default();
        for name in ["room", "company"] {
            line.add(key(name), 0);
        }
        assert_eq!(names(&mut line).len(), 2);
        line.wait(&key("room"), Gain::Room);
        line.wait(&key("company"), Gain::Neighbours);
        line.gained(Gain::Nothing);
        assert_eq!(names(&mut line), [""; 0]);
        line.gained(Gain::Neighbours);
        assert_eq!(names(&mut line), ["company"]);
        line.wait(&key("company"), Gain::Neighbours);
        line.gained(Gain::Room);
        assert_eq!(names(&mut line), ["room", "company"]);
    }

    #[test]
    fn room_that_appears_while_a_pod_is_decided_on_is_not_missed() {
        let mut line = Line::default();
        line.add(key("a"), 0);
        assert_eq!(names(&mut line), ["a"]);
        line.gained(Gain::Room);
        line.wait(&key("a"), Gain::Room);
        assert_eq!(names(&mut line), ["a"]);
        line.wait(&key("a"), Gain::Room);
        assert_eq!(names(&mut line), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_comes_back_after_its_time_and_a_removed_pod_never() {
        let mut line = Line::default();
        line.add(key("a"), 0);
        line.add(key("b"), 0);
        assert_eq!(names(&mut line).len(), 2);
        let now = Instant::now();
        line.try_again(&key("a"), now);
        line.try_again(&key("b"), now);
        let soon = now + FIRST_PAUSE;
        line.remove(&key("b"));
        assert_eq!((names(&mut line), line.next_time()), (Vec::new(), Some(soon)));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(names(&mut line), ["a"]);
        assert_eq!(line.next_time(), None);
    }
}
