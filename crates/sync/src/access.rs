//! One API server.

use http::Request;
use koinon_control::call::{self, within_deadline};
use kube::Client;
use serde::de::DeserializeOwned;

/// Access to one API server.
#[derive(Clone)]
pub struct Access(Client);

impl Access {
    /// Access through one client, which renews its own credentials (`koinon_control::client::renewing`) or needs none.
    pub fn new(client: Client) -> Access {
        Access(client)
    }

    /// A client for whatever else speaks to this server.
    pub fn client(&self) -> Client {
        self.0.clone()
    }

    /// Sends one request and waits for its answer, but not forever.
    pub(crate) async fn send<T: DeserializeOwned>(
        &self,
        request: Request<Vec<u8>>,
    ) -> Result<T, call::Error> {
        within_deadline(self.0.request(request)).await
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, call::Error> {
        let request = Request::get(path).body(Vec::new()).expect("a path is a URI");
        self.send(request).await
    }
}
