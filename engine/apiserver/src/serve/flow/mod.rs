//! Flow control: how many requests are served at a time, and whose turn it is.
//!
//! A request from a socket takes a seat before its body is read and keeps it until its answer has been sent. There
//! are seats for reading and for writing requests, as `--max-requests-inflight` and
//! `--max-mutating-requests-inflight` say. One user has at most half of them; whatever is more waits in that user's
//! queue, users take turns, and a request whose queue is full gets 429 with `Retry-After`. Watches are long-running
//! and have seats of their own, of which there are many; administrators (`system:masters`) are never made to wait.
//!
//! ```text
//! socket ─► who (auth) ─► seat (fair between users) ─► workers (fair between users) ─► answer
//! ```
//!
//! Requests that come without a socket, from controllers of this process and in simulations, pass all of this by.

mod queue;
mod seats;
pub(crate) mod workers;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use hyper::body::{Body as _, Bytes, Frame, SizeHint};

use self::seats::{Seat, Seats};
use self::workers::Workers;
use super::info::Info;
use crate::auth::User;
use crate::status::{Error, Result};

/// An answer of this size is on its way once it is made.
const SMALL: u64 = 64 * 1024;

/// How many requests are served at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests that read, watches excepted.
    pub reading: usize,
    /// Requests that write.
    pub mutating: usize,
    /// Watches that are open.
    pub watching: usize,
    /// A request that found no seat by then gets 429.
    pub queued: Duration,
    /// A request without an answer by then gets 504, as on a stock server.
    pub deadline: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            reading: 400,
            mutating: 200,
            watching: 10_000,
            queued: Duration::from_secs(15),
            deadline: Duration::from_secs(60),
        }
    }
}

/// Put into a request by the listener: it came through a socket, and these threads are to run it. On a runtime of
/// one thread there are none.
#[derive(Clone)]
pub(crate) struct FromSocket(pub(crate) Option<Arc<Workers>>);

/// The seats of one server.
pub(crate) struct Flow {
    reading: Arc<Seats>,
    mutating: Arc<Seats>,
    watching: Arc<Seats>,
    limits: Limits,
}

impl Flow {
    pub(crate) fn new(limits: Limits) -> Self {
        Flow {
            reading: Seats::new(limits.reading),
            mutating: Seats::new(limits.mutating),
            watching: Seats::new(limits.watching),
            limits,
        }
    }

    /// Serves a request of `user`: waits for a seat, then has `handler` run.
    pub(crate) async fn serve(
        &self,
        from: &FromSocket,
        user: &User,
        info: &Info,
        handler: impl Future<Output = Result<Response>> + Send + 'static,
    ) -> Result<Response> {
        let name: Arc<str> = user.name.as_str().into();
        let work = async {
            match &from.0 {
                Some(workers) => workers.run(name.clone(), handler).await.unwrap_or_else(|| {
                    Err(Error::internal("this request hit a fault in the server; see its log"))
                }),
                None => handler.await,
            }
        };
        let response = match class(info, user) {
            Class::LongRunning => {
                let seat = tokio::time::timeout(self.limits.queued, self.watching.take(&name)).await;
                let seat = seat.ok().flatten().ok_or_else(too_many)?;
                return work.await.map(|response| keep_while_sent(response, Some(seat)));
            }
            Class::Endless => return work.await,
            Class::Exempt => (None, tokio::time::timeout(self.limits.deadline, work).await),
            Class::Reading => self.seated(&self.reading, &name, work).await?,
            Class::Mutating => self.seated(&self.mutating, &name, work).await?,
        };
        match response {
            (seat, Ok(answer)) => answer.map(|response| keep_while_sent(response, seat)),
            (_, Err(_)) => Err(Error::new(
                504,
                "Timeout",
                format!("Timeout: request did not complete within {:?}", self.limits.deadline),
            )),
        }
    }

    async fn seated<T>(
        &self,
        seats: &Arc<Seats>,
        user: &Arc<str>,
        work: impl Future<Output = T>,
    ) -> Result<(Option<Seat>, std::result::Result<T, tokio::time::error::Elapsed>)> {
        let seat = tokio::time::timeout(self.limits.queued, seats.take(user)).await;
        let seat = seat.ok().flatten().ok_or_else(too_many)?;
        let answer = tokio::time::timeout(self.limits.deadline, work).await;
        Ok((Some(seat), answer))
    }
}

/// How a request counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// A seat among the watches, and no deadline.
    LongRunning,
    /// No seat and no deadline.
    Endless,
    /// No seat.
    Exempt,
    Reading,
    Mutating,
}

fn class(info: &Info, user: &User) -> Class {
    let is_exempt = user.groups.iter().any(|group| group == "system:masters");
    match info.verb {
        "watch" if is_exempt => Class::Endless,
        "watch" => Class::LongRunning,
        _ if is_exempt => Class::Exempt,
        "get" | "list" | "head" | "options" => Class::Reading,
        _ => Class::Mutating,
    }
}

/// Paths that probes ask for: they are answered whatever else goes on.
pub(crate) fn is_health(path: &str) -> bool {
    ["/healthz", "/livez", "/readyz"]
        .iter()
        .any(|one| path.strip_prefix(one).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// The answer to a request for which there is no room now.
pub(crate) fn too_many() -> Error {
    let mut error = Error::new(429, "TooManyRequests", "too many requests, please try again later");
    error.details = Some(Box::new(serde_json::json!({"retryAfterSeconds": 1})));
    error
}

/// An answer keeps its seat until it is sent, or a client that does not read could have any number of them made.
pub(crate) fn keep_while_sent<T: Send + Unpin + 'static>(response: Response, seat: Option<T>) -> Response {
    match seat {
        Some(seat) if response.body().size_hint().upper().is_none_or(|size| size > SMALL) => {
            response.map(|body| Body::new(Seated { body, _seat: seat }))
        }
        _ => response,
    }
}

/// A body that has a seat, or room in memory.
struct Seated<T> {
    body: Body,
    _seat: T,
}

impl<T: Unpin> hyper::body::Body for Seated<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn requests_count_for_what_they_do() {
        let check = |method: Method, path: &str, watch: bool, groups: &[&str], expected: Class| {
            let info = Info::parse(&method, path, watch);
            assert_eq!(class(&info, &User::new("u", groups)), expected, "{method} {path}");
        };
        let pods = "/api/v1/namespaces/n/pods";
        check(Method::GET, pods, false, &[], Class::Reading);
        check(Method::GET, pods, true, &[], Class::LongRunning);
        check(Method::GET, pods, true, &["system:masters"], Class::Endless);
        check(Method::GET, "/openapi/v2", false, &[], Class::Reading);
        check(Method::POST, pods, false, &[], Class::Mutating);
        check(Method::DELETE, pods, false, &[], Class::Mutating);
        check(
            Method::POST,
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            false,
            &[],
            Class::Mutating,
        );
        check(Method::POST, pods, false, &["system:masters"], Class::Exempt);
    }

    #[test]
    fn probes_are_known_by_their_paths() {
        for (path, expected) in [
            ("/healthz", true),
            ("/readyz/ping", true),
            ("/livez", true),
            ("/healthzz", false),
            ("/api", false),
        ] {
            assert_eq!(is_health(path), expected, "{path}");
        }
    }
}
