//! One HTTP/2 connection: how many streams it has room for, whether it is alive, and when it ends.
//!
//! What a server can make us keep is bounded: headers, the bytes of each stream that nobody read yet, and small frames. Pushes
//! are refused.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, Connection, SendRequest};
use h2::{Ping, PingPong, RecvStream};
use http::{Request, Response, header};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;
use tower::BoxError;

use super::again::{Fate, fate};
use super::dial::Io;
use super::keepalive::{Heard, Keepalive, Pulse, Step};

/// So many requests share a connection at the most, also where the server allows more.
const STREAMS: usize = 128;
/// What a server may send ahead on one stream: as much as 100 ms at 10 MiB a second need.
const STREAM_WINDOW: u32 = 1 << 20;
/// Room for every stream's window: none that is not read takes anything from the others.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * STREAMS as u32;
/// A server's headers, all of an answer together.
const HEADERS: u32 = 64 << 10;
/// What small frames may cost beside the bytes in them.
const FRAME_BUDGET: usize = 4 << 20;
/// A connection without a request is closed after so long.
const IDLE: Duration = Duration::from_secs(90);
/// For so long a connection that is doubted may answer before requests go another way.
const BENEFIT_OF_DOUBT: Duration = Duration::from_secs(3);

/// Why a request got no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    #[error("nothing came on the connection for {} s, not even the answer to a ping", .0.as_secs_f32())]
    Dead(Duration),
    #[error("the HTTP/2 connection failed")]
    Failed(#[source] h2::Error),
}

/// A connection that is open. Dropping it closes it once its requests are answered.
pub(super) struct Link {
    send: SendRequest<Bytes>,
    shared: Arc<Shared>,
}

/// What its requests and the task that runs it know of a connection.
pub(super) struct Shared {
    state: Mutex<State>,
    keepalive: Keepalive,
    /// The task is to look at the connection again.
    attention: Notify,
}

struct State {
    streams: usize,
    idle_since: Instant,
    heard: Heard,
    /// Whether the server answered a request yet.
    answered: bool,
    /// Since when, and how much was heard by then.
    doubted: Option<(Instant, u64)>,
    /// Takes no more requests.
    over: bool,
    dead: bool,
}

impl Link {
    /// Begins to speak HTTP/2, and waits until the server said how many streams it takes.
    pub(super) async fn open(io: Box<dyn Io>, keepalive: Keepalive) -> Result<Arc<Link>, BoxError> {
        let now = Instant::now();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                streams: 0,
                idle_since: now,
                heard: Heard { reads: 0, last: now },
                answered: false,
                doubted: None,
                over: false,
                dead: false,
            }),
            keepalive,
            attention: Notify::new(),
        });
        let io = Listened { io, shared: shared.clone() };
        let (send, mut connection) = builder().handshake::<_, Bytes>(io).await?;
        let pings = connection.ping_pong().ok_or("the connection has no pings")?;
        let told = poll_fn(|context| {
            if let Poll::Ready(ended) = Pin::new(&mut connection).poll(context) {
                return Poll::Ready(Err(ended.err()));
            }
            if send.current_max_send_streams() > 0 { Poll::Ready(Ok(())) } else { Poll::Pending }
        });
        told.await.map_err(|error| match error {
            Some(error) => BoxError::from(error),
            None => "the server closed the connection as soon as it was open".into(),
        })?;
        tokio::spawn(run(connection, pings, shared.clone()));
        Ok(Arc::new(Link { send, shared }))
    }

    /// Whether it will never take a request again.
    pub(super) fn is_over(&self) -> bool {
        // The server may have said GOAWAY.
        let goes = self.send.clone().poll_ready(&mut Context::from_waker(Waker::noop()));
        matches!(goes, Poll::Ready(Err(_))) || self.shared.state.lock().over
    }

    /// Room for one more request, if there is.
    pub(super) fn take(&self) -> Option<Stream> {
        let room = self.send.current_max_send_streams().min(STREAMS);
        let mut state = self.shared.state.lock();
        if state.over || state.streams >= room || state.is_suspect(Instant::now()) {
            return None;
        }
        state.streams += 1;
        Some(Stream { shared: self.shared.clone(), send: self.send.clone() })
    }
}

impl State {
    fn is_suspect(&self, now: Instant) -> bool {
        self.doubted
            .is_some_and(|(since, reads)| self.heard.reads == reads && now >= since + BENEFIT_OF_DOUBT)
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(HEADERS)
        .data_frame_budget(FRAME_BUDGET)
        // What still comes on streams that we reset is nothing to be upset about.
        .max_concurrent_reset_streams(STREAMS)
        // None until the server said how many.
        .initial_max_send_streams(0);
    builder
}

/// Runs a connection until it ends, is dead, or nobody needs it any more.
async fn run(mut connection: Connection<Listened>, mut pings: PingPong, shared: Arc<Shared>) {
    let mut pulse = Pulse::new(shared.keepalive);
    let mut pinged = false;
    loop {
        let now = Instant::now();
        let look_again = match shared.look(&mut pulse, now) {
            Look::Again(at) => at,
            Look::Ping(at) => {
                // It fails where an earlier one was not answered, or where the connection has ended and tells so.
                pinged |= pings.send_ping(Ping::opaque()).is_ok();
                at
            }
            Look::Over => break,
        };
        tokio::select! {
            biased;
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "an HTTP/2 connection ended");
                }
                break;
            }
            () = shared.attention.notified() => {}
            _ = poll_fn(|context| pings.poll_pong(context)), if pinged => pinged = false,
            () = tokio::time::sleep_until(look_again) => {}
        }
    }
    shared.state.lock().over = true;
}

enum Look {
    Again(Instant),
    Ping(Instant),
    Over,
}

impl Shared {
    fn look(&self, pulse: &mut Pulse, now: Instant) -> Look {
        let mut state = self.state.lock();
        let doubted = match state.doubted {
            Some((_, reads)) if reads == state.heard.reads => true,
            _ => {
                state.doubted = None;
                false
            }
        };
        let closes = (state.streams == 0).then(|| state.idle_since + IDLE);
        if closes.is_some_and(|at| now >= at) {
            state.over = true;
            return Look::Over;
        }
        let sooner = |at: Instant| closes.map_or(at, |closes| at.min(closes));
        match pulse.step(now, state.heard, doubted) {
            Step::LookAgain(at) => Look::Again(sooner(at)),
            Step::Ping(at) => Look::Ping(sooner(at)),
            Step::Dead => {
                (state.over, state.dead) = (true, true);
                Look::Over
            }
        }
    }

    /// A request got no answer in the time that its caller had.
    fn doubt(&self, reads: u64) {
        let mut state = self.state.lock();
        if state.heard.reads == reads && state.doubted.is_none() {
            state.doubted = Some((Instant::now(), reads));
            self.attention.notify_one();
        }
    }

    fn lost(&self, error: h2::Error) -> Lost {
        if self.state.lock().dead { Lost::Dead(self.keepalive.silence()) } else { Lost::Failed(error) }
    }
}

/// A place on a connection: for one request, until its answer was read.
pub(super) struct Stream {
    shared: Arc<Shared>,
    send: SendRequest<Bytes>,
}

/// Why a request failed, and how far it came.
pub(super) struct Failure {
    pub(super) fate: Fate,
    pub(super) answered_before: bool,
    pub(super) error: BoxError,
}

impl Stream {
    /// Sends a request whose URI is whole.
    pub(super) async fn send(mut self, request: Request<Bytes>) -> Result<Response<Incoming>, Failure> {
        let (mut head, body) = request.into_parts();
        for name in [header::CONNECTION, header::HOST, header::TRANSFER_ENCODING] {
            head.headers.remove(name);
        }
        if !body.is_empty() {
            head.headers.insert(header::CONTENT_LENGTH, body.len().into());
        }
        head.version = http::Version::HTTP_2;
        let unsent = |stream: &Stream, error| stream.failure(Fate::NotProcessed, error);
        if let Err(error) = poll_fn(|context| self.send.poll_ready(context)).await {
            return Err(unsent(&self, error));
        }
        let (answer, mut upload) =
            match self.send.send_request(Request::from_parts(head, ()), body.is_empty()) {
                Ok(sent) => sent,
                Err(error) => return Err(unsent(&self, error)),
            };
        if !body.is_empty() {
            // Where the stream is gone already, its answer says why.
            let _ = upload.send_data(body, true);
        }
        let mut waiting = Waiting::new(&self.shared);
        let answer = answer.await;
        waiting.is_over = true;
        drop(waiting);
        match answer {
            Ok(answer) => {
                self.shared.state.lock().answered = true;
                Ok(answer.map(|body| Incoming { body, stream: self }))
            }
            Err(error) => Err(self.failure(fate(&error), error)),
        }
    }

    fn failure(&self, fate: Fate, error: h2::Error) -> Failure {
        let answered_before = self.shared.state.lock().answered;
        Failure { fate, answered_before, error: self.shared.lost(error).into() }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.streams -= 1;
        if state.streams == 0 {
            state.idle_since = Instant::now();
            drop(state);
            self.shared.attention.notify_one();
        }
    }
}

/// A request without an answer yet. If its caller goes away meanwhile, the connection is doubted.
struct Waiting<'a> {
    shared: &'a Shared,
    reads: u64,
    is_over: bool,
}

impl<'a> Waiting<'a> {
    fn new(shared: &'a Shared) -> Waiting<'a> {
        Waiting { shared, reads: shared.state.lock().heard.reads, is_over: false }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.doubt(self.reads);
        }
    }
}

/// The body of an answer.
pub(super) struct Incoming {
    body: RecvStream,
    stream: Stream,
}

impl Incoming {
    pub(super) fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BoxError>>> {
        Poll::Ready(match ready!(self.body.poll_data(context)) {
            Some(Ok(data)) => {
                // What is handed on makes room for more; who hands it on counts it.
                let released = self.body.flow_control().release_capacity(data.len());
                Some(released.map(|()| data).map_err(|error| self.stream.shared.lost(error).into()))
            }
            // So a server ends an answer early that needed no more of the request.
            Some(Err(error)) if error.is_reset() && error.reason() == Some(h2::Reason::NO_ERROR) => None,
            Some(Err(error)) => Some(Err(self.stream.shared.lost(error).into())),
            None => None,
        })
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

/// Notes whenever something is read.
struct Listened {
    io: Box<dyn Io>,
    shared: Arc<Shared>,
}

impl AsyncRead for Listened {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.io).poll_read(context, buffer));
        if buffer.filled().len() > before {
            let heard = &mut self.shared.state.lock().heard;
            *heard = Heard { reads: heard.reads + 1, last: Instant::now() };
        }
        Poll::Ready(read)
    }
}

impl AsyncWrite for Listened {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
