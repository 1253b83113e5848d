//! The way from the role to one API server, which can be cut, made to refuse, and counts what is written.

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use futures::StreamExt as _;
use http::{Method, Request, Response};
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::watch;
use tower::ServiceExt as _;

use crate::chaos::{Chance, Fate};

type Fault = Box<dyn Fn(&Method, &str) -> Option<u16> + Send + Sync>;

/// Everything that one run of the role writes, wherever; it can be made to die after any of its writes.
#[derive(Default)]
pub(crate) struct Log {
    writes: Mutex<Vec<String>>,
    dies_after: Mutex<Option<usize>>,
}

impl Log {
    /// What was written, but for events.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.writes.lock().clone()
    }

    pub(crate) fn die_after(&self, writes: usize) {
        *self.dies_after.lock() = Some(writes);
    }

    fn is_dead(&self) -> bool {
        self.dies_after.lock().is_some_and(|most| self.writes.lock().len() >= most)
    }

    fn note(&self, wire: &str, request: &Request<kube::client::Body>) {
        let path = request.uri().path();
        if request.method() != Method::GET && !path.contains("/events") {
            self.writes.lock().push(format!("{wire} {} {path}", request.method()));
        }
    }
}

/// A way to one server.
#[derive(Clone)]
pub(crate) struct Wire {
    name: Arc<str>,
    up: watch::Sender<bool>,
    router: Router,
    fault: Arc<Mutex<Option<Fault>>>,
    chance: Arc<Mutex<Option<Chance>>>,
}

impl Wire {
    pub(crate) fn new(name: &str, router: Router) -> Wire {
        Wire {
            name: name.into(),
            up: watch::Sender::new(true),
            router,
            fault: Arc::default(),
            chance: Arc::default(),
        }
    }

    pub(crate) fn cut(&self) {
        self.up.send_replace(false);
    }

    pub(crate) fn heal(&self) {
        self.up.send_replace(true);
    }

    /// From now on, requests are answered with the status that `fault` gives.
    pub(crate) fn refuse(&self, fault: impl Fn(&Method, &str) -> Option<u16> + Send + Sync + 'static) {
        *self.fault.lock() = Some(Box::new(fault));
    }

    pub(crate) fn accept(&self) {
        *self.fault.lock() = None;
    }

    /// From now on requests meet with faults, by this seed; or with none.
    pub(crate) fn chaos(&self, seed: Option<u64>) {
        *self.chance.lock() = seed.map(Chance::new);
    }

    /// What happens to the next request.
    fn fate(&self, watches: bool) -> Fate {
        self.chance.lock().as_mut().map_or(Fate::Passes, |chance| Fate::draw(chance, watches))
    }

    /// A client that goes this way, and writes down what it writes.
    pub(crate) fn client(&self, log: &Arc<Log>) -> Client {
        let (wire, log) = (self.clone(), log.clone());
        let service = tower::service_fn(move |request| wire.clone().answer(log.clone(), request));
        Client::new(service, "default")
    }

    async fn answer(self, log: Arc<Log>, request: Request<kube::client::Body>) -> io::Result<Response<Body>> {
        if log.is_dead() {
            std::future::pending::<()>().await;
        }
        if !*self.up.borrow() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let fate = self.fate(watches);
        match fate {
            Fate::Lost => return Err(io::ErrorKind::ConnectionReset.into()),
            Fate::Hangs => std::future::pending::<()>().await,
            Fate::Refused(code) => return Ok(refusal(code)),
            Fate::Late(time) => tokio::time::sleep(time).await,
            Fate::Passes | Fate::Unanswered => {}
        }
        log.note(&self.name, &request);
        let refused =
            self.fault.lock().as_ref().and_then(|fault| fault(request.method(), request.uri().path()));
        if let Some(code) = refused {
            return Ok(refusal(code));
        }
        let writes = request.method() != Method::GET;
        let answer = self.router.clone().oneshot(request).await.map_err(io::Error::other)?;
        if writes && log.is_dead() {
            // It was written, and nobody hears of it.
            std::future::pending::<()>().await;
        }
        if fate == Fate::Unanswered {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let (head, body) = answer.into_parts();
        let (up, chance) = (self.up.subscribe(), self.chance.clone());
        let breaks = move || watches && chance.lock().as_mut().is_some_and(|chance| chance.below(50) == 0);
        let frames = futures::stream::unfold((body.into_data_stream(), false), move |(mut frames, ended)| {
            let (up, log, breaks) = (up.clone(), log.clone(), breaks.clone());
            async move {
                if ended {
                    return None;
                }
                tokio::select! {
                    biased;
                    () = cut(up) => {
                        Some((Err(io::Error::from(io::ErrorKind::ConnectionReset)), (frames, true)))
                    }
                    frame = frames.next() => {
                        if log.is_dead() {
                            std::future::pending::<()>().await;
                        }
                        if breaks() {
                            let broken = io::Error::from(io::ErrorKind::ConnectionReset);
                            return Some((Err(broken), (frames, true)));
                        }
                        frame.map(|frame| (frame.map_err(io::Error::other), (frames, false)))
                    }
                }
            }
        });
        Ok(Response::from_parts(head, Body::from_stream(frames)))
    }
}

async fn cut(mut up: watch::Receiver<bool>) {
    let _ = up.wait_for(|up| !*up).await;
}

fn refusal(code: u16) -> Response<Body> {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no such thing here", "code": code,
    });
    let response = Response::builder().status(code).header("content-type", "application/json");
    response.body(Body::from(status.to_string())).unwrap()
}
