//! The one thread that writes the journal: what waits together goes to the disk together.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::batch::Batch;
use super::error::Cause;
use super::journal::Journal;
use super::{CommitError, Committed, Op, Shared};

type Answer = Result<Committed, CommitError>;

enum Request {
    Commit(Vec<Op>, oneshot::Sender<Answer>),
    Close(oneshot::Sender<()>),
}

/// The way to the writer thread, which ends when this is dropped.
pub(super) struct Writer {
    requests: mpsc::Sender<Request>,
}

impl Writer {
    pub(super) fn start(shared: Arc<Shared>, journal: Journal, queue: usize) -> std::io::Result<Self> {
        let (requests, waiting) = mpsc::channel(queue);
        std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || run(&shared, journal, waiting))?;
        Ok(Writer { requests })
    }

    pub(super) async fn commit(&self, ops: Vec<Op>) -> Answer {
        let (reply, answer) = oneshot::channel();
        self.requests.send(Request::Commit(ops, reply)).await.map_err(|_| CommitError::Closed)?;
        answer.await.unwrap_or(Err(CommitError::Closed))
    }

    /// Returns once everything queued before is answered and the file is closed.
    pub(super) async fn close(&self) {
        let (reply, closed) = oneshot::channel();
        if self.requests.send(Request::Close(reply)).await.is_ok() {
            // An error means that another close was first.
            let _ = closed.await;
        }
        self.requests.closed().await;
    }
}

fn run(shared: &Shared, mut journal: Journal, mut waiting: mpsc::Receiver<Request>) {
    let mut failure = None;
    let mut closing = None;
    while closing.is_none()
        && let Some(first) = waiting.blocking_recv()
    {
        let (batch, answers);
        (batch, answers, closing) = gather(shared, first, &mut waiting);
        if failure.is_none() && !batch.changes().is_empty() {
            match journal.write(batch.changes(), batch.revision()) {
                Ok(()) => shared.publish(shared.state.write(), batch),
                Err(error) => failure = Some(Cause::from(Box::new(error) as Box<_>)),
            }
        }
        for (reply, answer) in answers {
            let answer = match &failure {
                Some(cause) => Err(CommitError::Journal(cause.clone())),
                None => answer,
            };
            // Whoever asked may have gone; the write stands all the same.
            let _ = reply.send(answer);
        }
    }
    drop(journal);
    shared.close();
    drop(waiting);
    if let Some(closed) = closing {
        let _ = closed.send(());
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
