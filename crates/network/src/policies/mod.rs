//! Network policies that hold in every cluster.

pub mod accept;
pub mod content;
pub mod key;
pub mod ledger;
pub mod names;
pub mod plan;
pub mod version;
