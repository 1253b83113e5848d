//! Threads for what requests compute.
//!
//! Parsing, validation, merging and CEL take processor time between two points at which a handler waits. On the
//! runtime's own threads a few such requests would hold up everything else: accepting connections, TLS, watches,
//! `/healthz`. So requests from sockets run on threads of their own, with a scheduler that tokio does not have: one
//! that is fair between users. Each time a handler is ready to go on, it queues up behind its user's other handlers,
//! users take turns, and no user has more than half of the threads. There are twice as many threads as processors:
//! one user alone can use all processors, and when another one comes the operating system divides them.
//!
//! Handlers still use the runtime's timers and IO. Nothing of this is used by requests that come without a socket:
//! simulations call the server within one thread, under virtual time.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use futures::future::BoxFuture;
use parking_lot::{Condvar, Mutex};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::queue::FairQueue;

/// Threads that run the handlers of requests. They end when this is dropped.
pub(crate) struct Workers(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    ready: Condvar,
}

struct State {
    queue: FairQueue<Arc<Task>>,
    is_closed: bool,
}

impl Workers {
    /// As many as fit this machine, with the timers and IO of the runtime that this is called in.
    pub(crate) fn start() -> std::io::Result<Workers> {
        let processors = thread::available_parallelism().map_or(2, usize::from);
        Self::with_threads((2 * processors).max(4))
    }

    pub(crate) fn with_threads(count: usize) -> std::io::Result<Workers> {
        let state = State { queue: FairQueue::new(count), is_closed: false };
        let workers = Workers(Arc::new(Shared { state: Mutex::new(state), ready: Condvar::new() }));
        for number in 0..count {
            let (shared, runtime) = (workers.0.clone(), Handle::current());
            thread::Builder::new().name(format!("request-{number}")).spawn(move || {
                let _entered = runtime.enter();
                shared.work();
            })?;
        }
        Ok(workers)
    }

    /// Runs a future in a user's name. It is cancelled when what this gives is dropped.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        user: Arc<str>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Running<T> {
        let (sender, answer) = oneshot::channel();
        let future = Box::pin(async move {
            let done = work.await;
            // The one who asked may be gone.
            drop(sender.send(done));
        });
        let slot = Slot { future: Some(future), phase: Phase::Queued, is_cancelled: false };
        let task = Arc::new(Task { user, shared: self.0.clone(), slot: Mutex::new(slot) });
        self.0.push(task.clone());
        Running { task, answer }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let left = {
            let mut state = self.0.state.lock();
            state.is_closed = true;
            state.queue.drain()
        };
        self.0.ready.notify_all();
        left.iter().for_each(|task| task.cancel());
    }
}

impl Shared {
    fn push(&self, task: Arc<Task>) {
        let mut state = self.state.lock();
        if state.is_closed {
            drop(state);
            task.cancel();
            return;
        }
        state.queue.push(&task.user.clone(), task);
        drop(state);
        self.ready.notify_one();
    }

    fn work(&self) {
        while let Some(task) = self.take() {
            let user = task.user.clone();
            task.poll();
            // If the user's next task waited for the place, this thread is the one that comes for it.
            self.state.lock().queue.done(&user);
        }
    }

    fn take(&self) -> Option<Arc<Task>> {
        let mut state = self.state.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some((_, task)) = state.queue.next() {
                return Some(task);
            }
            self.ready.wait(&mut state);
        }
    }
}

struct Task {
    user: Arc<str>,
    shared: Arc<Shared>,
    slot: Mutex<Slot>,
}

struct Slot {
    future: Option<BoxFuture<'static, ()>>,
    phase: Phase,
    is_cancelled: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Waits to be woken.
    Idle,
    Queued,
    Running,
    /// It was woken while it ran, so it goes to the queue again.
    Woken,
    Done,
}

impl Task {
    fn poll(self: Arc<Self>) {
        let mut future = {
            let mut slot = self.slot.lock();
            let Some(future) = slot.future.take() else { return };
            slot.phase = Phase::Running;
            future
        };
        let waker = Waker::from(self.clone());
        let mut context = Context::from_waker(&waker);
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context)));
        let mut slot = self.slot.lock();
        if !matches!(polled, Ok(Poll::Pending)) || slot.is_cancelled {
            slot.phase = Phase::Done;
            drop(slot);
            // What a future drops may wake others.
            drop(future);
            return;
        }
        slot.future = Some(future);
        if slot.phase == Phase::Woken {
            slot.phase = Phase::Queued;
            drop(slot);
            self.shared.push(self.clone());
        } else {
            slot.phase = Phase::Idle;
        }
    }

    fn cancel(&self) {
        let mut slot = self.slot.lock();
        slot.is_cancelled = true;
        let future = slot.future.take();
        drop(slot);
        drop(future);
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let mut slot = self.slot.lock();
        match slot.phase {
            Phase::Idle => {
                slot.phase = Phase::Queued;
                drop(slot);
                let shared = self.shared.clone();
                shared.push(self);
            }
            Phase::Running => slot.phase = Phase::Woken,
            Phase::Queued | Phase::Woken | Phase::Done => {}
        }
    }
}

/// What a future that runs on the workers will give; nothing if it panicked or the workers ended.
pub(crate) struct Running<T> {
    task: Arc<Task>,
    answer: oneshot::Receiver<T>,
}

impl<T> Future for Running<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.answer).poll(context).map(Result::ok)
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.task.cancel();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    fn user(name: &str) -> Arc<str> {
        name.into()
    }

    #[tokio::test]
    async fn handlers_wait_and_go_on() {
        let workers = Workers::with_threads(2).unwrap();
        let (sender, receiver) = oneshot::channel();
        let waiting = workers.run(user("a"), async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            receiver.await.unwrap()
        });
        sender.send(7).unwrap();
        assert_eq!(waiting.await, Some(7));
        let panicking = workers.run(user("a"), async { panic!("a fault") });
        assert_eq!(panicking.await, None);
        assert_eq!(workers.run(user("a"), async { 1 }).await, Some(1), "the threads live on");
    }

    #[tokio::test]
    async fn a_user_that_computes_leaves_threads_for_others() {
        let workers = Workers::with_threads(4).unwrap();
        let (release, blocked) = mpsc::channel::<()>();
        let blocked = Arc::new(std::sync::Mutex::new(blocked));
        // Each holds its thread until it is released.
        let greedy: Vec<_> = (0..16)
            .map(|_| {
                let blocked = blocked.clone();
                workers.run(user("greedy"), async move { blocked.lock().unwrap().recv().unwrap() })
            })
            .collect();
        for number in 0..100 {
            assert_eq!(workers.run(user("other"), async move { number }).await, Some(number));
        }
        for _ in 0..16 {
            release.send(()).unwrap();
        }
        for one in greedy {
            assert_eq!(one.await, Some(()));
        }
    }

    #[tokio::test]
    async fn what_nobody_waits_for_is_dropped() {
        let workers = Workers::with_threads(1).unwrap();
        let (held, gone) = oneshot::channel::<()>();
        let running = workers.run(user("a"), async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        // By now it was polled: there is one thread.
        workers.run(user("a"), async {}).await;
        drop(running);
        assert!(gone.await.is_err());
    }
}
