//! Writes the journal: what waits together goes to the disk together.
//!
//! A store has a queue, and a place in the pool of writing threads while there is something in it. One thread
//! at a time works on a store, so its transactions keep their order.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use super::batch::Batch;
use super::error::Cause;
use super::journal::Journal;
use super::pool::{self, More, Work};
use super::{CommitError, Committed, Op, Shared};

type Answer = Result<Committed, CommitError>;

enum Request {
    Commit(Vec<Op>, oneshot::Sender<Answer>),
    Close(oneshot::Sender<()>),
}

/// The way to the journal, which is closed when this is dropped.
pub(super) struct Writer {
    /// There until the drop.
    requests: Option<mpsc::Sender<Request>>,
    desk: Arc<Desk>,
}

/// Where a store's transactions are worked on.
struct Desk {
    shared: Arc<Shared>,
    /// Whether it stands in the pool's queue or is being worked on.
    called: AtomicBool,
    /// None once the journal is closed.
    open: Mutex<Option<Open>>,
}

struct Open {
    journal: Journal,
    waiting: mpsc::Receiver<Request>,
    failure: Option<Cause>,
}

impl Writer {
    pub(super) fn start(shared: Arc<Shared>, journal: Journal, queue: usize) -> Self {
        let (requests, waiting) = mpsc::channel(queue);
        let open = Mutex::new(Some(Open { journal, waiting, failure: None }));
        let desk = Arc::new(Desk { shared, called: AtomicBool::new(false), open });
        Writer { requests: Some(requests), desk }
    }

    pub(super) async fn commit(&self, ops: Vec<Op>) -> Answer {
        let (reply, answer) = oneshot::channel();
        self.send(Request::Commit(ops, reply)).await?;
        answer.await.unwrap_or(Err(CommitError::Closed))
    }

    /// Returns once everything queued before is answered and the file is closed.
    pub(super) async fn close(&self) {
        let (reply, closed) = oneshot::channel();
        if self.send(Request::Close(reply)).await.is_ok() {
            // An error means that another close was first.
            let _ = closed.await;
        }
        self.requests().closed().await;
    }

    async fn send(&self, request: Request) -> Result<(), CommitError> {
        self.requests().send(request).await.map_err(|_| CommitError::Closed)?;
        self.desk.call();
        Ok(())
    }

    fn requests(&self) -> &mpsc::Sender<Request> {
        self.requests.as_ref().expect("it is taken by the drop alone")
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.requests = None;
        self.desk.call();
    }
}

impl Desk {
    fn call(self: &Arc<Self>) {
        if !self.called.swap(true, Ordering::AcqRel) {
            pool::submit(self.clone());
        }
    }

    fn close(&self, open: Open) {
        let Open { journal, waiting, .. } = open;
        drop(journal);
        self.shared.close();
        drop(waiting);
    }
}

impl Work for Desk {
    fn turn(&self) -> More {
        let mut slot = self.open.lock();
        let Some(open) = slot.as_mut() else { return More::No };
        let end = match open.waiting.try_recv() {
            Ok(first) => {
                // redb asserts some of what it reads: a fault there closes this store, not those beside it.
                let done = catch_unwind(AssertUnwindSafe(|| open.batch(&self.shared, first)));
                match done {
                    Ok(None) => return More::Yes,
                    Ok(Some(closing)) => Some(closing),
                    Err(_) => None,
                }
            }
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) => {
                self.called.store(false, Ordering::Release);
                // What came between the look and the word is not announced by anyone else.
                let missed = !open.waiting.is_empty() || open.waiting.is_closed();
                let ours = missed && !self.called.swap(true, Ordering::AcqRel);
                return if ours { More::Yes } else { More::No };
            }
        };
        if let Some(open) = slot.take() {
            self.close(open);
        }
        if let Some(closed) = end {
            let _ = closed.send(());
        }
        More::No
    }
}

impl Open {
    /// Writes, shows and answers what has queued up; when the store is to be closed, whom to tell.
    fn batch(&mut self, shared: &Shared, first: Request) -> Option<oneshot::Sender<()>> {
        let (batch, answers, closing) = gather(shared, first, &mut self.waiting);
        if self.failure.is_none() && !batch.changes().is_empty() {
            match self.journal.write(batch.changes(), batch.revision()) {
                Ok(()) => shared.publish(shared.state.write(), batch),
                Err(error) => {
                    let cause = Cause::from(Box::new(error) as Box<_>);
                    tracing::error!(error = %cause, "the journal cannot be written: no more writes until a restart");
                    *shared.failure.write() = Some(cause.clone());
                    self.failure = Some(cause);
                }
            }
        }
        for (reply, answer) in answers {
            let answer = match &self.failure {
                Some(cause) => Err(CommitError::Journal(cause.clone())),
                None => answer,
            };
            // Whoever asked may have gone; the write stands all the same.
            let _ = reply.send(answer);
        }
        closing
    }
}

type Gathered = (Batch, Vec<(oneshot::Sender<Answer>, Answer)>, Option<oneshot::Sender<()>>);

/// Takes what has queued up while the last batch went to the disk. Nothing is answered yet, conflicts
/// neither: they may tell of changes in this batch, which a crash could still undo.
fn gather(shared: &Shared, first: Request, waiting: &mut mpsc::Receiver<Request>) -> Gathered {
    let state = shared.state.read();
    let mut batch = Batch::after(state.revision);
    let mut answers = Vec::new();
    let mut next = Some(first);
    while let Some(request) = next {
        match request {
            Request::Commit(ops, reply) => answers.push((reply, batch.add(&state, ops))),
            Request::Close(closed) => return (batch, answers, Some(closed)),
        }
        next = if batch.is_full() { None } else { waiting.try_recv().ok() };
    }
    (batch, answers, None)
}
