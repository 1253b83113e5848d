//! Network policies that hold in every cluster.
//!
//! ```text
//! policies, ledgers, namespaces, tiers of all members ─► caches ─► reconciler: what to look at
//!                                                                  └─► plan (no IO) ─► page ─► policy ─► page
//! ```
//!
//! - [`key`], [`content`], [`version`] and [`ledger`] are the values: which policy, what it says, which revision, and
//!   what each member remembers. [`plan`] decides about one policy in one member; [`rules`] finds what cannot work.
//! - `caches` watches, `catalogue` names all policies, `participants` counts who takes part. `member_reconciler` gathers
//!   what counts for a member, `event_filter` finds what concerns it. `ledger_pages` and `ledger_roster` carry out what was
//!   planned, `writer` writes, `source` has contents, `write_barrier` lets copies go first, `notices` tells users.
//!   [`entities`] makes federated Services selectable by ingress rules, [`survey`] says of each policy where
//!   it is.
//!
//! Invariants: nobody's own policy is written over; a revision is numbered only after a look past the watches, and
//! written down under the version of the page that it was decided on; what is to be deleted is written down first;
//! a copy carries its revision, so that whoever finds it knows what it is.

pub mod accept;
mod caches;
mod catalogue;
pub mod content;
pub mod entities;
mod event_filter;
pub mod key;
pub mod ledger;
mod ledger_pages;
mod ledger_roster;
mod member_reconciler;
mod metrics;
pub mod names;
mod notices;
mod participants;
pub mod plan;
pub mod rules;
mod source;
pub mod survey;
pub mod version;
mod write_barrier;
mod writer;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use koinon_fleet::Fleet;
use kube::Client;

use crate::feature::Feature;
use crate::leader_context::LeaderContext;
use crate::services::Origins;
use caches::PolicyCaches;
use entities::{Keeper, Roll};
use member_reconciler::MemberReconciler;
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
    caches: Arc<PolicyCaches>,
    source: Arc<Source>,
    roll: Arc<Roll>,
    options: Options,
    metrics: Metrics,
}

impl Policies {
    /// Policies over the members of `fleet`, whose rules can select the Services that `origins` knows of.
    pub fn new(fleet: Arc<Fleet>, origins: Origins, options: Options, metrics: Metrics) -> Arc<Policies> {
        let roll = Roll::new(fleet.clone(), origins);
        Arc::new(Policies {
            caches: PolicyCaches::new(fleet),
            source: Arc::default(),
            roll,
            options,
            metrics,
        })
    }
}

impl Feature for Policies {
    fn follow(self: Arc<Self>) -> BoxFuture<'static, Infallible> {
        Box::pin(async move { self.caches.follow().await })
    }

    fn lead(self: Arc<Self>, leader: LeaderContext) -> BoxFuture<'static, Infallible> {
        Box::pin(async move {
            let (caches, source) = (self.caches.clone(), self.source.clone());
            let keeper = Keeper::new(leader.clone(), caches.clone(), self.roll.clone());
            let (roll, metrics) = (self.roll.clone(), self.metrics.clone());
            let reconciler = MemberReconciler::new(leader, caches, source, roll, &self.options, metrics);
            tokio::select! {
                biased;
                never = reconciler.run() => never,
                never = keeper.run() => never,
            }
        })
    }

    /// Copies of policies stay: a cluster that leaves is not to be left without the policies that it had.
    fn withdraw(self: Arc<Self>, cluster: Client) -> BoxFuture<'static, bool> {
        Box::pin(entities::withdraw(cluster))
    }
}
