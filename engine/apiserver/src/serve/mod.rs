//! HTTP: from a request to an answer.
//!
//! ```text
//! request ─► who (auth) ─► what (info) ─► may they (rbac) ─► where (route) ─► handler ─► respond
//!                                                                             │
//!                                              read · watch · create · update · patch · delete
//! ```
//!
//! A [`Server`] is one cluster's API. It is a `tower::Service` through [`Server::router`], so a client can
//! call it with no socket at all; [`listen`] puts it behind TLS.

mod accept;
mod admit;
mod bootstrap;
mod call;
mod crds;
mod create;
mod creating;
mod delete;
mod discovery;
mod eviction;
mod expiry;
mod flow;
mod following;
#[cfg(test)]
mod fuzz;
mod health;
mod incoming;
mod info;
pub mod listen;
mod object;
mod openapi;
mod ownership;
mod parts;
mod patch;
mod pieces;
mod print;
mod query;
mod read;
mod respond;
mod reviews;
mod rollback;
mod route;
mod scale;
mod select;
mod services;
mod subresources;
mod update;
mod warn;
mod watch;
mod webhooks;
mod write;
mod yaml;

use std::net::{IpAddr, Ipv4Addr};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use futures::FutureExt as _;
use http::header::AUTHORIZATION;
use http::request::Parts;
use serde_json::Value;

use self::accept::{Accept, Encoding, Form, Tables};
use self::call::Call;
pub use self::flow::Limits;
use self::flow::{Flow, FromSocket};
use self::info::Info;
use self::parts::Part;
use self::pieces::Turns;
use self::query::Query;
use self::respond::Reply;
use crate::admission;
use crate::admission::policy::Policies;
use crate::auth::pki::Authority;
use crate::auth::rbac::{self, Attributes};
use crate::auth::{User, identity, impersonate, token};
use crate::catalog::{Catalog, Resource};
use crate::context::Context;
use crate::status::{Error, Result};
use crate::store::{self, Store};

/// The name under which service-account tokens are issued, as on most clusters.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// How a server is set up.
#[derive(Clone)]
pub struct Options {
    /// Where objects are kept; in memory alone when there is no folder.
    pub data: Option<PathBuf>,
    /// Addresses for Services, such as `10.96.0.0/16`.
    pub service_range: String,
    /// The address and the port that clients reach it on, for the `kubernetes` Service.
    pub address: IpAddr,
    pub port: u16,
    pub history: store::Options,
    /// How long an Event is kept after its last write.
    pub event_lifetime: Duration,
    /// How many requests from sockets are served at a time.
    pub in_flight: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            data: None,
            service_range: "10.96.0.0/16".into(),
            address: advertised(Ipv4Addr::LOCALHOST.into()),
            port: 6443,
            history: store::Options::default(),
            event_lifetime: Duration::from_secs(3600),
            in_flight: Limits::default(),
        }
    }
}

/// The address that a server says it is found at: the one that it listens on, unless that is one that only this machine
/// knows. Then it is the one that simulated nodes would know their host by.
pub fn advertised(listening: IpAddr) -> IpAddr {
    if listening.is_loopback() || listening.is_unspecified() {
        return Ipv4Addr::new(172, 18, 0, 1).into();
    }
    listening
}

/// One cluster's API server. Cheap to clone.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) context: Context,
    pub(crate) store: Store,
    /// Makes and checks the tokens of service accounts.
    pub(crate) issuer: token::Issuer,
    pub(crate) options: Options,
    following: following::Following,
    services: services::Allocator,
    /// Whose turn it is to use what a quota leaves.
    quotas: Arc<tokio::sync::Mutex<()>>,
    metrics: health::Metrics,
    flow: Flow,
    /// Mebibytes for long answers that have to be made whole.
    whole_answers: Arc<tokio::sync::Semaphore>,
}

/// The certificate a TLS client showed, verified when the connection was made; put into a request by the listener.
#[derive(Clone)]
pub struct PeerCertificate(pub Arc<[u8]>);

/// Who a request without a socket comes from: only code of this process can say so.
#[derive(Clone)]
pub struct Trusted(pub User);

impl Server {
    /// Opens or creates the store and makes what every cluster has from its start.
    pub async fn open(
        options: Options,
        authority: &Authority,
        context: Context,
    ) -> std::result::Result<Server, store::OpenError> {
        let store = match &options.data {
            Some(folder) => Store::open(folder, options.history, &context)?,
            None => Store::in_memory(options.history, &context),
        };
        bootstrap::fill(&store, &context, &options).await;
        services::sweep(&store).await;
        let following = following::Following::new(&store);
        let inner = Inner {
            services: services::Allocator::default(),
            quotas: Arc::default(),
            metrics: health::Metrics::default(),
            flow: Flow::new(options.in_flight),
            whole_answers: Arc::new(tokio::sync::Semaphore::new(read::WHOLE_ANSWERS)),
            issuer: token::Issuer::new(authority.signing_key(), ISSUER),
            context,
            store,
            options,
            following,
        };
        let inner = Arc::new(inner);
        // It ends by itself when the server does.
        tokio::spawn(expiry::run(Arc::downgrade(&inner), inner.options.event_lifetime));
        Ok(Server(inner))
    }

    /// The server as a service: mount it anywhere, or call it directly.
    pub fn router(&self) -> Router {
        Router::new().fallback(handle).with_state(self.clone())
    }

    /// The same, for calls of this process that need no credentials.
    pub fn trusted_router(&self, user: User) -> Router {
        let trusted = Trusted(user);
        self.router().layer(tower::util::MapRequestLayer::new(move |mut request: Request| {
            request.extensions_mut().insert(trusted.clone());
            request
        }))
    }

    /// Ends all watches and waits for what is being written.
    pub async fn close(&self) {
        self.0.store.close().await;
    }

    /// Figures of the store.
    pub fn stats(&self) -> store::Stats {
        self.0.store.stats()
    }
}

const PLAIN: Accept = Accept { encoding: Encoding::Json, form: Form::Whole, pretty: false };

async fn handle(State(server): State<Server>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let query = Query::parse(parts.uri.query());
    let mut info = Info::parse(&parts.method, parts.uri.path(), query.flag("watch"));
    info.select(query.text("fieldSelector"));
    let pretty_errors = pretty(&parts.headers, &query);
    let for_errors = Accept::negotiate(&parts.headers, pretty_errors, Tables::Offered).unwrap_or(PLAIN);
    let inner = server.0.clone();
    let (verb, resource) = (info.verb, inner.counted_as(&info));
    // A fault of ours ends one request, with an answer and a trace in the log, not the connection.
    let served = AssertUnwindSafe(inner.clone().limited(parts, info, query, body)).catch_unwind().await;
    let response = match served {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => respond::failure(&error, for_errors, &[]),
        Err(_) => respond::failure(&fault(), for_errors, &[]),
    };
    inner.metrics.request(verb, resource.as_ref().map_or("", |one| &*one.plural), response.status().as_u16());
    response
}

fn fault() -> Error {
    Error::internal("this request hit a fault in the server; see its log")
}

/// Who a request comes from, once that is known.
#[derive(Clone)]
struct Identified(User);

impl Inner {
    /// Serves a request; one from a socket when it is its user's turn.
    async fn limited(
        self: Arc<Self>,
        mut parts: Parts,
        info: Info,
        query: Query,
        body: Body,
    ) -> Result<Response> {
        let Some(from) = parts.extensions.get::<FromSocket>().cloned() else {
            return Box::pin(self.serve(parts, info, query, body)).await;
        };
        self.following.catch_up(&self.store);
        let user = self.user(&parts, &info)?;
        parts.extensions.insert(Identified(user.clone()));
        if flow::is_health(&info.path) {
            return Box::pin(self.serve(parts, info, query, body)).await;
        }
        let asked = info.clone();
        // On the heap: it is large, and moves between threads.
        let handler = Box::pin(self.clone().serve(parts, info, query, body));
        let handler = AssertUnwindSafe(handler).catch_unwind();
        let handler = async { handler.await.unwrap_or_else(|_| Err(fault())) };
        self.flow.serve(&from, &user, &asked, handler).await
    }

    async fn serve(self: Arc<Self>, parts: Parts, info: Info, query: Query, body: Body) -> Result<Response> {
        self.following.catch_up(&self.store);
        let user = self.user(&parts, &info)?;
        self.authorize(&attributes(&info, &user))?;
        if !info.resource_path {
            return self.serve_path(&parts, &info, &query, body).await;
        }
        let resource = match route::find(&self.catalog(), &info, &parts.method) {
            Ok(resource) => resource,
            Err(why) => return why.error().map_or_else(|| Ok(no_such_page()), Err),
        };
        let tables = Tables::of(&resource, &info.subresource);
        let accept = match Accept::negotiate(&parts.headers, pretty(&parts.headers, &query), tables) {
            Ok(accept) => accept,
            Err(error) if resource.custom.is_none() => return Err(error),
            // Whoever uses a custom type is told about it before anything else.
            Err(_) => {
                let told: Vec<String> = warn::type_warning(&resource).into_iter().collect();
                return Ok(respond::failure(&Error::not_acceptable(accept::ACCEPTED), PLAIN, &told));
            }
        };
        let from = parts.extensions.get::<FromSocket>();
        let workers = from.and_then(|from| from.0.clone());
        let turns = workers.map(|workers| Turns { workers, user: user.name.as_str().into() });
        let call = Call {
            turns,
            room: None,
            api_version: resource.api_version(),
            server: self,
            headers: parts.headers,
            warnings: Vec::new(),
            empties: Vec::new(),
            admitted: false,
            info,
            query,
            accept,
            user,
            resource,
        };
        dispatch(call, body).await
    }

    fn user(&self, parts: &Parts, info: &Info) -> Result<User> {
        if let Some(Trusted(user)) = parts.extensions.get() {
            return Ok(user.clone());
        }
        if let Some(Identified(user)) = parts.extensions.get() {
            return Ok(user.clone());
        }
        let peer = parts.extensions.get::<PeerCertificate>();
        let authorization = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let accounts = self.issuer.tokens(self, &self.context);
        let now = self.context.now();
        let user = identity::authenticate(peer.map(|peer| &*peer.0), authorization, &[&accounts], now);
        let user = user.map_err(|why| {
            tracing::debug!(%why, "credentials refused");
            Error::unauthorized()
        })?;
        let rules = self.following.rules();
        let impersonated = impersonate::impersonate(&parts.headers, &attributes(info, &user), None, &*rules)?;
        Ok(impersonated.map_or(user, |one| one.user))
    }

    pub(crate) fn authorize(&self, attributes: &Attributes<'_>) -> Result<()> {
        rbac::require(attributes, &*self.following.rules())
    }

    /// The admission policies that requests are held against.
    pub(crate) fn policies(&self) -> Arc<Policies> {
        self.following.policies()
    }

    /// Who may do what.
    pub(crate) fn rules(&self) -> parking_lot::RwLockReadGuard<'_, rbac::Index> {
        self.following.rules()
    }

    pub(crate) fn catalog(&self) -> Catalog {
        self.following.catalog()
    }

    /// The resource that a request counts for: only one that there is, or anybody could fill the memory with names.
    fn counted_as(&self, info: &Info) -> Option<Arc<Resource>> {
        if !info.resource_path {
            return None;
        }
        self.catalog().resource(&info.group, &info.version, &info.resource)
    }
}

/// People who look with a browser or with curl get line breaks, unless they say otherwise.
pub(crate) fn pretty(headers: &http::HeaderMap, query: &Query) -> bool {
    if query.get("pretty").is_some() {
        return query.flag("pretty");
    }
    let agent = headers.get(http::header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or("");
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|one| agent.starts_with(one))
}

/// A request as the authorizer sees it.
pub(crate) fn attributes<'a>(info: &'a Info, user: &'a User) -> Attributes<'a> {
    Attributes {
        user,
        verb: info.verb,
        group: &info.group,
        version: &info.version,
        resource: &info.resource,
        subresource: &info.subresource,
        namespace: &info.namespace,
        name: if info.name.is_empty() { &info.selected } else { &info.name },
        path: &info.path,
        is_resource: info.resource_path,
    }
}

/// The handler of a verb on a resource or on a part of it.
async fn dispatch(mut call: Call, body: Body) -> Result<Response> {
    let accept = call.accept;
    // Built-in types are told where a handler is found, custom ones before that.
    if call.resource.custom.is_some() {
        warn::of_type(&mut call);
    }
    if call.info.verb == "watch" && call.info.subresource.is_empty() && call.resource.allows("watch") {
        if call.resource.custom.is_none() {
            warn::of_type(&mut call);
        }
        let warnings = std::mem::take(&mut call.warnings);
        return Ok(match watch::watch(call) {
            Ok(reply) => respond::response(reply, accept, &warnings),
            Err(error) => respond::failure(&error, accept, &warnings),
        });
    }
    let answer = answer(&mut call, body).await;
    crds::after(&call).await;
    let response = match answer {
        Ok(reply) => respond::response(reply, accept, &call.warnings),
        Err(error) => respond::failure(&error, accept, &call.warnings),
    };
    Ok(flow::keep_while_sent(response, call.room.take()))
}

async fn answer(call: &mut Call, body: Body) -> Result<Reply> {
    let verb = call.info.verb;
    Ok(if call.info.subresource.is_empty() {
        if call.info.name.is_empty() && matches!(verb, "update" | "patch") {
            return Err(Error::bad_request("name must be provided"));
        }
        if !call.resource.allows(verb) {
            return Err(Error::method_not_allowed());
        }
        if reviews::is_review(&call.resource) {
            let body = incoming::read_body(body).await?;
            reviews::review(call, body)?
        } else {
            whole(call, verb, body).await?
        }
    } else {
        let Some(subresource) = call.resource.subresource(&call.info.subresource).cloned() else {
            if rollback::is_asked(&call.resource, &call.info.subresource) {
                return rollback::serve(call, body).await;
            }
            return Err(no_such_part(call));
        };
        // Any method reaches a proxy, and the router knows those of other built-in parts.
        if call.resource.custom.is_some() && !subresource.verbs.iter().any(|one| one == verb) {
            return Err(Error::method_not_allowed());
        }
        subresources::serve(call, &subresource, body).await?
    })
}

/// A custom resource's unknown part is told as if the object itself were unknown.
fn no_such_part(call: &Call) -> Error {
    if call.resource.custom.is_none() {
        return Error::no_such_resource();
    }
    let mut error = call.not_found(&call.info.name);
    if let Some(details) = error.details.as_deref_mut() {
        details["causes"] = Value::Null;
    }
    error
}

async fn whole(call: &mut Call, verb: &str, body: Body) -> Result<Reply> {
    // A patch in no known form is turned away before that.
    if call.resource.custom.is_none() && (verb != "patch" || patch::Kind::of(call).is_ok()) {
        warn::of_type(call);
    }
    Ok(match verb {
        "get" => read::get(call)?,
        "list" => read::list(call).await?,
        "create" if &*call.resource.storage == "/bindings" => {
            let body = incoming::read_body(body).await?;
            creating::bind_named(call, body).await?
        }
        "create" => create::create(call, incoming::read_body(body).await?).await?,
        "update" => update::put(call, Part::Whole, incoming::read_body(body).await?).await?,
        "patch" => patch::patch(call, Part::Whole, incoming::read_body(body).await?).await?,
        "delete" => delete::delete(call, incoming::read_body(body).await?).await?,
        "deletecollection" => delete::delete_collection(call, incoming::read_body(body).await?).await?,
        _ => return Err(Error::method_not_allowed()),
    })
}

/// For addresses that belong to nobody: not even an API's error.
pub(crate) fn no_such_page() -> Response {
    respond::body(http::StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "404 page not found\n")
}

impl token::Lookup for Inner {
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        admission::Lookup::get(self, group, resource, namespace, name)
    }
}

impl Inner {
    /// Paths that are about no resource.
    async fn serve_path(
        self: Arc<Self>,
        parts: &Parts,
        info: &Info,
        query: &Query,
        body: Body,
    ) -> Result<Response> {
        drop(body);
        let path = info.path.trim_end_matches('/');
        if info.verb != "get" && matches!(path, "/api" | "/api/v1" | "/version") {
            return Err(Error::method_not_allowed());
        }
        if let Some(response) = health::serve(&self, path, query) {
            return Ok(response);
        }

        match path {
            token::CONFIGURATION_PATH => {
                let host = format!("127.0.0.1:{}", self.options.port);
                return Ok(respond::response(Reply::ok(self.issuer.configuration(&host)), PLAIN, &[]));
            }
            token::KEYS_PATH => {
                let text = serde_json::to_vec(&self.issuer.keys()).expect("a value can be written");
                return Ok(respond::body(http::StatusCode::OK, "application/jwk-set+json", text));
            }
            _ => {}
        }
        if path.starts_with("/openapi/") {
            return openapi::serve(&self, path, &parts.headers);
        }
        discovery::serve(&self, path, parts, query)
    }
}
