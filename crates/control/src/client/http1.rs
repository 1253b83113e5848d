//! HTTP/1.1, for servers and proxies that speak nothing else, and for upgrades: a connection for each request under way.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::Full;
use hyper::body::Body as _;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::BoxError;

use super::again::Fate;
use super::dial::Io;
use super::http2::Failure;

/// So many connections without a request are kept for the next one, for so long.
const KEPT: usize = 4;
const KEPT_FOR: Duration = Duration::from_secs(90);

/// Connections that wait for a request.
#[derive(Default)]
pub(super) struct Idle(Mutex<Vec<(Sender, Instant)>>);

impl Idle {
    /// The one that was used last: it is the least likely to have been closed meanwhile.
    pub(super) fn take(&self) -> Option<Sender> {
        let mut kept = self.0.lock();
        let now = Instant::now();
        kept.retain(|(sender, since)| !sender.requests.is_closed() && now < *since + KEPT_FOR);
        kept.pop().map(|(sender, _)| sender)
    }

    pub(super) fn keep(&self, sender: Sender) {
        let mut kept = self.0.lock();
        if kept.len() < KEPT && !sender.requests.is_closed() {
            kept.push((sender, Instant::now()));
        }
    }
}

/// A connection on which nothing is under way.
pub(super) struct Sender {
    requests: SendRequest<Full<Bytes>>,
    answered: bool,
}

impl Sender {
    pub(super) async fn open(io: Box<dyn Io>) -> Result<Sender, BoxError> {
        let (requests, connection) = handshake(TokioIo::new(io)).await?;
        tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "an HTTP/1.1 connection ended");
            }
        });
        Ok(Sender { requests, answered: false })
    }

    /// Sends a request whose URI is whole. The connection goes back to `idle` when the answer was read.
    pub(super) async fn send(
        mut self,
        request: Request<Bytes>,
        idle: Arc<Idle>,
    ) -> Result<Response<Incoming>, Failure> {
        let request = origin_form(request).map(Full::new);
        match self.requests.try_send_request(request).await {
            Ok(answer) => {
                self.answered = true;
                Ok(answer.map(|body| Incoming { body, back: Some((self, idle)) }))
            }
            Err(error) => {
                // It is given back where nothing of it was sent.
                let fate = if error.message().is_some() { Fate::NotProcessed } else { Fate::Unknown };
                let error = error.into_error().into();
                Err(Failure { fate, answered_before: self.answered, error })
            }
        }
    }
}

/// As HTTP/1.1 wants it: the path alone, and the server as a header.
fn origin_form(mut request: Request<Bytes>) -> Request<Bytes> {
    let host = request.uri().authority().map(|authority| {
        let authority = authority.as_str();
        authority.rsplit_once('@').map_or(authority, |(_, host)| host)
    });
    if let Some(Ok(host)) = host.map(HeaderValue::from_str) {
        request.headers_mut().entry(header::HOST).or_insert(host);
    }
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    request
}

/// The body of an answer.
pub(super) struct Incoming {
    body: hyper::body::Incoming,
    back: Option<(Sender, Arc<Idle>)>,
}

impl Incoming {
    pub(super) fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BoxError>>> {
        loop {
            match ready!(std::pin::Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None => return Poll::Ready(None),
            }
        }
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let Some((mut sender, idle)) = self.back.take() else { return };
        // Where the answer was not read to its end, hyper closes the connection.
        if sender.requests.is_closed() || !self.body.is_end_stream() {
            return;
        }
        if sender.requests.is_ready() {
            return idle.keep(sender);
        }
        tokio::spawn(async move {
            if let Ok(Ok(())) = tokio::time::timeout(KEPT_FOR, sender.requests.ready()).await {
                idle.keep(sender);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_the_server_in_a_header() {
        let request = Request::get("https://user@a.example:6443/api?watch=1").body(Bytes::new()).unwrap();
        let request = origin_form(request);
        assert_eq!(request.uri(), "/api?watch=1");
        assert_eq!(request.headers()[header::HOST], "a.example:6443");
    }
}
