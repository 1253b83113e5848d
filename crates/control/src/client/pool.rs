//! The connections to one server, and which of them a request takes.
//!
//! Ordinary requests share one connection as long as the server has room on it, and urgent ones have another. A request that finds
//! all streams taken gets a further connection; it does not queue, for a watch ends only after minutes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};
use http::uri::Authority;
use http::{Method, Request, Response, header};
use kube::client::Body;
use parking_lot::Mutex;
use tower::BoxError;

use super::Urgent;
use super::again::{Attempt, is_sent_again};
use super::answer::{Answer, Incoming, Silent};
use super::dial::{Dialed, Dialer, Offer, Unreachable};
use super::http1::{Idle, Sender};
use super::http2::{Failure, Link, Stream};
use super::keepalive::Keepalive;

/// The connections to one server.
pub(super) struct Pool {
    dialer: Dialer,
    keepalive: Keepalive,
    /// No answer, and no next part of one, is waited for longer.
    silence: Option<Duration>,
    ordinary: Lane,
    urgent: Lane,
}

/// Connections that requests of one urgency share.
#[derive(Default)]
struct Lane {
    open: Mutex<Open>,
    /// HTTP/1.1 connections that wait for a request.
    idle: Arc<Idle>,
}

#[derive(Default)]
struct Open {
    links: Vec<Arc<Link>>,
    /// What the server spoke when it was last reached: nobody waits for a connection that is for one request only.
    is_http1: bool,
    /// A connection on its way, for all who wait for one; given up when nobody does.
    coming: Option<WeakShared<Coming>>,
}

type Coming = BoxFuture<'static, Result<(), Unreachable>>;

/// By what a request goes.
enum Way {
    Http2(Stream),
    Http1(Sender),
}

/// What a request finds.
enum Found {
    Way(Way),
    /// One is made, and then there may be room.
    Wait(Shared<Coming>),
    MakeOne,
}

impl Pool {
    pub(super) fn new(dialer: Dialer, keepalive: Keepalive, silence: Option<Duration>) -> Pool {
        Pool { dialer, keepalive, silence, ordinary: Lane::default(), urgent: Lane::default() }
    }

    /// Sends a request, and once more where that does no harm.
    pub(super) async fn send(self: Arc<Self>, request: Request<Body>) -> Result<Response<Answer>, BoxError> {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let is_urgent = head.extensions.get::<Urgent>().is_some();
        let lane = |pool: &Arc<Pool>| -> Side { Side { pool: pool.clone(), is_urgent } };
        let mut count = 0;
        loop {
            let way = if head.headers.contains_key(header::UPGRADE) {
                self.for_upgrade().await?
            } else {
                lane(&self).way().await?
            };
            count += 1;
            let request = Request::from_parts(head.clone(), body.clone());
            match self.answer(way, request, is_urgent).await? {
                Ok(answer) => {
                    if !matches!(head.method, Method::GET | Method::HEAD) {
                        let (server, status) =
                            (head.uri.authority().map(Authority::as_str), answer.status().as_u16());
                        tracing::debug!(server, method = %head.method, path = head.uri.path(), status, "a write");
                    }
                    return Ok(answer);
                }
                Err(Failure { fate, answered_before, error }) => {
                    if !is_sent_again(&head.method, Attempt { fate, count, answered_before }) {
                        return Err(error);
                    }
                    tracing::debug!(method = %head.method, path = head.uri.path(), %error, "a request is sent again");
                }
            }
        }
    }

    /// Waits for the head of an answer.
    async fn answer(
        &self,
        way: Way,
        request: Request<Bytes>,
        is_urgent: bool,
    ) -> Result<Result<Response<Answer>, Failure>, BoxError> {
        let idle = self.lane(is_urgent).idle.clone();
        let sent = async {
            match way {
                Way::Http2(stream) => Ok(stream.send(request).await?.map(Incoming::Http2)),
                Way::Http1(sender) => Ok(sender.send(request, idle).await?.map(Incoming::Http1)),
            }
        };
        let answer = match self.silence {
            Some(time) => tokio::time::timeout(time, sent).await.map_err(|_| Silent(time))?,
            None => sent.await,
        };
        Ok(answer.map(|answer| answer.map(|body| Answer::new(body, self.silence))))
    }

    /// A connection of its own, for what HTTP/2 cannot do.
    async fn for_upgrade(&self) -> Result<Way, BoxError> {
        match self.dialer.dial(Offer::Http1Only).await.map_err(Unreachable::from)? {
            Dialed::Http1(io) => Ok(Way::Http1(Sender::open(io).await?)),
            Dialed::Http2(_) => Err("the server speaks HTTP/2 although it was not offered".into()),
        }
    }

    fn lane(&self, is_urgent: bool) -> &Lane {
        if is_urgent { &self.urgent } else { &self.ordinary }
    }
}

/// One lane of a pool, for as long as somebody needs it.
#[derive(Clone)]
struct Side {
    pool: Arc<Pool>,
    is_urgent: bool,
}

impl Side {
    fn lane(&self) -> &Lane {
        self.pool.lane(self.is_urgent)
    }

    /// By what the next request goes. One connection is made at a time, and all who need one wait for it.
    async fn way(&self) -> Result<Way, Unreachable> {
        loop {
            match self.find() {
                Found::Way(way) => return Ok(way),
                Found::Wait(coming) => coming.await?,
                Found::MakeOne => {
                    if let Some(way) = self.clone().make().await? {
                        return Ok(way);
                    }
                }
            }
        }
    }

    fn find(&self) -> Found {
        let mut open = self.lane().open.lock();
        open.links.retain(|link| !link.is_over());
        if let Some(stream) = open.links.iter().find_map(|link| link.take()) {
            return Found::Way(Way::Http2(stream));
        }
        if open.is_http1 {
            return self.lane().idle.take().map_or(Found::MakeOne, |sender| Found::Way(Way::Http1(sender)));
        }
        if let Some(coming) = open.coming.as_ref().and_then(WeakShared::upgrade) {
            // One that has ended and left no room is none to wait for.
            if coming.peek().is_none() {
                return Found::Wait(coming);
            }
        }
        let making = self.clone();
        let coming: Coming = Box::pin(async move {
            if let Some(Way::Http1(sender)) = making.clone().make().await? {
                making.lane().idle.keep(sender);
            }
            Ok(())
        });
        let coming = coming.shared();
        open.coming = coming.downgrade();
        Found::Wait(coming)
    }

    /// Makes a connection. One of HTTP/2 is there for everybody; one of HTTP/1.1 is given.
    async fn make(self) -> Result<Option<Way>, Unreachable> {
        let pool = &self.pool;
        let made = async {
            match pool.dialer.dial(Offer::Both).await? {
                Dialed::Http2(io) => Link::open(io, pool.keepalive).await.map(Ok),
                Dialed::Http1(io) => Sender::open(io).await.map(Err),
            }
        };
        let made: Result<_, BoxError> = match pool.dialer.within() {
            Some(within) => tokio::time::timeout(within, made).await.unwrap_or_else(|late| Err(late.into())),
            None => made.await,
        };
        let made = made?;
        let mut open = self.lane().open.lock();
        open.is_http1 = made.is_err();
        Ok(match made {
            Ok(link) => {
                open.links.push(link);
                None
            }
            Err(sender) => Some(Way::Http1(sender)),
        })
    }
}
