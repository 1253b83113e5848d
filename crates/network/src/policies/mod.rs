//! Network policies that hold in every cluster.
//!
//! ```text
//! policies, ledgers, namespaces, tiers of all members ─► sight ─► led: what to look at
//!                                                                  └─► plan (no IO) ─► page ─► policy ─► page
//! ```
//!
//! - [`key`], [`content`], [`version`] and [`ledger`] are the values: which policy, what it says, which revision, and
//!   what each member remembers. [`plan`] decides about one policy in one member; [`rules`] finds what cannot work.
//! - `sight` watches, `catalogue` names all policies, `census` counts who takes part, `led` gathers what counts for a member and `concern` finds what
//!   concerns it, `paging` and `rostering` do what was planned, `hand` writes, `source` has contents and `traffic` counts what is made from them, `telling` tells
//!   users. [`entities`] makes federated Services selectable by ingress rules, [`survey`] says of each policy where
//!   it is.
//!
//! Invariants: nobody's own policy is written over; a revision is numbered only after a look past the watches, and
//! written down under the version of the page that it was decided on; what is to be deleted is written down first;
//! a copy carries its revision, so that whoever finds it knows what it is.

pub mod accept;
mod catalogue;
mod census;
mod concern;
pub mod content;
pub mod entities;
mod hand;
pub mod key;
mod led;
pub mod ledger;
mod metrics;
pub mod names;
mod paging;
pub mod plan;
mod rostering;
pub mod rules;
mod sight;
mod source;
pub mod survey;
mod telling;
mod traffic;
pub mod version;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use koinon_fleet::Fleet;
use kube::Client;

use crate::feature::Feature;
use crate::post::Post;
use crate::services::Origins;
use entities::{Keeper, Roll};
use led::Led;
use sight::Sight;
use source::Source;

pub use metrics::Metrics;

/// How policies span clusters.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who is not listed any more for so long has left. A list that is short for a moment proves nothing.
    pub left_after: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options { left_after: Duration::from_secs(60) }
    }
}

/// Policies that span clusters.
pub struct Policies {
    sight: Arc<Sight>,
    source: Arc<Source>,
    roll: Arc<Roll>,
    options: Options,
    metrics: Metrics,
}

impl Policies {
    /// Policies over the members of `fleet`, whose rules can select the Services that `origins` knows of.
    pub fn new(fleet: Arc<Fleet>, origins: Origins, options: Options, metrics: Metrics) -> Arc<Policies> {
        let roll = Roll::new(fleet.clone(), origins);
        Arc::new(Policies { sight: Sight::new(fleet), source: Arc::default(), roll, options, metrics })
    }
}

impl Feature for Policies {
    fn follow(self: Arc<Self>) -> BoxFuture<'static, Infallible> {
        Box::pin(async move { self.sight.follow().await })
    }

    fn lead(self: Arc<Self>, post: Post) -> BoxFuture<'static, Infallible> {
        Box::pin(async move {
            let (sight, source) = (self.sight.clone(), self.source.clone());
            let keeper = Keeper::new(post.clone(), sight.clone(), self.roll.clone());
            let (roll, metrics) = (self.roll.clone(), self.metrics.clone());
            let led = Led::new(post, sight, source, roll, &self.options, metrics);
            tokio::select! {
                biased;
                never = led.run() => never,
                never = keeper.run() => never,
            }
        })
    }

    /// Copies of policies stay: a cluster that leaves is not to be left without the policies that it had.
    fn withdraw(self: Arc<Self>, cluster: Client) -> BoxFuture<'static, bool> {
        Box::pin(entities::withdraw(cluster))
    }
}
