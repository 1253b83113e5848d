//! What pods need to know who they are: an account in every namespace, the authority that signs for the API
//! server, and tokens for those who keep them in Secrets.
//!
//! ```text
//! namespaces ─┬─► default   the ServiceAccount that pods have unless they say otherwise
//!             └─► bundle    the ConfigMap with the certificates of the authority
//! secrets ──────► tokens    token Secrets are filled, and go with their account
//! ```

mod bundle;
mod default;
mod tokens;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use koinon_control::View;
use kube::Api;
use kube::api::PostParams;

use crate::MANAGER;
use crate::shared::Shared;

const WORKERS: usize = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Looks after accounts for as long as it is polled. `authority` is the bundle of certificates, as PEM, by
/// which clients inside the cluster know the API server.
pub async fn run(shared: Shared, authority: String) -> Infallible {
    let accounts: Arc<View<ServiceAccount>> = View::new();
    let authority: Arc<str> = authority.into();
    tokio::select! {
        biased;
        never = accounts.follow(Api::all(shared.client.clone())) => never,
        never = default::run(&shared, &accounts) => never,
        never = bundle::run(&shared, &authority) => never,
        never = tokens::run(&shared, &accounts, &authority) => never,
    }
}

/// Nothing is made in a namespace that goes, or that is not quite there yet.
fn is_active(namespace: &Namespace) -> bool {
    namespace.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Active")
}

fn written() -> PostParams {
    PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() }
}
