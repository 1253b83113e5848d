//! The controller of federated Services, machines and imports: the part with IO.
//!
//! ```text
//! sources ─► join_index ─► inbox of each led member ─► reconcilers ─► snapshot ─► plan ─► writer
//! (one watch for each member and kind, however many members are led)
//! ```

mod context;
mod federated;
mod imports;
mod inbox;
mod join_index;
mod machines;
mod member_conditions;
mod notices;
mod origins;
mod own_slices;
mod quota;
mod reconcilers;
mod resolve;
mod snapshot;
mod snapshot_cache;
mod sources;
mod undone;
mod withdraw;
mod writer;

pub use origins::Origins;
pub(crate) use origins::ServiceListener;
pub use resolve::{Resolve, system};

use std::convert::Infallible;
use std::sync::Arc;

use futures::future::BoxFuture;
use koinon_fleet::Fleet;
use kube::Client;

use self::context::Context;
use self::reconcilers::Reconcilers;
use self::sources::Sources;
use super::machines::Prefer;
use super::metrics::Metrics;
use super::view::{Locality, Stale};
use crate::feature::Feature;
use crate::leader_context::LeaderContext;

/// How federated Services are looked after.
#[derive(Clone)]
pub struct Options {
    /// What becomes of endpoints of a cluster that cannot be reached.
    pub stale: Stale,
    pub locality: Locality,
    /// How names of load balancers are resolved; not at all without.
    pub resolve: Option<Resolve>,
    /// The domain in which virtual machines find federated Services, by way of ExternalDNS.
    pub dns_suffix: Option<String>,
    /// By which of their addresses virtual machines are reached.
    pub prefer: Prefer,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            stale: Stale::default(),
            locality: Locality::default(),
            resolve: Some(system()),
            dns_suffix: None,
            prefer: Prefer::default(),
        }
    }
}

/// Federated Services of all members that one process leads.
pub struct Services {
    sources: Arc<Sources>,
    options: Options,
    metrics: Metrics,
}

impl Services {
    pub fn new(fleet: Arc<Fleet>, options: Options, metrics: Metrics) -> Arc<Services> {
        let sources = Sources::new(fleet, options.resolve.clone());
        Arc::new(Services { sources, options, metrics })
    }

    /// What is known of federated Services, for whoever else needs it.
    pub fn origins(&self) -> Origins {
        Origins::new(self.sources.clone(), self.options.stale)
    }
}

impl Feature for Services {
    fn follow(self: Arc<Self>) -> BoxFuture<'static, Infallible> {
        Box::pin(async move { self.sources.follow().await })
    }

    fn lead(self: Arc<Self>, leader: LeaderContext) -> BoxFuture<'static, Infallible> {
        let cx = Context::new(leader, self.sources.clone(), self.options.clone(), self.metrics.clone());
        Box::pin(Reconcilers::new(cx).run())
    }

    fn withdraw(self: Arc<Self>, cluster: Client) -> BoxFuture<'static, bool> {
        Box::pin(withdraw::withdraw(cluster))
    }
}
