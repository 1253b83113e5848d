//! A member in this process, behind a wire that can fall silent and counts what passes.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use axum::Router;
use axum::body::Body;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{Request, Response};
use koinon_apiserver::auth::User;
use koinon_apiserver::auth::pki::Authority;
use koinon_apiserver::context::Context;
use koinon_apiserver::serve::{Options, Server};
use koinon_fleet::{ClusterId, Link, Wanted};
use kube::Client;
use tokio::sync::watch;
use tower::ServiceExt as _;

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Mode {
    Up,
    /// Nothing comes back, not even on connections that are open, and nobody is told.
    Silent,
}

pub(super) struct Site {
    pub(super) id: ClusterId,
    wire: Wire,
}

#[derive(Clone)]
struct Wire {
    router: Router,
    mode: watch::Sender<Mode>,
    begun: Instant,
    /// In which second each request was sent.
    requests: Arc<std::sync::Mutex<Vec<u64>>>,
}

impl Site {
    pub(super) async fn open_all(count: usize, at_once: usize) -> Result<Vec<Site>> {
        let begun = Instant::now();
        stream::iter(0..count)
            .map(|number| Site::open(format!("m{number:05}"), begun))
            .buffered(at_once)
            .try_collect()
            .await
    }

    async fn open(name: String, begun: Instant) -> Result<Site> {
        let context = Context::real();
        let authority = Authority::in_memory(&context)?;
        let server = Server::open(Options::default(), &authority, context).await?;
        let router = server.trusted_router(User::new("system:admin", &["system:masters"]));
        let wire = Wire { router, mode: watch::Sender::new(Mode::Up), begun, requests: Arc::default() };
        Ok(Site { id: ClusterId::new(&name)?, wire })
    }

    pub(super) fn wanted(&self) -> Wanted {
        let wire = self.wire.clone();
        let client = Client::new(tower::service_fn(move |request| wire.clone().answer(request)), "default");
        Wanted { link: Link::Direct(client), uid: None }
    }

    pub(super) fn set(&self, mode: Mode) {
        self.wire.mode.send_replace(mode);
    }

    pub(super) fn requests(&self) -> Vec<u64> {
        self.wire.requests.lock().map(|requests| requests.clone()).unwrap_or_default()
    }

    pub(super) fn forget_requests(&self) {
        if let Ok(mut requests) = self.wire.requests.lock() {
            requests.clear();
        }
    }
}

async fn silence(mode: &mut watch::Receiver<Mode>) {
    // Whoever could make it silent is gone: then it never is.
    if mode.wait_for(|mode| *mode == Mode::Silent).await.is_err() {
        std::future::pending::<()>().await;
    }
}

impl Wire {
    async fn answer(self, request: Request<kube::client::Body>) -> io::Result<Response<Body>> {
        if let Ok(mut requests) = self.requests.lock() {
            requests.push(self.begun.elapsed().as_secs());
        }
        let mode = self.mode.subscribe();
        if *mode.borrow() == Mode::Silent {
            std::future::pending::<()>().await;
        }
        let answer = self.router.oneshot(request).await.map_err(io::Error::other)?;
        let (head, body) = answer.into_parts();
        let frames = body.into_data_stream();
        let gated = stream::unfold((frames, mode), |(mut frames, mut mode)| async {
            tokio::select! {
                biased;
                // What was on its way when it fell silent stays lost.
                () = silence(&mut mode) => std::future::pending().await,
                frame = frames.next() => frame.map(|frame| (frame.map_err(io::Error::other), (frames, mode))),
            }
        });
        Ok(Response::from_parts(head, Body::from_stream(gated)))
    }
}
