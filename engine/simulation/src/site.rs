//! An API server in memory, and what a test does and sees there.

use std::time::Duration;

use axum::Router;
use http::{Method, Request};
use koinon_apiserver::auth::User;
use koinon_apiserver::auth::pki::Authority;
use koinon_apiserver::context::Context;
use koinon_apiserver::serve::{Options, Server};
use koinon_control::Clock;
use kube::Client;
use serde_json::Value;
use tokio::time::Instant;

/// Longer than anything that a controller does by itself.
const LONG: Duration = Duration::from_secs(1800);
const PAUSE: Duration = Duration::from_millis(20);

/// An API server in memory, reached directly: what tests do there meets no faults.
#[derive(Clone)]
pub struct Site {
    client: Client,
    router: Router,
    clock: Clock,
}

impl Site {
    /// A fresh server. Its ids follow from the seed, its time from the clock.
    pub async fn open(seed: u64, clock: &Clock) -> Site {
        let now = clock.clone();
        let context = Context::seeded(seed, move || now.now());
        let authority = Authority::in_memory(&context).expect("an authority in memory");
        let server = Server::open(Options::default(), &authority, context).await.expect("a server in memory");
        let router = server.trusted_router(User::new("system:admin", &["system:masters"]));
        Site { client: Client::new(router.clone(), "default"), router, clock: clock.clone() }
    }

    /// Straight to the server.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The server itself, for [`Network::serve`](crate::Network::serve).
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// One request. A patch is a merge patch.
    pub async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, kube::Error> {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let body = body.map(Value::to_string).unwrap_or_default().into_bytes();
        let request = Request::builder().method(method).uri(path).header("content-type", kind).body(body);
        self.client.request(request.expect("a path of an API server")).await
    }

    pub async fn create(&self, path: &str, object: Value) -> Value {
        self.call(Method::POST, path, Some(&object)).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub async fn patch(&self, path: &str, patch: Value) -> Value {
        self.call(Method::PATCH, path, Some(&patch)).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub async fn delete(&self, path: &str) {
        self.call(Method::DELETE, path, None).await.unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    pub async fn get(&self, path: &str) -> Option<Value> {
        match self.call(Method::GET, path, None).await {
            Ok(object) => Some(object),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("{path}: {error}"),
        }
    }

    /// The objects of a list, in the order of their names.
    pub async fn items(&self, path: &str) -> Vec<Value> {
        let list = self.get(path).await.expect("the list is served");
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until an object is as it should be; `None` stands for its absence.
    pub async fn until(&self, path: &str, wanted: impl Fn(Option<&Value>) -> bool) -> Option<Value> {
        let deadline = Instant::now() + LONG;
        loop {
            let object = self.get(path).await;
            if wanted(object.as_ref()) {
                return object;
            }
            assert!(Instant::now() < deadline, "{path} stays {object:#?}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    pub async fn until_there(&self, path: &str) -> Value {
        self.until(path, |object| object.is_some()).await.expect("it is there")
    }

    pub async fn until_gone(&self, path: &str) {
        self.until(path, |object| object.is_none()).await;
    }
}
