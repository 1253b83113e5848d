//! A queue of keys: each is worked on by one worker at a time, comes back after a failure, and is never
//! waiting twice.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::attempts::Backoff;

/// What becomes of a key after it was worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing is left to do until something changes.
    Done,
    /// It failed: try again, later each time.
    Retry,
    /// Nothing failed, but it is not done: look again after this time.
    After(Duration),
}

/// Keys that wait to be worked on.
pub struct Queue<K> {
    state: Mutex<State<K>>,
    changed: Notify,
    backoff: Backoff,
}

struct State<K> {
    ready: VecDeque<K>,
    /// Keys in `ready`, and keys that a worker has.
    busy: BTreeMap<K, Busy>,
    later: BTreeMap<K, Instant>,
    by_time: BTreeSet<(Instant, K)>,
    /// How often in a row each was worked on without being done.
    attempts: BTreeMap<K, u32>,
}

#[derive(PartialEq)]
enum Busy {
    Ready,
    Running,
    /// Something changed while a worker had it: it goes round once more.
    RunningAgain,
}

impl<K: Ord + Clone> Queue<K> {
    /// A queue whose retries start after `first_pause` and double up to `longest_pause`.
    pub fn new(first_pause: Duration, longest_pause: Duration) -> Self {
        let state = State {
            ready: VecDeque::new(),
            busy: BTreeMap::new(),
            later: BTreeMap::new(),
            by_time: BTreeSet::new(),
            attempts: BTreeMap::new(),
        };
        Queue {
            state: Mutex::new(state),
            changed: Notify::new(),
            backoff: Backoff::new(first_pause, longest_pause),
        }
    }

    /// Has the key worked on as soon as a worker is free.
    pub fn add(&self, key: K) {
        self.state.lock().add(key);
        self.changed.notify_one();
    }

    /// Has the key worked on after a while; an earlier time that was set before stays.
    pub fn add_after(&self, key: K, pause: Duration) {
        if pause.is_zero() {
            return self.add(key);
        }
        self.state.lock().add_at(key, Instant::now() + pause);
        self.changed.notify_one();
    }

    /// Has the key worked on after the pause of a failure, longer each time.
    pub fn add_after_failure(&self, key: K) {
        let attempts = self.state.lock().attempted(&key);
        let pause = self.backoff.pause(attempts);
        self.add_after(key, pause);
    }

    /// Brings back everything that waits: what it waited for may be there now.
    pub fn retry_now(&self) {
        let mut state = self.state.lock();
        for (key, _) in std::mem::take(&mut state.later) {
            state.add(key);
        }
        state.by_time.clear();
        drop(state);
        self.changed.notify_one();
    }

    /// How often in a row this key was worked on without being done.
    pub fn attempts(&self, key: &K) -> u32 {
        self.state.lock().attempts.get(key).copied().unwrap_or(0)
    }

    /// How many keys wait, those that wait for their time included.
    pub fn waiting(&self) -> usize {
        let state = self.state.lock();
        state.ready.len() + state.later.len()
    }

    async fn next(&self) -> K {
        loop {
            let due = {
                let mut state = self.state.lock();
                if let Some(key) = state.take(Instant::now()) {
                    return key;
                }
                state.by_time.first().map(|(due, _)| *due)
            };
            match due {
                Some(due) => tokio::select! {
                    biased;
                    () = self.changed.notified() => {}
                    () = tokio::time::sleep_until(due) => {}
                },
                None => self.changed.notified().await,
            }
        }
    }

    fn finish(&self, key: K, next: Next) {
        {
            let mut state = self.state.lock();
            if state.busy.remove(&key) == Some(Busy::RunningAgain) {
                state.add(key.clone());
            }
            match next {
                Next::Done => drop(state.attempts.remove(&key)),
                Next::After(_) => drop(state.attempted(&key)),
                Next::Retry => {}
            }
        }
        match next {
            Next::Done => {}
            Next::Retry => self.add_after_failure(key),
            Next::After(pause) => self.add_after(key, pause),
        }
    }
}

/// Works on the keys of a queue, at most `limit` at a time, for as long as it is polled.
pub async fn work<K, F>(queue: &Queue<K>, limit: usize, handle: impl Fn(K) -> F) -> Infallible
where
    K: Ord + Clone,
    F: Future<Output = Next>,
{
    let mut running = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            Some((key, next)) = running.next(), if !running.is_empty() => queue.finish(key, next),
            key = queue.next(), if running.len() < limit => {
                let result = handle(key.clone());
                running.push(async move { (key, result.await) });
            }
        }
        // Work that waits for nobody ends at once. Without a pause here all that is ready would be done in one go, and whoever
        // else has to run on this thread, to renew a lease for one, would come too late.
        tokio::task::yield_now().await;
    }
}

impl<K: Ord + Clone> State<K> {
    fn add(&mut self, key: K) {
        if let Some(due) = self.later.remove(&key) {
            self.by_time.remove(&(due, key.clone()));
        }
        match self.busy.get_mut(&key) {
            Some(Busy::Ready) => {}
            Some(running) => *running = Busy::RunningAgain,
            None => {
                self.busy.insert(key.clone(), Busy::Ready);
                self.ready.push_back(key);
            }
        }
    }

    /// Counts an attempt; gives back how many there were before.
    fn attempted(&mut self, key: &K) -> u32 {
        let attempts = self.attempts.entry(key.clone()).or_insert(0);
        *attempts = attempts.saturating_add(1);
        *attempts - 1
    }

    fn add_at(&mut self, key: K, due: Instant) {
        if self.busy.get(&key) == Some(&Busy::Ready) {
            return;
        }
        match self.later.get(&key).copied() {
            Some(earlier) if earlier <= due => {}
            before => {
                if let Some(before) = before {
                    self.by_time.remove(&(before, key.clone()));
                }
                self.later.insert(key.clone(), due);
                self.by_time.insert((due, key));
            }
        }
    }

    fn take(&mut self, now: Instant) -> Option<K> {
        while self.by_time.first().is_some_and(|(due, _)| *due <= now) {
            let Some((_, key)) = self.by_time.pop_first() else { break };
            self.later.remove(&key);
            self.add(key);
        }
        let key = self.ready.pop_front()?;
        self.busy.insert(key.clone(), Busy::Running);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    fn queue() -> Queue<&'static str> {
        Queue::new(Duration::from_millis(100), Duration::from_secs(1))
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_once_and_failures_come_back_ever_later() {
        let queue = queue();
        let start = Instant::now();
        let seen = RefCell::new(Vec::new());
        queue.add("a");
        queue.add("a");
        let handle = |key| {
            seen.borrow_mut().push((key, start.elapsed().as_millis()));
            async { Next::Retry }
        };
        let _ = tokio::time::timeout(Duration::from_millis(3600), work(&queue, 2, handle)).await;
        let times: Vec<_> = seen.borrow().iter().map(|(_, at)| *at).collect();
        assert_eq!(times, [0, 100, 300, 700, 1500, 2500, 3500]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_during_the_work_has_it_done_again_and_never_twice_at_once() {
        let queue = queue();
        let (runs, at_once) = (Cell::new(0), Cell::new(0));
        queue.add("a");
        let handle = |key| {
            let (queue, runs, at_once) = (&queue, &runs, &at_once);
            async move {
                at_once.set(at_once.get() + 1);
                assert_eq!(at_once.get(), 1);
                runs.set(runs.get() + 1);
                if runs.get() == 1 {
                    queue.add(key);
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
                at_once.set(at_once.get() - 1);
                Next::Done
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(60), work(&queue, 4, handle)).await;
        assert_eq!(runs.get(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_waits_for_nobody_leaves_others_their_turn() {
        let queue = Queue::new(Duration::from_millis(100), Duration::from_secs(1));
        (0..1000).for_each(|key| queue.add(key));
        let done = Cell::new(0);
        let handle = |_| {
            done.set(done.get() + 1);
            async { Next::Done }
        };
        tokio::select! {
            biased;
            _ = work(&queue, 4, handle) => {}
            () = tokio::task::yield_now() => {}
        }
        assert!((1..10).contains(&done.get()), "{} before anybody else could do anything", done.get());
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_time_holds_and_hurrying_brings_all_back() {
        let queue = queue();
        let start = Instant::now();
        queue.add_after("a", Duration::from_secs(50));
        queue.add_after("a", Duration::from_secs(9));
        queue.add_after("a", Duration::from_secs(70));
        assert_eq!(queue.next().await, "a");
        assert_eq!(start.elapsed().as_secs(), 9);
        assert_eq!(queue.waiting(), 0);
        queue.finish("a", Next::After(Duration::from_secs(1000)));
        assert_eq!(queue.waiting(), 1);
        queue.retry_now();
        assert_eq!(queue.next().await, "a");
        assert_eq!(start.elapsed().as_secs(), 9);
    }
}
