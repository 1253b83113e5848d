//! The client by which every role and command reaches an API server.
//!
//! ```text
//! request ─► address ─► credentials ─► pool ─┬─ ordinary: one HTTP/2 connection, more where the server allows few streams
//!                                            └─ urgent:   one of its own, for leases and probes
//! ```
//!
//! - HTTP/2 where the server offers it, else HTTP/1.1. `DISABLE_HTTP2` in the environment means HTTP/1.1 only, as for client-go.
//! - [`Keepalive`] says how soon a dead connection is found.
//! - A request that the server says it did not process is sent again; nothing else is retried, for when to try again is
//!   the caller's to decide.
//! - [`renewing`] makes the client anew when the server does not know its credentials any more.

mod again;
mod answer;
mod dial;
mod http1;
mod http2;
mod keepalive;
mod pool;
mod renew;

use std::sync::Arc;

use http::Request;
use kube::client::{Body, ConfigExt as _};
use kube::{Client, Config};
use tower::Layer as _;
use tower::util::option_layer;

use self::dial::Dialer;
pub use self::keepalive::Keepalive;
use self::pool::Pool;
pub use self::renew::renewing;

/// A client for the server that a configuration names. Its `connect_timeout` and `read_timeout` hold; the latter for the
/// head of each answer, and for each part of it.
pub fn connect(config: &Config, keepalive: Keepalive) -> kube::Result<Client> {
    let http2 = std::env::var_os("DISABLE_HTTP2").is_none_or(|value| value.is_empty());
    connect_by(config, keepalive, http2)
}

fn connect_by(config: &Config, keepalive: Keepalive, http2: bool) -> kube::Result<Client> {
    let pool = Arc::new(Pool::new(Dialer::new(config, http2)?, keepalive, config.read_timeout));
    let service = tower::service_fn(move |request: Request<Body>| pool.clone().send(request));
    let service = config.extra_headers_layer()?.layer(service);
    let service = option_layer(config.auth_layer()?).layer(service);
    let service = config.base_uri_layer().layer(service);
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// Marks a request that waits behind no other: it goes by a connection of its own.
#[derive(Clone, Copy, Debug)]
pub struct Urgent;

/// The same client, all of whose requests are urgent: for leases, so that no list costs a lead.
pub fn urgent(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |mut request: Request<Body>| {
        request.extensions_mut().insert(Urgent);
        let client = client.clone();
        async move { client.send(request).await }
    });
    Client::new(service, namespace)
}

#[cfg(test)]
mod tests;
