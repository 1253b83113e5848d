//! Bodies that are made piece by piece, as the client takes them: a client that does not read holds one piece, however
//! long the answer is.

use std::io;
use std::sync::Arc;

use axum::body::Body;

use super::flow::workers::Workers;

/// About so much is made at a time.
pub(crate) const PIECE: usize = 64 * 1024;

/// The request threads on which a user's turns are taken.
#[derive(Clone)]
pub(crate) struct Turns {
    pub(crate) workers: Arc<Workers>,
    pub(crate) user: Arc<str>,
}

impl Turns {
    /// What the work gives when it was the user's turn; nothing if it failed or the threads ended.
    pub(crate) async fn take<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        self.workers.run(self.user.clone(), work).await
    }
}

/// Runs work in a user's turn, or at once where there are no turns.
pub(crate) async fn in_turn<T: Send + 'static>(
    turns: Option<&Turns>,
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    match turns {
        Some(turns) => turns.take(work).await,
        None => Some(work.await),
    }
}

/// A body of pieces, each made in a turn of the user.
pub(crate) fn body<P>(pieces: P, turns: Option<Turns>) -> Body
where
    P: Iterator<Item = Vec<u8>> + Send + 'static,
{
    Body::from_stream(futures::stream::unfold(Some(pieces), move |pieces| {
        let turns = turns.clone();
        async move {
            let mut pieces = pieces?;
            let make = async move {
                let piece = pieces.next();
                (piece, pieces)
            };
            match in_turn(turns.as_ref(), make).await {
                Some((piece, pieces)) => Some((Ok(piece?), Some(pieces))),
                // The client must not take what it has for all of it.
                None => Some((Err(io::Error::other("the next piece could not be made")), None)),
            }
        }
    }))
}
