//! What goes on in a connection: whether anything was asked, is being answered, and is read by the client.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::Options;

/// The most that is given to the connection at a time: what it has is kept until the client takes it.
const PIECE: usize = 64 * 1024;
/// How often a connection is looked at, at least.
const LOOK: Duration = Duration::from_secs(15);

/// The requests of one connection.
pub(super) struct Activity(Mutex<State>);

struct State {
    /// Since when nothing is asked, and whether anything ever was.
    idle_since: Instant,
    was_asked: bool,
    open: usize,
    last_id: u64,
    /// Answers of which a piece was handed over and the next one was not asked for, and since when.
    unread: HashMap<u64, Instant>,
}

/// Why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Close {
    NothingAsked,
    Idle,
    Stalled,
}

impl Activity {
    pub(super) fn new(now: Instant) -> Self {
        let state = State { idle_since: now, was_asked: false, open: 0, last_id: 0, unread: HashMap::new() };
        Activity(Mutex::new(state))
    }

    /// A request has come; it is open as long as what this gives is kept.
    pub(super) fn open(self: &Arc<Self>) -> Open {
        let mut state = self.0.lock();
        state.was_asked = true;
        state.open += 1;
        state.last_id += 1;
        Open { activity: self.clone(), id: state.last_id }
    }

    /// When to look again, or why the connection is to be closed.
    pub(super) fn verdict(&self, now: Instant, options: &Options) -> Result<Instant, Close> {
        let look_again = now + LOOK.min(options.stalled).min(options.idle);
        let state = self.0.lock();
        let (since, allowed, why) = match (state.unread.values().min(), state.was_asked) {
            (Some(oldest), _) => (*oldest, options.stalled, Close::Stalled),
            (None, _) if state.open > 0 => return Ok(look_again),
            (None, true) => (state.idle_since, options.idle, Close::Idle),
            (None, false) => (state.idle_since, options.first_request, Close::NothingAsked),
        };
        let end = since + allowed;
        if now >= end { Err(why) } else { Ok(end.min(look_again)) }
    }
}

/// One request that is being answered.
pub(super) struct Open {
    activity: Arc<Activity>,
    id: u64,
}

impl Open {
    fn handed_over(&self) {
        self.activity.0.lock().unread.insert(self.id, Instant::now());
    }

    fn taken(&self) {
        self.activity.0.lock().unread.remove(&self.id);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.activity.0.lock();
        state.unread.remove(&self.id);
        state.open -= 1;
        if state.open == 0 {
            state.idle_since = Instant::now();
        }
    }
}

/// The body of an answer, given to the connection in pieces, so that it is known whether the client takes them.
pub(super) struct Tracked {
    body: Body,
    rest: Bytes,
    open: Open,
}

impl Tracked {
    pub(super) fn new(body: Body, open: Open) -> Self {
        Tracked { body, rest: Bytes::new(), open }
    }

    fn piece(&mut self, mut data: Bytes) -> Frame<Bytes> {
        if data.len() > PIECE {
            self.rest = data.split_off(PIECE);
        }
        self.open.handed_over();
        Frame::data(data)
    }
}

impl hyper::body::Body for Tracked {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.open.taken();
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            return Poll::Ready(Some(Ok(self.piece(rest))));
        }
        let polled = Pin::new(&mut self.body).poll_frame(context);
        polled.map(|frame| {
            Some(frame?.map(|frame| match frame.into_data() {
                Ok(data) => self.piece(data),
                Err(other) => other,
            }))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        let rest = self.rest.len() as u64;
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

#[cfg(test)]
mod tests {
    use axum::body::HttpBody as _;
    use futures::FutureExt as _;
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_closed_when_nothing_goes_on() {
        let options = Options::default();
        let begun = Instant::now();
        let activity = Arc::new(Activity::new(begun));
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(activity.verdict(at(29), &options), Ok(at(30)));
        assert_eq!(activity.verdict(at(30), &options), Err(Close::NothingAsked));
        let open = activity.open();
        assert!(activity.verdict(at(3600), &options).is_ok(), "a request may take its time");
        drop(open);
        assert!(activity.verdict(at(89), &options).is_ok());
        assert_eq!(activity.verdict(at(90), &options), Err(Close::Idle));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_noticed() {
        let options = Options::default();
        let activity = Arc::new(Activity::new(Instant::now()));
        let content: Vec<u8> = (0..200_000_u32).map(|at| at as u8).collect();
        let mut body = Tracked::new(Body::from(content.clone()), activity.open());
        assert_eq!(body.size_hint().exact(), Some(200_000));
        let mut read = Vec::new();
        for minutes in 0..2 {
            let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!(piece.len(), PIECE);
            read.extend_from_slice(&piece);
            assert_eq!(body.size_hint().exact(), Some(200_000 - read.len() as u64));
            assert!(activity.verdict(Instant::now(), &options).is_ok(), "after {minutes} minutes");
            tokio::time::advance(Duration::from_secs(60)).await;
            assert_eq!(activity.verdict(Instant::now(), &options), Err(Close::Stalled));
        }
        while let Some(piece) = body.frame().await {
            read.extend_from_slice(&piece.unwrap().into_data().unwrap());
        }
        assert_eq!(read, content);
        // A watch waits for events, and its client for nothing.
        let mut watch = Tracked::new(
            Body::from_stream(futures::stream::pending::<Result<Bytes, axum::Error>>()),
            activity.open(),
        );
        assert!(watch.frame().now_or_never().is_none());
        drop(body);
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert!(activity.verdict(Instant::now(), &options).is_ok());
    }
}
