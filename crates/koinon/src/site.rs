//! One embedded cluster: its API server and its controllers, which can be stopped and started.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, header};
use koinon_apiserver::auth::User;
use koinon_apiserver::auth::pki::Authority;
use koinon_apiserver::context::Context;
use koinon_apiserver::serve::{Options, Server};
use parking_lot::RwLock;
use serde_json::json;
use tower::ServiceExt as _;

use crate::keeper::{Keeper, Kept};
use crate::wire::Wire;

/// What sites of one process have in common.
#[derive(Clone)]
pub(crate) struct Ground {
    pub(crate) authority: Arc<Authority>,
    pub(crate) context: Context,
    pub(crate) port: u16,
}

/// A cluster of this process.
pub(crate) struct Site {
    name: String,
    folder: PathBuf,
    kept: Kept,
    ground: Ground,
    running: RwLock<Option<Running>>,
    pub(crate) wire: Arc<Wire>,
}

struct Running {
    server: Server,
    public: Router,
    trusted: Router,
    keeper: Keeper,
}

impl Site {
    /// A cluster that does not run yet.
    pub(crate) fn new(name: &str, folder: PathBuf, kept: Kept, ground: &Ground) -> Arc<Site> {
        Arc::new(Site {
            name: name.into(),
            folder,
            kept,
            ground: ground.clone(),
            running: RwLock::default(),
            wire: Arc::default(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.read().is_some()
    }

    /// Opens the store and starts server and controllers; nothing happens where they run.
    pub(crate) async fn start(&self) -> anyhow::Result<()> {
        if self.is_running() {
            return Ok(());
        }
        let options =
            Options { data: Some(self.folder.clone()), port: self.ground.port, ..Options::default() };
        let server = Server::open(options, &self.ground.authority, self.ground.context.clone())
            .await
            .with_context(|| format!("the cluster {} cannot start", self.name))?;
        let keeper = Keeper::start(&server, &self.kept, &self.ground);
        let admin = User::new("koinon", &["system:masters", "system:authenticated"]);
        let running =
            Running { public: server.router(), trusted: server.trusted_router(admin), server, keeper };
        *self.running.write() = Some(running);
        Ok(())
    }

    /// Done once the cluster has what it is to have from its start, such as nodes.
    pub(crate) async fn settled(&self) {
        let settled = self.running.read().as_ref().map(|running| running.keeper.settled());
        if let Some(settled) = settled {
            settled.await;
        }
    }

    /// Ends controllers and server, as a cluster that loses its power: what was acknowledged is on disk.
    pub(crate) async fn stop(&self) {
        let Some(running) = self.running.write().take() else { return };
        running.keeper.stop().await;
        running.server.close().await;
    }

    /// The API as users reach it, whether the cluster runs or not.
    pub(crate) fn router(self: &Arc<Self>) -> Router {
        Router::new().fallback(public).with_state(self.clone())
    }

    /// The API as the federation reaches it, over a wire that can be cut, without a socket.
    pub(crate) fn from_federation(self: &Arc<Self>) -> Router {
        self.from_member(self)
    }

    /// The API as a program beside the cluster reaches it, whatever becomes of the wire.
    pub(crate) fn from_beside(self: &Arc<Self>) -> Router {
        let site = self.clone();
        let answer = move |request: Request| {
            let site = site.clone();
            async move { site.answer(request, |running| running.trusted.clone()).await }
        };
        Router::new().fallback(answer)
    }

    /// The API as a member reaches it, over the member's wire.
    pub(crate) fn from_member(self: &Arc<Self>, member: &Site) -> Router {
        let (site, wire) = (self.clone(), member.wire.clone());
        let answer = move |request: Request| {
            let (site, wire) = (site.clone(), wire.clone());
            async move { site.carried(&wire, request).await }
        };
        Router::new().fallback(answer)
    }

    async fn carried(self: Arc<Self>, wire: &Arc<Wire>, request: Request) -> Response {
        let call = async move |request: http::Request<Body>| {
            Ok(self.answer(request, |running| running.trusted.clone()).await)
        };
        wire.carry(request, call).await
    }

    async fn answer(&self, request: Request, door: fn(&Running) -> Router) -> Response {
        let router = self.running.read().as_ref().map(door);
        match router {
            Some(router) => router.oneshot(request).await.unwrap_or_else(|never: Infallible| match never {}),
            None => self.stopped(),
        }
    }

    fn stopped(&self) -> Response {
        let message = format!("the cluster {0} is stopped; `koinon lab start {0}` starts it", self.name);
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": "ServiceUnavailable", "code": 503,
        });
        let kind = [(header::CONTENT_TYPE, "application/json")];
        (StatusCode::SERVICE_UNAVAILABLE, kind, status.to_string()).into_response()
    }
}

async fn public(State(site): State<Arc<Site>>, request: Request) -> Response {
    site.wire.pass().await;
    site.answer(request, |running| running.public.clone()).await
}
