//! The dashboard: what `koinon status` shows, as a page that keeps itself up to date. It can be read and nothing else.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::get;
use http::{StatusCode, header};
use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::status;

const PAGE: &str = include_str!("dashboard.html");
/// However many look at it, the federation is asked no more often.
const FRESH: Duration = Duration::from_secs(2);

/// Serves the page until it is dropped.
pub(super) struct Dashboard {
    task: JoinHandle<()>,
}

struct Shown {
    client: Client,
    last: Mutex<Option<(Instant, String)>>,
}

impl Dashboard {
    pub(super) async fn open(address: SocketAddr, client: Client) -> anyhow::Result<Dashboard> {
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot show the dashboard on {address}: choose another address"))?;
        let router = router(client);
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "the dashboard ended");
            }
        });
        Ok(Dashboard { task })
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn router(client: Client) -> Router {
    let shown = Arc::new(Shown { client, last: Mutex::new(None) });
    Router::new()
        .route("/", get(|| async { Html(PAGE) }))
        .route("/status.json", get(|State(shown): State<Arc<Shown>>| async move { shown.status().await }))
        .with_state(shown)
}

impl Shown {
    async fn status(&self) -> Response {
        let mut last = self.last.lock().await;
        if last.as_ref().is_none_or(|(asked, _)| asked.elapsed() > FRESH) {
            match status::as_json(&self.client).await {
                Ok(text) => *last = Some((Instant::now(), text)),
                Err(error) => return (StatusCode::SERVICE_UNAVAILABLE, format!("{error:#}")).into_response(),
            }
        }
        let text = last.as_ref().map(|(_, text)| text.clone()).unwrap_or_default();
        ([(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")], text)
            .into_response()
    }
}
