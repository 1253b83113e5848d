//! The threads that write journals: a few for all stores of the process, and none while nobody writes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Enough to keep a disk busy with the syncs of many stores at once.
const MOST_THREADS: usize = 16;
/// How long a thread waits for more work before it ends.
const PATIENCE: Duration = Duration::from_secs(10);

/// Something that can be worked on for a while, and says whether there is more.
pub(super) trait Work: Send + Sync {
    /// Does a part of the work. It comes back here after everyone else's turn as long as there is more.
    fn turn(&self) -> More;
}

/// Whether work is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum More {
    Yes,
    No,
}

struct Pool {
    state: Mutex<State>,
    arrived: Condvar,
}

struct State {
    waiting: VecDeque<Arc<dyn Work>>,
    threads: usize,
    idle: usize,
}

static POOL: Pool = Pool {
    state: Mutex::new(State { waiting: VecDeque::new(), threads: 0, idle: 0 }),
    arrived: Condvar::new(),
};

/// Has work done, soon and on another thread. On a machine that has no thread left it is done here and now.
pub(super) fn submit(work: Arc<dyn Work>) {
    let mut state = POOL.state.lock();
    state.waiting.push_back(work);
    if state.idle >= state.waiting.len() {
        drop(state);
        POOL.arrived.notify_one();
        return;
    }
    if state.threads == MOST_THREADS {
        return;
    }
    state.threads += 1;
    drop(state);
    if std::thread::Builder::new().name("store-writer".to_owned()).spawn(run).is_err() {
        let mut state = POOL.state.lock();
        state.threads -= 1;
        let stranded = if state.threads == 0 { std::mem::take(&mut state.waiting) } else { VecDeque::new() };
        drop(state);
        for work in stranded {
            while work.turn() == More::Yes {}
        }
    }
}

fn run() {
    let mut state = POOL.state.lock();
    loop {
        let Some(work) = state.waiting.pop_front() else {
            state.idle += 1;
            let waited = POOL.arrived.wait_for(&mut state, PATIENCE);
            state.idle -= 1;
            if waited.timed_out() && state.waiting.is_empty() {
                state.threads -= 1;
                return;
            }
            continue;
        };
        drop(state);
        let more = work.turn();
        state = POOL.state.lock();
        match more {
            More::Yes => state.waiting.push_back(work),
            More::No => {}
        }
    }
}
