//! What every role needs of many clusters.
//!
//! ```text
//! Federation, Secrets ─► fleet ─► members ─┬─ probe ──► health: Joining, Reachable, Unreachable
//!                                          ├─ watch ──► index: compact records of all clusters
//!                                          └─ client ◄─ what a role decided, one deadline and permit a call
//! ```

pub mod election;
pub mod fleet;
pub mod health;
pub mod index;
pub mod member;
pub mod membership;
pub mod metrics;
mod task;
pub mod watch;

pub use fleet::{Fleet, Link, Member, Options, Wanted};
pub use index::{Index, Knowledge, News, Record};
pub use koinon_api::membership::{ClusterId, Phase};
pub use member::{Limits, MemberClient};
pub use metrics::Metrics;
pub use watch::{Lists, Selection};
