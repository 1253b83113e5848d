//! The way from a federator to a cluster: it can be cut, slow or faulty, and knows all that was written.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream;
use http::{Method, Request, Response};
use kube::Client;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Notify, watch};
use tower::ServiceExt as _;

/// What a request meets on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Way {
    #[default]
    Open,
    /// Nothing gets an answer, and what is on its way never arrives.
    Cut,
    /// Every request takes this long.
    Slow(Duration),
    /// One of so many requests fails, and of those that write, one of so many takes place and its answer is lost.
    Faulty(usize),
    /// Nobody listens.
    Refused,
}

/// Ends a federator at one of its requests.
#[derive(Default)]
pub(crate) struct Fuse {
    left: Mutex<Option<usize>>,
    pub(crate) blown: Notify,
}

impl Fuse {
    /// The federator ends after so many more requests.
    pub(crate) fn after(&self, requests: usize) {
        *self.left.lock() = Some(requests);
    }

    fn burns(&self) -> bool {
        let mut left = self.left.lock();
        match &mut *left {
            Some(0) => true,
            Some(more) => {
                *more -= 1;
                *more == 0
            }
            None => false,
        }
    }
}

/// Looks at every write before it leaves.
pub(crate) type Witness = Arc<dyn Fn(String) -> BoxFuture<'static, ()> + Send + Sync>;

/// One way from one federator to one cluster.
pub(crate) struct Wire {
    pub(crate) way: watch::Sender<Way>,
    pub(crate) witness: Mutex<Option<Witness>>,
    count: AtomicUsize,
    writes: Mutex<Vec<String>>,
}

impl Wire {
    pub(crate) fn new() -> Arc<Wire> {
        let way = watch::Sender::new(Way::Open);
        let (count, writes) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Wire { way, witness: Mutex::default(), count, writes })
    }

    /// All that was written this way, Leases and events left out: those go on.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.writes.lock().clone()
    }

    /// A client that goes this way.
    pub(crate) fn client(self: &Arc<Self>, router: &Router, fuse: &Arc<Fuse>) -> Client {
        let (wire, router, fuse) = (self.clone(), router.clone(), fuse.clone());
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let (wire, router, fuse) = (wire.clone(), router.clone(), fuse.clone());
            async move { wire.carry(request, router, &fuse).await }
        });
        Client::new(service, "default")
    }

    async fn carry(
        &self,
        request: Request<kube::client::Body>,
        router: Router,
        fuse: &Fuse,
    ) -> Result<Response<Body>, Error> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let witness = self.witness.lock().clone();
        if let Some(witness) = witness.filter(|_| method != Method::GET) {
            witness(format!("{method} {path}")).await;
        }
        let way = *self.way.borrow();
        let dice = self.count.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let mut lost = false;
        match way {
            Way::Open => {}
            Way::Refused => return Err(Error),
            Way::Cut => std::future::pending().await,
            Way::Slow(delay) => tokio::time::sleep(delay).await,
            Way::Faulty(every) if dice.is_multiple_of(every) => {
                lost = true;
                if (dice / every).is_multiple_of(2) || request.method() == Method::GET {
                    return Ok(failure([503, 500, 429, 409][dice / every % 4]));
                }
            }
            Way::Faulty(_) => {}
        }
        if method != Method::GET && !path.contains("/leases") && !path.contains("/events") {
            self.writes.lock().push(format!("{method} {path}"));
        }
        let answer = router.oneshot(request).await.map_err(|never| match never {})?;
        if fuse.burns() {
            fuse.blown.notify_one();
            std::future::pending().await
        }
        if lost {
            return Ok(failure(504));
        }
        Ok(answer.map(|body| self.body(body)))
    }

    /// An answer that falls silent when the way is cut, and stays so: its sockets are dead then.
    fn body(&self, body: Body) -> Body {
        let state = (body.into_data_stream(), self.way.subscribe());
        Body::from_stream(stream::unfold(state, |(mut data, mut way)| async move {
            tokio::select! {
                biased;
                () = async { drop(way.wait_for(|way| matches!(way, Way::Cut)).await) } => std::future::pending().await,
                item = data.next() => item.map(|item| (item, (data, way))),
            }
        }))
    }
}

#[derive(Debug)]
pub(crate) struct Error;

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("connection refused")
    }
}

impl std::error::Error for Error {}

fn failure(code: u16) -> Response<Body> {
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "fault", "code": code});
    let response = Response::builder().status(code).header("content-type", "application/json");
    response.body(Body::from(status.to_string())).expect("an answer")
}
