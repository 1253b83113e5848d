//! What every role needs of many clusters.
//!
//! ```text
//! Federation, Secrets ─► fleet ─► members ─┬─ probe ──► health: Joining, Reachable, Unreachable
//!                                          ├─ watch ──► index: compact records of all clusters
//!                                          └─ client ◄─ what a role decided, one deadline and permit a call
//! ```
//!
//! - [`member`] reaches one cluster and [`fleet`] holds them all; [`health`] says who can be worked with.
//! - [`watch`] follows a kind in every member into an [`index`], which is read without waiting. What it does
//!   not know it says it does not know: an unreachable or half-listed member is never an empty one.
//! - [`membership`] reads who belongs to the federation, [`election`] sees that one leads.
//!
//! It knows no role, and not which engine a cluster runs on.

pub mod election;
pub mod fleet;
pub mod health;
pub mod index;
pub mod member;
pub mod membership;
pub mod metrics;
mod probe;
pub mod task;
pub mod watch;

pub use fleet::{Fleet, Link, Member, Options, Wanted};
pub use index::{Index, Knowledge, News, Record};
pub use koinon_api::membership::{ClusterId, Phase};
pub use member::{Limits, MemberClient};
pub use metrics::Metrics;
pub use watch::{Lists, Selection, Unserved};
