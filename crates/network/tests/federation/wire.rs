//! The way from one supervisor to one API server, which can be cut, and notes what is written there.

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

/// What supervisors write about Services, wherever.
#[derive(Default)]
pub(crate) struct Log(Mutex<Vec<String>>);

impl Log {
    pub(crate) fn writes(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

/// What goes wrong with some requests, wherever they come from.
#[derive(Default)]
pub(crate) struct Faults(Mutex<Vec<Fault>>);

/// What goes wrong with requests to one cluster that look so.
pub(crate) struct Fault {
    pub(crate) cluster: &'static str,
    /// Of all methods, if empty.
    pub(crate) method: &'static str,
    /// What is in the path.
    pub(crate) path: &'static str,
    /// What is in the body.
    pub(crate) body: &'static str,
    pub(crate) how: How,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// The server answers so, and does nothing.
    Refused(u16, &'static str),
    /// The server finds a field of the object invalid, and does nothing.
    Invalid(&'static str),
    /// The server does it, but nobody hears of it.
    Lost,
}

impl Faults {
    pub(crate) fn add(&self, fault: Fault) {
        self.0.lock().push(fault);
    }

    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }

    fn find(&self, cluster: &str, method: &Method, path: &str, body: &[u8]) -> Option<How> {
        let contains = |body: &[u8], part: &str| String::from_utf8_lossy(body).contains(part);
        let faults = self.0.lock();
        let found = faults.iter().find(|one| {
            one.cluster == cluster
                && (one.method.is_empty() || one.method == method.as_str())
                && path.contains(one.path)
                && (one.body.is_empty() || contains(body, one.body))
        });
        found.map(|one| one.how)
    }
}

#[derive(Clone)]
pub(crate) struct Wire {
    name: Arc<str>,
    up: watch::Sender<bool>,
    router: Router,
    log: Arc<Log>,
    faults: Arc<Faults>,
}

impl Wire {
    pub(crate) fn new(name: &str, router: Router, log: &Arc<Log>, faults: &Arc<Faults>) -> Wire {
        let (log, faults) = (log.clone(), faults.clone());
        Wire { name: name.into(), up: watch::Sender::new(true), router, log, faults }
    }

    pub(crate) fn set(&self, up: bool) {
        self.up.send_replace(up);
    }

    pub(crate) fn client(&self) -> Client {
        let wire = self.clone();
        Client::new(tower::service_fn(move |request| wire.clone().answer(request)), "default")
    }

    async fn answer(self, request: Request<kube::client::Body>) -> io::Result<Response<Body>> {
        if !*self.up.borrow() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (head, body) = request.into_parts();
        let body = axum::body::to_bytes(Body::new(body), usize::MAX).await.map_err(io::Error::other)?;
        let path = head.uri.path();
        let fault = self.faults.find(&self.name, &head.method, path, &body);
        if head.method != Method::GET && (path.contains("/service") || path.contains("/endpointslices")) {
            self.log.0.lock().push(format!("{} {} {path}", self.name, head.method));
        }
        let refusal = match fault {
            Some(How::Refused(code, message)) => Some((code, message.to_owned(), None)),
            Some(How::Invalid(field)) => Some((422, format!("{field}: Unsupported value"), Some(field))),
            Some(How::Lost) | None => None,
        };
        if let Some((code, message, field)) = refusal {
            let causes: Vec<_> = field.iter().map(|field| serde_json::json!({"field": field})).collect();
            let status = serde_json::json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message,
                "reason": "Invalid", "details": {"causes": causes},
            });
            let answer = Response::builder().status(code).header("content-type", "application/json");
            return answer.body(Body::from(status.to_string())).map_err(io::Error::other);
        }
        let request = Request::from_parts(head, Body::from(body));
        let answer = self.router.clone().oneshot(request).await.map_err(io::Error::other)?;
        if fault == Some(How::Lost) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let (head, body) = answer.into_parts();
        let up = self.up.subscribe();
        let frames = futures::stream::unfold((body.into_data_stream(), false), move |(mut frames, ended)| {
            let mut up = up.clone();
            async move {
                if ended {
                    return None;
                }
                tokio::select! {
                    biased;
                    _ = up.wait_for(|up| !*up) => {
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
