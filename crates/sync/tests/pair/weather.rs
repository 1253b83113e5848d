//! What a syncer's requests meet on their way to one API server.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use futures::StreamExt as _;
use futures::stream;
use http::{Method, Request, Response};
use kube::Client;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;
use tower::ServiceExt as _;

/// How the link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sky {
    Clear,
    /// Nothing gets through, and what was open breaks.
    Cut,
    /// Nothing gets through, and nobody is told.
    Silent,
    /// Watches that are open show nothing more and new ones show nothing at all; the rest works.
    Stalled,
    /// The server does not know us.
    Unknown,
    /// Every second write is in conflict.
    Conflicts,
    /// The answer to every second write is lost; the write is not.
    Forgetful,
    /// Every third request fails.
    Flaky,
}

/// One link.
pub(crate) struct Weather {
    sky: watch::Sender<Sky>,
    count: Mutex<usize>,
    writes: Mutex<Vec<String>>,
}

impl Weather {
    pub(crate) fn clear() -> Arc<Weather> {
        Arc::new(Weather {
            sky: watch::Sender::new(Sky::Clear),
            count: Mutex::new(0),
            writes: Mutex::default(),
        })
    }

    pub(crate) fn turn(&self, sky: Sky) {
        self.sky.send_replace(sky);
    }

    /// What was sent to change objects, apart from what a syncer writes about itself.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.writes.lock().clone()
    }

    /// All requests so far.
    pub(crate) fn count(&self) -> usize {
        *self.count.lock()
    }

    /// A client whose requests go through this weather.
    pub(crate) fn client(self: &Arc<Self>, router: axum::Router) -> Client {
        let weather = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let (weather, router) = (weather.clone(), router.clone());
            async move { weather.carry(router, request).await }
        });
        Client::new(service, "default")
    }

    async fn carry(
        &self,
        router: axum::Router,
        request: Request<kube::client::Body>,
    ) -> io::Result<Response<Body>> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let writes = method != Method::GET;
        let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let number = {
            let mut count = self.count.lock();
            *count += 1;
            *count
        };
        let aside = ["/leases", "/events", "/configmaps", "customresourcedefinitions/"];
        if writes && path != "/api/v1/namespaces" && !aside.iter().any(|aside| path.contains(aside)) {
            self.writes.lock().push(format!("{method} {path}"));
        }
        let mut sky = self.sky.subscribe();
        let now = *sky.borrow_and_update();
        match now {
            Sky::Cut => return Err(io::ErrorKind::ConnectionRefused.into()),
            Sky::Silent => std::future::pending().await,
            Sky::Stalled if watches => std::future::pending().await,
            Sky::Unknown => return Ok(refusal(401)),
            Sky::Conflicts if writes && number.is_multiple_of(2) => return Ok(refusal(409)),
            Sky::Flaky if number.wrapping_mul(0x9e37_79b9) >> 7 & 3 == 0 => {
                return Ok(refusal([500, 503, 429, 504][number % 4]));
            }
            _ => {}
        }
        let answer = router.oneshot(request).await.expect("a router always answers");
        if now == Sky::Forgetful && writes && number.is_multiple_of(2) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let (parts, body) = answer.into_parts();
        if !watches {
            return Ok(Response::from_parts(parts, body));
        }
        Ok(Response::from_parts(parts, Body::from_stream(exposed(body, sky))))
    }
}

/// A stream that breaks or stalls with the weather. What once stalled never comes back.
fn exposed(
    body: Body,
    sky: watch::Receiver<Sky>,
) -> impl futures::Stream<Item = io::Result<axum::body::Bytes>> {
    stream::unfold(Some((body.into_data_stream(), sky)), |state| async move {
        let (mut data, mut sky) = state?;
        loop {
            let now = *sky.borrow_and_update();
            match now {
                Sky::Cut => return Some((Err(io::ErrorKind::ConnectionReset.into()), None)),
                Sky::Silent | Sky::Stalled => std::future::pending().await,
                _ => {}
            }
            tokio::select! {
                chunk = data.next() => return Some((chunk?.map_err(io::Error::other), Some((data, sky)))),
                changed = sky.changed() => changed.ok()?,
            }
        }
    })
}

fn refusal(code: u16) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "weather", "code": code});
    let answer = Response::builder().status(code).header("content-type", "application/json");
    answer.body(status.to_string().into()).expect("an answer")
}
