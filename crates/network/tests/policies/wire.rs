//! The way from one process to one API server, which can be cut, made to refuse, and writes down what is written.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use futures::StreamExt as _;
use http::{Method, Request, Response};
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::watch;
use tower::ServiceExt as _;

type Fault = Box<dyn Fn(&Method, &str) -> Option<(u16, String)> + Send + Sync>;

/// What one process writes, wherever. It can be made to die after any of its writes.
#[derive(Default)]
pub(crate) struct Log {
    writes: Mutex<Vec<String>>,
    /// Writes that are left before the process dies, if it does; counted from one.
    left: AtomicUsize,
    dead: watch::Sender<bool>,
}

impl Log {
    /// What was written, but for events and leases.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.writes.lock().clone()
    }

    pub(crate) fn die_after(&self, writes: usize) {
        self.left.store(writes.max(1), Ordering::SeqCst);
    }

    fn is_dead(&self) -> bool {
        *self.dead.borrow()
    }

    fn note(&self, wire: &str, request: &Request<kube::client::Body>) {
        let path = request.uri().path();
        let counts = !path.contains("/events") && !path.contains("/leases");
        if request.method() != Method::GET && counts {
            self.writes.lock().push(format!("{wire} {} {path}", request.method()));
            let left = self.left.load(Ordering::SeqCst);
            if left > 0 && self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
                self.dead.send_replace(true);
            }
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
}

impl Wire {
    pub(crate) fn new(name: &str, router: Router) -> Wire {
        Wire { name: name.into(), up: watch::Sender::new(true), router, fault: Arc::default() }
    }

    pub(crate) fn cut(&self) {
        self.up.send_replace(false);
    }

    pub(crate) fn heal(&self) {
        self.up.send_replace(true);
    }

    /// From now on, requests are answered with the status and message that `fault` gives.
    pub(crate) fn refuse(
        &self,
        fault: impl Fn(&Method, &str) -> Option<(u16, String)> + Send + Sync + 'static,
    ) {
        *self.fault.lock() = Some(Box::new(fault));
    }

    pub(crate) fn accept(&self) {
        *self.fault.lock() = None;
    }

    /// A client that goes this way.
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
        let refused =
            self.fault.lock().as_ref().and_then(|fault| fault(request.method(), request.uri().path()));
        if let Some((code, message)) = refused {
            return Ok(refusal(code, &message));
        }
        log.note(&self.name, &request);
        let answer = self.router.clone().oneshot(request).await.map_err(io::Error::other)?;
        if log.is_dead() {
            // It was written, and nobody hears of it.
            std::future::pending::<()>().await;
        }
        let (head, body) = answer.into_parts();
        let (up, dead) = (self.up.subscribe(), log.dead.subscribe());
        let frames = futures::stream::unfold((body.into_data_stream(), false), move |(mut frames, ended)| {
            let (up, dead) = (up.clone(), dead.clone());
            async move {
                if ended {
                    return None;
                }
                tokio::select! {
                    biased;
                    () = became(dead, true) => std::future::pending().await,
                    () = became(up, false) => {
                        Some((Err(io::Error::from(io::ErrorKind::ConnectionReset)), (frames, true)))
                    }
                    frame = frames.next() => {
                        frame.map(|frame| (frame.map_err(io::Error::other), (frames, false)))
                    }
                }
            }
        });
        Ok(Response::from_parts(head, Body::from_stream(frames)))
    }
}

async fn became(mut state: watch::Receiver<bool>, wanted: bool) {
    let _ = state.wait_for(|state| *state == wanted).await;
}

fn refusal(code: u16, message: &str) -> Response<Body> {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code,
    });
    let response = Response::builder().status(code).header("content-type", "application/json");
    response.body(Body::from(status.to_string())).unwrap()
}
