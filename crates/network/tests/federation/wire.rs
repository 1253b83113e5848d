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

#[derive(Clone)]
pub(crate) struct Wire {
    name: Arc<str>,
    up: watch::Sender<bool>,
    router: Router,
    log: Arc<Log>,
}

impl Wire {
    pub(crate) fn new(name: &str, router: Router, log: &Arc<Log>) -> Wire {
        Wire { name: name.into(), up: watch::Sender::new(true), router, log: log.clone() }
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
        let path = request.uri().path();
        if request.method() != Method::GET && (path.contains("/service") || path.contains("/endpointslices"))
        {
            self.log.0.lock().push(format!("{} {} {path}", self.name, request.method()));
        }
        let answer = self.router.clone().oneshot(request).await.map_err(io::Error::other)?;
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
