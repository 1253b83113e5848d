//! The dashboard: what `koinon status` shows, as a page that keeps itself up to date. It can be read and nothing else, by
//! those who have the token in the address that `up` prints.

mod door;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use axum::routing::get;
use http::{HeaderValue, StatusCode, header};
use koinon_context::Context;
use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::door::{Answer, Door};
use crate::status;

const PAGE: &str = include_str!("dashboard/page.html");
const STYLE: &str = include_str!("dashboard/page.css");
const SCRIPT: &str = include_str!("dashboard/page.js");
/// However many look at it, the federation is asked no more often.
const FRESH: Duration = Duration::from_secs(2);

/// Serves the page until it is dropped.
pub(super) struct Dashboard {
    task: JoinHandle<()>,
    url: String,
}

struct Shown {
    client: Client,
    last: Mutex<Option<(Instant, String)>>,
}

impl Dashboard {
    /// Opens it. `names` are those by which it may be asked for, beside addresses.
    pub(super) async fn open(
        address: SocketAddr,
        names: &[String],
        client: Client,
        context: &Context,
    ) -> anyhow::Result<Dashboard> {
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot show the dashboard on {address}: choose another address"))?;
        let bound = listener.local_addr().context("the dashboard has no address")?;
        let door = Door::new(bound, names, context);
        let url = format!("http://{}/?token={}", dialled(bound), door.token());
        let router = router(client, door);
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "the dashboard ended");
            }
        });
        Ok(Dashboard { task, url })
    }

    /// The address to open, with the token.
    pub(super) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An address that this machine's user can dial.
fn dialled(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}

fn router(client: Client, door: Door) -> Router {
    let shown = Arc::new(Shown { client, last: Mutex::new(None) });
    let text = |kind: &'static str, text: &'static str| {
        get(move || async move { ([(header::CONTENT_TYPE, kind)], text) })
    };
    Router::new()
        .route("/", get(|| async { Html(PAGE) }))
        .route("/page.css", text("text/css; charset=utf-8", STYLE))
        .route("/page.js", text("text/javascript; charset=utf-8", SCRIPT))
        .route("/status.json", get(|State(shown): State<Arc<Shown>>| async move { shown.status().await }))
        .with_state(shown)
        .layer(middleware::from_fn_with_state(Arc::new(door), guard))
}

/// Lets in whom the door admits, and has every answer carry what the browser must keep to.
async fn guard(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let mut response = match door.admit(request.uri(), request.headers()) {
        Answer::Serve => next.run(request).await,
        Answer::Welcome { cookie } => {
            let mut response = Redirect::to("/").into_response();
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                response.headers_mut().insert(header::SET_COOKIE, cookie);
            }
            response
        }
        Answer::Stranger => {
            let what = "the dashboard needs its token: open the address that `koinon up` printed\n";
            (StatusCode::UNAUTHORIZED, what).into_response()
        }
        Answer::WrongHost => {
            let what = "the dashboard is not known by this name: open the address that `koinon up` printed\n";
            (StatusCode::MISDIRECTED_REQUEST, what).into_response()
        }
    };
    response.headers_mut().extend(door::HEADERS);
    response
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
        ([(header::CONTENT_TYPE, "application/json")], text).into_response()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use tower::ServiceExt as _;

    use super::*;

    async fn nobody(
        _: http::Request<kube::client::Body>,
    ) -> Result<http::Response<Body>, std::convert::Infallible> {
        panic!("the federation is asked")
    }

    #[tokio::test]
    async fn strangers_and_other_names_get_nothing_and_every_answer_is_bounded() {
        let door = Door::new("127.0.0.1:7480".parse().unwrap(), &[], &Context::real());
        let token = door.token().to_owned();
        let router = router(Client::new(tower::service_fn(nobody), "default"), door);
        let ask = async |path: String, host: &str| {
            let request = http::Request::get(path).header(header::HOST, host).body(Body::empty()).unwrap();
            let answer = router.clone().oneshot(request).await.unwrap();
            for (name, value) in door::HEADERS {
                assert_eq!(answer.headers().get(&name), Some(&value), "{name}");
            }
            answer
        };
        for path in ["/", "/status.json", "/page.js", "/elsewhere"] {
            assert_eq!(ask(path.into(), "localhost:7480").await.status(), 401, "{path}");
            let named = ask(format!("{path}?token={token}"), "evil.example.com").await;
            assert_eq!(named.status(), 421, "{path}");
        }
        let welcome = ask(format!("/?token={token}"), "localhost:7480").await;
        assert_eq!(
            (welcome.status().as_u16(), &welcome.headers()[header::LOCATION]),
            (303, &HeaderValue::from_static("/"))
        );
        assert!(welcome.headers().contains_key(header::SET_COOKIE));
        let page = ask("/".into(), "localhost:7480").await;
        assert_eq!(page.status(), 401, "a cookie is needed, not a visit before");
    }
}
