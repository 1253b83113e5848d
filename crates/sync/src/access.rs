//! One API server, and how to get back in when its credentials were renewed.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use koinon_control::call::{self, within_deadline};
use kube::Client;
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

/// A refused client is made anew at most this often.
const RENEW_EVERY: Duration = Duration::from_secs(5);

type Renew = Box<dyn Fn() -> BoxFuture<'static, Result<Client, String>> + Send + Sync>;

/// Access to one API server.
#[derive(Clone)]
pub struct Access(Arc<Inner>);

struct Inner {
    client: RwLock<Client>,
    renew: Option<Renew>,
    renewed: tokio::sync::Mutex<Option<Instant>>,
}

impl Access {
    /// Access through one client, which renews its own credentials or needs none.
    pub fn new(client: Client) -> Access {
        Access::with(client, None)
    }

    /// Access whose client is made anew by `renew` when the server does not know us any more, for example from a
    /// kubeconfig that was written again.
    pub fn renewable(
        client: Client,
        renew: impl Fn() -> BoxFuture<'static, Result<Client, String>> + Send + Sync + 'static,
    ) -> Access {
        Access::with(client, Some(Box::new(renew)))
    }

    fn with(client: Client, renew: Option<Renew>) -> Access {
        Access(Arc::new(Inner { client: RwLock::new(client), renew, renewed: tokio::sync::Mutex::new(None) }))
    }

    /// The client of the moment.
    pub fn client(&self) -> Client {
        self.0.client.read().clone()
    }

    /// Makes the client anew if the server did not know us.
    pub(crate) async fn after(&self, code: Option<u16>) {
        if code != Some(401) {
            return;
        }
        let Some(renew) = &self.0.renew else { return };
        let mut renewed = self.0.renewed.lock().await;
        if renewed.is_some_and(|at| at.elapsed() < RENEW_EVERY) {
            return;
        }
        *renewed = Some(Instant::now());
        match renew().await {
            Ok(client) => *self.0.client.write() = client,
            Err(error) => tracing::warn!(error, "credentials could not be read again"),
        }
    }

    /// Sends one request and waits for its answer, but not forever.
    pub(crate) async fn send<T: DeserializeOwned>(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> Result<T, call::Error> {
        let answer = within_deadline(self.client().request(request)).await;
        if let Err(error) = &answer {
            self.after(error.code()).await;
        }
        answer
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, call::Error> {
        let request = http::Request::get(path).body(Vec::new()).expect("a path is a URI");
        self.send(request).await
    }
}
