//! One embedded cluster: its API server and its controllers, which can be stopped and started.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, header};
use koinon_apiserver::auth::User;
use koinon_apiserver::auth::identity::{AUTHENTICATED, MASTERS, bearer};
use koinon_apiserver::auth::pki::{Authority, ServerNames};
use koinon_apiserver::serve::{Limits, Options, PeerCertificate, Server, Trusted, advertised};
use koinon_context::Context;
use parking_lot::RwLock;
use serde_json::json;
use tower::ServiceExt as _;

use crate::folder;
use crate::keeper::{Keeper, Kept};
use crate::wire::Wire;

/// What sites of one process have in common.
#[derive(Clone)]
pub(crate) struct Ground {
    /// Of the listener that all of them are behind: clients trust the server by its certificate.
    pub(crate) authority: Arc<Authority>,
    pub(crate) context: Context,
    /// What the listener is bound to.
    pub(crate) address: SocketAddr,
    pub(crate) in_flight: Limits,
}

/// A cluster of this process.
pub(crate) struct Site {
    name: String,
    folder: PathBuf,
    kept: Kept,
    ground: Ground,
    /// Whose clients the cluster knows, and who signs its accounts' tokens. Another cluster's count for nothing here.
    authority: OnceLock<Arc<Authority>>,
    running: RwLock<Option<Running>>,
    pub(crate) wire: Arc<Wire>,
}

struct Running {
    server: Server,
    public: Router,
    keeper: Keeper,
}

impl Site {
    /// A cluster that does not run yet. Its authority is in its folder, made by its first start.
    pub(crate) fn new(name: &str, folder: PathBuf, kept: Kept, ground: &Ground) -> Arc<Site> {
        Arc::new(Site {
            name: name.into(),
            folder,
            kept,
            ground: ground.clone(),
            authority: OnceLock::new(),
            running: RwLock::default(),
            wire: Arc::default(),
        })
    }

    /// The same for the cluster whose authority is also that of the listener.
    pub(crate) fn first(name: &str, folder: PathBuf, kept: Kept, ground: &Ground) -> Arc<Site> {
        let site = Site::new(name, folder, kept, ground);
        let _ = site.authority.set(ground.authority.clone());
        site
    }

    /// Its authority, once it was started.
    pub(crate) fn authority(&self) -> anyhow::Result<&Arc<Authority>> {
        self.authority.get().with_context(|| format!("the cluster {} was never started", self.name))
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
        let options = Options {
            data: Some(self.folder.clone()),
            address: advertised(self.ground.address.ip()),
            port: self.ground.address.port(),
            in_flight: self.ground.in_flight,
            ..Options::default()
        };
        let failed = || format!("the cluster {} cannot start", self.name);
        folder::private(&self.folder)?;
        if self.authority.get().is_none() {
            let names = ServerNames::default();
            let own = Authority::open(&self.folder, &names, &self.ground.context).with_context(failed)?;
            let _ = self.authority.set(Arc::new(own));
        }
        let server = Server::open(options, self.authority()?, self.ground.context.clone())
            .await
            .with_context(failed)?;
        let keeper = Keeper::start(&server, &self.kept, &self.ground);
        let running = Running { public: server.router(), server, keeper };
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

    /// The API as a part of the federation with this account reaches it, over a wire that can be cut, without a socket.
    pub(crate) fn from_federation(self: &Arc<Self>, user: User) -> Router {
        self.from_member(self, user)
    }

    /// The API as a program beside the cluster reaches it, whatever becomes of the wire.
    pub(crate) fn from_beside(self: &Arc<Self>, user: User) -> Router {
        let site = self.clone();
        let answer = move |request: Request| {
            let (site, user) = (site.clone(), user.clone());
            async move { site.trusted(request, user).await }
        };
        Router::new().fallback(answer)
    }

    /// The API as a member reaches it, over the member's wire.
    pub(crate) fn from_member(self: &Arc<Self>, member: &Site, user: User) -> Router {
        let (site, wire) = (self.clone(), member.wire.clone());
        let answer = move |request: Request| {
            let (site, wire, user) = (site.clone(), wire.clone(), user.clone());
            async move {
                let call = async move |request: http::Request<Body>| Ok(site.trusted(request, user).await);
                wire.carry(request, call).await
            }
        };
        Router::new().fallback(answer)
    }

    async fn trusted(&self, mut request: Request, user: User) -> Response {
        request.extensions_mut().insert(Trusted(user));
        self.answer(request).await
    }

    async fn answer(&self, request: Request) -> Response {
        let router = self.running.read().as_ref().map(|running| running.public.clone());
        match router {
            Some(router) => router.oneshot(request).await.unwrap_or_else(|never: Infallible| match never {}),
            None => self.stopped(),
        }
    }

    fn stopped(&self) -> Response {
        let message = format!("the cluster {0} is stopped; `koinon lab start {0}` starts it", self.name);
        failure(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", &message)
    }

    /// Has a client's certificate count only where this cluster's authority issued it: the handshake did not look at that
    /// where several clusters share a listener. Says whether the request may go on.
    fn screen(&self, request: &mut Request) -> bool {
        let Some(PeerCertificate(shown)) = request.extensions().get() else { return true };
        if self.authority.get().is_some_and(|authority| authority.vouches_for(shown)) {
            return true;
        }
        request.extensions_mut().remove::<PeerCertificate>();
        // As everywhere, a bad credential matters only where there is no other.
        let header = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        header.and_then(bearer).is_some()
    }
}

/// Somebody of this process who may do everything, for what has to be there before any account.
pub(crate) fn administrator() -> User {
    User::new("koinon", &[MASTERS, AUTHENTICATED])
}

fn failure(code: StatusCode, reason: &str, message: &str) -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16(),
    });
    (code, [(header::CONTENT_TYPE, "application/json")], status.to_string()).into_response()
}

async fn public(State(site): State<Arc<Site>>, mut request: Request) -> Response {
    site.wire.pass().await;
    if !site.is_running() {
        return site.stopped();
    }
    if !site.screen(&mut request) {
        return failure(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized");
    }
    site.answer(request).await
}
