//! Network policies that hold in every cluster.
//!
//! ```text
//! policies, ledgers, namespaces, tiers of all members ─► sight ─► led: what to look at
//!                                                                  └─► plan (no IO) ─► page ─► policy ─► page
//! ```
//!
//! - [`key`], [`content`], [`version`] and [`ledger`] are the values: which policy, what it says, which revision, and
//!   what each member remembers. [`plan`] decides about one policy in one member; [`rules`] finds what cannot work.
//! - `sight` watches, `led` gathers what counts for a member, `paging` and `rostering` do what was planned, `hand`
//!   writes, `source` has contents, `telling` tells users. [`entities`] makes federated Services selectable by
//!   ingress rules, [`survey`] says of each policy where it is.
//!
//! Invariants: nobody's own policy is written over; a revision is numbered only after a look past the watches, and
//! written down under the version of the page that it was decided on; what is to be deleted is written down first;
//! a copy carries its revision, so that whoever finds it knows what it is.

pub mod accept;
pub mod content;
pub mod entities;
mod hand;
pub mod key;
mod led;
pub mod ledger;
pub mod names;
mod paging;
pub mod plan;
mod rostering;
pub mod rules;
mod sight;
mod source;
pub mod survey;
mod telling;
pub mod version;

use std::convert::Infallible;
use std::sync::Arc;

use futures::future::BoxFuture;
use koinon_fleet::Fleet;
use kube::Client;

use crate::feature::Feature;
use crate::post::Post;
use led::Led;
use sight::Sight;
use source::Source;

/// Policies that span clusters.
pub struct Policies {
    sight: Arc<Sight>,
    source: Arc<Source>,
}

impl Policies {
    pub fn new(fleet: Arc<Fleet>) -> Arc<Policies> {
        Arc::new(Policies { sight: Sight::new(fleet), source: Arc::default() })
    }
}

impl Feature for Policies {
    fn follow(self: Arc<Self>) -> BoxFuture<'static, Infallible> {
        Box::pin(async move { self.sight.follow().await })
    }

    fn lead(self: Arc<Self>, post: Post) -> BoxFuture<'static, Infallible> {
        Box::pin(async move {
            let led = Led::new(post.clone(), self.sight.clone(), self.source.clone());
            tokio::select! {
                never = led.run() => never,
                never = entities::run(post) => never,
            }
        })
    }

    /// Copies of policies stay: a cluster that leaves is not to be left without the policies that it had.
    fn withdraw(self: Arc<Self>, cluster: Client) -> BoxFuture<'static, bool> {
        Box::pin(entities::withdraw(cluster))
    }
}
