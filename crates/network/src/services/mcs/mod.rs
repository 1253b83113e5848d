//! The Multi-Cluster Services API beside federated Services: a ServiceExport has the Service of its name join the
//! ServiceImport of that name, in every cluster that has the namespace.
//!
//! It merges in its own way: endpoints of all clusters, those at home too, and no choice of names. Behind each import
//! stands a Service of ours, from which it has its addresses.

mod conditions;
mod lead;
mod plan;
mod record;
mod written;

pub use plan::{
    DerivedStep, Exporter, ImportPlan, ImportStep, Input, Status, derived_key, is_behind_an_import, plan,
};
pub use record::{Derived, Export, Import, Offer, Type};
