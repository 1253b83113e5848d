//! What every role needs of many clusters.
//!
//! ```text
//! Federation, Secrets ─► fleet ─► members ─┬─ probe ──► health: Joining, Reachable, Unreachable
//!                                          ├─ watch ──► index: compact records of all clusters
//!                                          └─ client ◄─ what a role decided, one deadline and permit a call
//! ```

pub mod health;
pub mod member;
pub mod metrics;

pub use koinon_api::membership::ClusterId;
pub use member::{Limits, MemberClient};
