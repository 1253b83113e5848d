//! A server in one process, and a wire to it that can fail, lose answers and lag: what the tests of this crate stand on.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use futures::StreamExt as _;
use http::{Method, Request, Response};
use jiff::Timestamp;
use koinon_apiserver::auth::User;
use koinon_apiserver::auth::pki::Authority;
use koinon_apiserver::context::Context;
use koinon_apiserver::serve::{Options, Server};
use koinon_cluster::Clock;
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::ServiceExt as _;

/// Long enough for everything that happens by itself, pauses included. Time is simulated.
const LONG: Duration = Duration::from_secs(2000);

type Fault = Box<dyn Fn(&Method, &str) -> Option<Response<Body>> + Send + Sync>;

/// What the controllers' requests meet on their way.
#[derive(Default)]
struct Wire {
    fault: Mutex<Option<Fault>>,
    /// Of so many writes, the answer to the last is lost; the write is not.
    loss: Mutex<Option<usize>>,
    /// How much later than it happened a watch tells anything.
    lag: Mutex<Duration>,
    writes: Mutex<Vec<String>>,
}

impl Wire {
    /// Notes a write; says whether its answer will be lost.
    fn carries(&self, method: &Method, path: &str) -> bool {
        if method == Method::GET {
            return false;
        }
        let mut writes = self.writes.lock();
        writes.push(format!("{method} {path}"));
        self.loss.lock().is_some_and(|every| writes.len().is_multiple_of(every))
    }
}

/// A server that nobody keeps.
pub(crate) struct Site {
    /// Straight to the server: what the tests do and see.
    pub(crate) client: Client,
    /// Over the wire: what controllers do and see.
    pub(crate) through: Client,
    pub(crate) clock: Clock,
    /// How often somebody who waits looks; where nodes live through hours, each look costs.
    pub(crate) beat: Duration,
    wire: Arc<Wire>,
}

impl Site {
    pub(crate) async fn open() -> Site {
        let start = Instant::now();
        let now = move || Timestamp::from_second(1_800_000_000).unwrap() + start.elapsed();
        let context = Context::seeded(1, now);
        let authority = Authority::in_memory(&context).unwrap();
        let server = Server::open(Options::default(), &authority, context).await.unwrap();
        let router = server.trusted_router(User::new("system:admin", &["system:masters"]));
        let wire = Arc::new(Wire::default());
        let watched = (router.clone(), wire.clone());
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let (router, wire) = watched.clone();
            async move {
                let (method, path) = (request.method().clone(), request.uri().path().to_owned());
                let lost = wire.carries(&method, &path);
                let wrong = wire.fault.lock().as_ref().and_then(|fault| fault(&method, &path));
                if let Some(answer) = wrong {
                    return Ok(answer);
                }
                let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
                match router.oneshot(request).await {
                    Ok(_) if lost => Ok(answer_of(504)),
                    Ok(answer) if watch => Ok(late(answer, wire)),
                    answer => answer,
                }
            }
        });
        let (client, through) = (Client::new(router, "default"), Client::new(service, "default"));
        Site { client, through, clock: Clock::new(now), beat: Duration::from_millis(20), wire }
    }

    /// From now on, requests of the controllers are answered by `fault` where it has an answer.
    pub(crate) fn fault(
        &self,
        fault: impl Fn(&Method, &str) -> Option<Response<Body>> + Send + Sync + 'static,
    ) {
        *self.wire.fault.lock() = Some(Box::new(fault));
    }

    /// From now on, the answer to every n-th write of the controllers is lost.
    pub(crate) fn lose_answers(&self, every: usize) {
        *self.wire.loss.lock() = Some(every);
    }

    /// From now on, the controllers' watches are behind.
    pub(crate) fn lag(&self, lag: Duration) {
        *self.wire.lag.lock() = lag;
    }

    pub(crate) fn heal(&self) {
        *self.wire.lag.lock() = Duration::ZERO;
        *self.wire.fault.lock() = None;
        *self.wire.loss.lock() = None;
    }

    /// What the controllers wrote so far, as method and path.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.wire.writes.lock().clone()
    }

    /// What they wrote so far about one resource.
    pub(crate) fn writes_to(&self, resource: &str) -> Vec<String> {
        let mut writes = self.writes();
        writes.retain(|write| write.split('/').any(|part| part == resource));
        writes
    }

    /// Lets time pass until nothing has been written for as long, which is longer than any pause between two attempts.
    pub(crate) async fn rest_for(&self, pause: Duration) {
        for _ in 0..20 {
            let before = self.writes().len();
            tokio::time::sleep(pause).await;
            if self.writes().len() == before {
                return;
            }
        }
        panic!("no rest: {:#?}", self.writes());
    }

    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, kube::Error> {
        call(&self.client, method, path, body).await
    }

    pub(crate) async fn create(&self, path: &str, object: Value) -> Value {
        self.call(Method::POST, path, Some(&object)).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) async fn patch(&self, path: &str, patch: Value) -> Value {
        self.call(Method::PATCH, path, Some(&patch)).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Deletes with the given options, or none.
    pub(crate) async fn remove(&self, path: &str, options: Option<&Value>) {
        let answer = self.call(Method::DELETE, path, options).await;
        answer.unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        match self.call(Method::GET, path, None).await {
            Ok(object) => Some(object),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("{path}: {error}"),
        }
    }

    pub(crate) async fn list(&self, path: &str) -> Vec<Value> {
        self.get(path).await.expect("the list is served")["items"].as_array().unwrap().clone()
    }

    /// Waits until an object is as it should be; `None` stands for its absence.
    pub(crate) async fn until(&self, path: &str, wanted: impl Fn(Option<&Value>) -> bool) -> Option<Value> {
        let deadline = Instant::now() + LONG;
        loop {
            let object = self.get(path).await;
            if wanted(object.as_ref()) {
                return object;
            }
            assert!(Instant::now() < deadline, "{path} stays {object:#?}\nwrites: {:#?}", self.writes());
            tokio::time::sleep(self.beat).await;
        }
    }

    pub(crate) async fn until_gone(&self, path: &str) {
        self.until(path, |object| object.is_none()).await;
    }
}

/// A request as a client writes it; a patch is a merge patch.
pub(crate) async fn call(
    client: &Client,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Value, kube::Error> {
    let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let body = body.map(|body| serde_json::to_vec(body).unwrap()).unwrap_or_default();
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    client.request(request.body(body).unwrap()).await
}

/// A failure with nothing to say for itself.
pub(crate) fn answer_of(code: u16) -> Response<Body> {
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "fault", "code": code});
    answer(code, status.to_string())
}

pub(crate) fn answer(code: u16, body: impl Into<Body>) -> Response<Body> {
    let response = Response::builder().status(code).header("content-type", "application/json");
    response.body(body.into()).expect("an answer")
}

/// A watch that tells everything later.
fn late(answer: Response<Body>, wire: Arc<Wire>) -> Response<Body> {
    answer.map(|body| {
        Body::from_stream(body.into_data_stream().then(move |chunk| {
            let lag = *wire.lag.lock();
            async move {
                tokio::time::sleep(lag).await;
                chunk
            }
        }))
    })
}
