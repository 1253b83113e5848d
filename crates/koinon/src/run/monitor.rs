//! The port for those who watch over a role: health for everybody, metrics for their readers.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::extract::{ConnectInfo, RawQuery, Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::{StatusCode, header};
use koinon_apiserver::auth::identity::bearer;
use kube::Client;
use parking_lot::RwLock;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::readers::{Readers, Refused};

type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// What a role says of itself: ready, or why it is not.
#[derive(Clone, Default)]
pub(crate) struct Health {
    checks: Arc<RwLock<Vec<Check>>>,
    leading: Arc<RwLock<Vec<Check>>>,
}

impl Health {
    /// Has `/readyz` fail with its text for as long as `check` does.
    pub(crate) fn require(&self, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.checks.write().push(Box::new(check));
    }

    /// Has `/readyz?leader` fail as well for as long as `check` does.
    pub(crate) fn require_of_leader(&self, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.leading.write().push(Box::new(check));
    }

    fn ready(&self, asked: Asked) -> Result<(), String> {
        let mut failures: Vec<_> = self.checks.read().iter().filter_map(|check| check().err()).collect();
        if asked == Asked::Leader {
            failures.extend(self.leading.read().iter().filter_map(|check| check().err()));
        }
        if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
    }
}

/// Of whom readiness is asked.
#[derive(Clone, Copy, PartialEq)]
enum Asked {
    Anyone,
    Leader,
}

/// Serves the port until it is dropped; does nothing where none was asked for.
pub(crate) struct Monitor {
    task: Option<JoinHandle<()>>,
}

struct Shown {
    health: Health,
    registry: Registry,
    readers: Readers,
}

impl Monitor {
    /// Opens the port, if one was asked for. `client` is for the API server that knows who reads.
    pub(crate) async fn open(
        address: Option<SocketAddr>,
        health: Health,
        registry: Registry,
        client: Client,
    ) -> anyhow::Result<Monitor> {
        let Some(address) = address else { return Ok(Monitor { task: None }) };
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot serve metrics on {address}: choose another with --metrics"))?;
        let router = router(Shown { health, registry, readers: Readers::new(client) });
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, service).await {
                tracing::error!(%error, "the metrics port ended");
            }
        });
        Ok(Monitor { task: Some(task) })
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

fn router(shown: Shown) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(Arc::new(shown))
}

async fn ready(State(shown): State<Arc<Shown>>, RawQuery(query): RawQuery) -> Response {
    let leader =
        query.is_some_and(|query| query.split('&').any(|part| part == "leader" || part == "leader="));
    match shown.health.ready(if leader { Asked::Leader } else { Asked::Anyone }) {
        Ok(()) => "ok\n".into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

async fn metrics(State(shown): State<Arc<Shown>>, request: Request) -> Response {
    let from = request.extensions().get().map(|ConnectInfo(from): &ConnectInfo<SocketAddr>| from.ip());
    let header = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if let Err(Refused(code, why)) = shown.readers.admit(from, header.and_then(bearer)).await {
        return (code, format!("{why}\n")).into_response();
    }
    let mut text = String::new();
    if let Err(error) = prometheus_client::encoding::text::encode(&mut text, &shown.registry) {
        return (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response();
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use prometheus_client::metrics::counter::Counter;
    use tower::ServiceExt as _;

    use super::*;

    async fn nobody(
        _: http::Request<kube::client::Body>,
    ) -> Result<http::Response<Body>, std::convert::Infallible> {
        panic!("the API server is asked")
    }

    async fn look(router: &Router, path: &str) -> (u16, String) {
        look_from(router, path, "127.0.0.1:5").await
    }

    async fn look_from(router: &Router, path: &str, from: &str) -> (u16, String) {
        let from: SocketAddr = from.parse().unwrap();
        let request = http::Request::get(path).extension(ConnectInfo(from)).body(Body::empty()).unwrap();
        let answer = router.clone().oneshot(request).await.unwrap();
        let code = answer.status().as_u16();
        let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn health_and_metrics_are_shown() {
        let mut registry = Registry::default();
        let counter: Counter = Counter::default();
        registry.register("steps", "Steps taken", counter.clone());
        counter.inc();
        let health = Health::default();
        let fine = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = fine.clone();
        health.require(move || {
            if seen.load(std::sync::atomic::Ordering::Relaxed) {
                Ok(())
            } else {
                Err("not listed yet".into())
            }
        });
        health.require_of_leader(|| Err("another leads".into()));
        // Nobody is asked.
        let client = Client::new(tower::service_fn(nobody), "default");
        let router = router(Shown { health, registry, readers: Readers::new(client) });
        assert_eq!(look(&router, "/healthz").await.0, 200);
        assert_eq!(look(&router, "/readyz").await, (503, "not listed yet\n".into()));
        fine.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(look(&router, "/readyz").await.0, 200);
        assert_eq!(look(&router, "/readyz?leader").await, (503, "another leads\n".into()));
        assert!(look(&router, "/metrics").await.1.contains("steps_total 1"));
        // From elsewhere health is for everybody, and metrics are for readers.
        assert_eq!(look_from(&router, "/healthz", "10.1.2.3:5").await.0, 200);
        assert_eq!(look_from(&router, "/readyz", "10.1.2.3:5").await.0, 200);
        let (code, text) = look_from(&router, "/metrics", "10.1.2.3:5").await;
        assert!(code == 401 && !text.contains("steps_total"), "{code}: {text}");
    }
}
