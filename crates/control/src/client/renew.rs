//! Credentials that are renewed while a role runs: a refused client is made anew, and its connections with it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use parking_lot::RwLock;
use tokio::time::Instant;

/// A refused client is made anew at most this often.
pub(super) const RENEW_EVERY: Duration = Duration::from_secs(5);

type Renew = Box<dyn Fn() -> BoxFuture<'static, Result<Client, String>> + Send + Sync>;

/// A client that is made anew by `renew` when the server does not know it any more, for example from a kubeconfig that was
/// written again. All that goes on by the former's connections ends as it will.
pub fn renewing(
    client: Client,
    renew: impl Fn() -> BoxFuture<'static, Result<Client, String>> + Send + Sync + 'static,
) -> Client {
    let namespace = client.default_namespace().to_owned();
    let renewing = Arc::new(Renewing {
        current: RwLock::new(Current { number: 0, client }),
        renew: Box::new(renew),
        renewed: tokio::sync::Mutex::new(None),
    });
    let service = tower::service_fn(move |request| renewing.clone().send(request));
    Client::new(service, namespace)
}

/// Sends each request through the client of the moment, and makes that anew when the server does not know us.
struct Renewing {
    current: RwLock<Current>,
    renew: Renew,
    renewed: tokio::sync::Mutex<Option<Instant>>,
}

#[derive(Clone)]
struct Current {
    number: u64,
    client: Client,
}

impl Renewing {
    async fn send(self: Arc<Self>, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
        let used = self.current.read().clone();
        let again = copy(&request);
        let answer = used.client.send(request).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        // It was not even looked at, so that it may be sent again.
        match (self.after(used.number).await, again) {
            (Some(client), Some(request)) => client.send(request).await,
            _ => Ok(answer),
        }
    }

    /// Another client than the one that was refused, if there is one.
    async fn after(&self, refused: u64) -> Option<Client> {
        let mut renewed = self.renewed.lock().await;
        let current = self.current.read().clone();
        if current.number != refused {
            return Some(current.client);
        }
        if renewed.is_some_and(|at| at.elapsed() < RENEW_EVERY) {
            return None;
        }
        *renewed = Some(Instant::now());
        match (self.renew)().await {
            Ok(client) => {
                *self.current.write() = Current { number: refused + 1, client: client.clone() };
                tracing::info!(
                    reason = "CredentialsRenewed",
                    "the credentials were refused and read again: new connections are made"
                );
                Some(client)
            }
            Err(error) => {
                tracing::warn!(error, reason = "CredentialsRefused", "credentials could not be read again");
                None
            }
        }
    }
}

/// The same request once more, unless what it sends cannot be sent twice.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures::FutureExt as _;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::PostParams;

    use super::*;
    use crate::call::within_deadline;

    /// A client with a credential. The server knows only the one of the moment.
    fn with(credential: u64, known: &Arc<AtomicU64>) -> Client {
        let known = known.clone();
        let serve = move |request: Request<Body>| {
            let knows = known.load(Ordering::Relaxed) == credential;
            async move {
                let sent = request.into_body().collect_bytes().await?;
                let (status, body) = if knows {
                    (200, sent.to_vec())
                } else {
                    (401, br#"{"kind":"Status","code":401,"message":"who are you?"}"#.to_vec())
                };
                let answer = Response::builder().status(status).body(Body::from(body));
                answer.map_err(kube::Error::HttpError)
            }
        };
        Client::new(tower::service_fn(serve), "default")
    }

    fn renewed(known: &Arc<AtomicU64>, written: &Arc<AtomicU64>) -> Client {
        let (of_server, written) = (known.clone(), written.clone());
        renewing(with(0, known), move || {
            let client = with(written.load(Ordering::Relaxed), &of_server);
            async move { Ok(client) }.boxed()
        })
    }

    /// The code of the answer to a write by a client that was given away before: 0 for success.
    async fn write(client: &Client) -> u16 {
        let map: ConfigMap = serde_json::from_str(r#"{"metadata":{"name":"a"},"data":{"b":"c"}}"#).unwrap();
        let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
        match within_deadline(api.create(&PostParams::default(), &map)).await {
            Ok(written) => {
                assert_eq!(written.data, map.data, "it is sent whole");
                0
            }
            Err(error) => error.code().unwrap_or(1),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_a_client_gets_back_in_with_new_credentials() {
        let (known, written) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let one = renewed(&known, &written);
        let other = one.clone();
        assert_eq!((write(&one).await, write(&other).await), (0, 0));
        for round in 1..=2 {
            known.store(round, Ordering::Relaxed);
            assert_eq!(write(&one).await, 401, "the new ones are not written yet");
            written.store(round, Ordering::Relaxed);
            assert_eq!(write(&one).await, 401, "they are not read that often");
            tokio::time::sleep(RENEW_EVERY).await;
            assert_eq!((write(&one).await, write(&other).await), (0, 0));
        }
    }
}
