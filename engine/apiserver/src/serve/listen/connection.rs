//! One connection, from its handshake to its end.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::Watcher;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

use super::Options;
use super::activity::{Activity, Tracked};
use crate::serve::PeerCertificate;
use crate::serve::flow::FromSocket;

/// How often an HTTP/2 client has to show that it is still there, and how long it may take.
const PING: std::time::Duration = std::time::Duration::from_secs(30);

/// What connections of one listener have in common.
pub(super) struct Entrance {
    pub(super) acceptor: TlsAcceptor,
    pub(super) router: Router,
    pub(super) from: FromSocket,
    pub(super) options: Options,
}

impl Entrance {
    pub(super) async fn connection(
        &self,
        stream: TcpStream,
        watcher: Watcher,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        stream.set_nodelay(true)?;
        let stream = tokio::time::timeout(self.options.handshake, self.acceptor.accept(stream)).await??;
        let session = stream.get_ref().1;
        let peer = session.peer_certificates().and_then(<[_]>::first);
        let peer = peer.map(|certificate| PeerCertificate(certificate.as_ref().into()));
        // What was agreed on in the handshake: waiting for the client's first bytes to tell would need one more deadline.
        let builder = if session.alpn_protocol() == Some(b"h2") {
            Builder::new(TokioExecutor::new()).http2_only()
        } else {
            Builder::new(TokioExecutor::new()).http1_only()
        };
        let builder = self.timed(builder);
        let activity = Arc::new(Activity::new(Instant::now()));
        let service = service_fn(|request: http::Request<hyper::body::Incoming>| {
            let mut request: Request = request.map(Body::new);
            request.extensions_mut().insert(self.from.clone());
            if let Some(peer) = &peer {
                request.extensions_mut().insert(peer.clone());
            }
            answer(self.router.clone(), request, activity.clone())
        });
        // Streams of HTTP/2 run as tasks of their own, so they own what they use.
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let connection = watcher.watch(connection);
        tokio::pin!(connection);
        loop {
            let look_again = match activity.verdict(Instant::now(), &self.options) {
                Ok(at) => at,
                Err(why) => {
                    tracing::debug!(?why, "a connection is closed");
                    return Ok(());
                }
            };
            tokio::select! {
                biased;
                ended = &mut connection => return ended,
                () = tokio::time::sleep_until(look_again) => {}
            }
        }
    }

    fn timed(&self, mut builder: Builder<TokioExecutor>) -> Builder<TokioExecutor> {
        builder.http1().timer(TokioTimer::new()).header_read_timeout(self.options.first_request);
        // A client that went away without a word is noticed, and its watches with it.
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(1000)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING);
        builder
    }
}

async fn answer(
    router: Router,
    request: Request,
    activity: Arc<Activity>,
) -> Result<http::Response<Tracked>, Infallible> {
    let open = activity.open();
    let response: Response = router.oneshot(request).await?;
    Ok(response.map(|body| Tracked::new(body, open)))
}
