//! TLS in front of a router: connections are accepted, clients identified by their certificate, and
//! everything ends in order when it is told to.
//!
//! A client that only holds a connection costs memory and a file descriptor, and needs no credentials for it. So
//! there are deadlines for the handshake, for the first request and for connections without any request, and a
//! client that does not read its answer is cut off. See [`Options`].

mod activity;
mod connection;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::server::graceful::GracefulShutdown;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use self::connection::Entrance;
use super::flow::FromSocket;
use super::flow::workers::Workers;

/// How long open requests may go on after the end was asked for.
const DRAIN: Duration = Duration::from_secs(5);
/// How often the log tells that connections are turned away.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// What clients are granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Connections at a time; more are closed at once.
    pub connections: usize,
    /// For the TLS handshake.
    pub handshake: Duration,
    /// From the handshake to the first request, and for the head of each HTTP/1.1 request.
    pub first_request: Duration,
    /// For a connection on which nothing is asked any more.
    pub idle: Duration,
    /// For a client that does not take what it asked for. One that waits for the events of a watch takes all there is.
    pub stalled: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            connections: 10_000,
            handshake: Duration::from_secs(10),
            first_request: Duration::from_secs(30),
            idle: Duration::from_secs(90),
            stalled: Duration::from_secs(60),
        }
    }
}

/// Serves `router` on `listener` until `shutdown` is done. Watches must have been told to end by then
/// (see [`super::Server::close`]), or they are cut off.
pub async fn serve(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    router: Router,
    shutdown: impl Future<Output = ()>,
) {
    serve_with(listener, tls, router, Options::default(), shutdown).await;
}

/// As [`serve`], with other limits.
pub async fn serve_with(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    router: Router,
    options: Options,
    shutdown: impl Future<Output = ()>,
) {
    let entrance = Entrance { acceptor: TlsAcceptor::from(tls), router, from: from_socket(), options };
    let entrance = Arc::new(entrance);
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(options.connections));
    let (mut refusals, mut failures) = (Refusals::default(), Refusals::default());
    tokio::pin!(shutdown);
    loop {
        let stream = tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of file descriptors, most likely: existing connections may free some.
                    if let Some(count) = failures.another(Instant::now()) {
                        tracing::warn!(%error, failed = count, "connections cannot be accepted");
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            if let Some(count) = refusals.another(Instant::now()) {
                tracing::warn!(
                    limit = options.connections,
                    closed = count,
                    "too many connections: new ones are closed"
                );
            }
            continue;
        };
        let (entrance, watcher) = (entrance.clone(), graceful.watcher());
        tokio::spawn(async move {
            if let Err(error) = entrance.connection(stream, watcher).await {
                tracing::debug!(%error, "a connection ended");
            }
            drop(place);
        });
    }
    if tokio::time::timeout(DRAIN, graceful.shutdown()).await.is_err() {
        tracing::info!("some connections were still open and are cut off");
    }
}

/// Requests run on threads of their own where the runtime has several; a runtime of one thread is a test's.
fn from_socket() -> FromSocket {
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        return FromSocket(None);
    }
    match Workers::start() {
        Ok(workers) => FromSocket(Some(Arc::new(workers))),
        Err(error) => {
            tracing::warn!(%error, "no threads for requests: they run beside everything else");
            FromSocket(None)
        }
    }
}

/// Connections that were turned away since the log told of it.
#[derive(Default)]
struct Refusals {
    count: usize,
    told: Option<Instant>,
}

impl Refusals {
    /// How many there were, if it is time to tell.
    fn another(&mut self, now: Instant) -> Option<usize> {
        self.count += 1;
        if self.told.is_some_and(|told| now < told + TELL_EVERY) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_once_a_minute() {
        let start = Instant::now();
        let mut refusals = Refusals::default();
        let told: Vec<_> =
            (0..150).map(|second| refusals.another(start + Duration::from_secs(second))).collect();
        let told: Vec<_> = told.into_iter().enumerate().filter_map(|(at, told)| Some((at, told?))).collect();
        assert_eq!(told, [(0, 1), (60, 60), (120, 60)]);
    }
}
