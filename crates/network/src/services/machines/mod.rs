//! Virtual machines as Services of their own cluster: tagged with a Service's name, they are its endpoints.
//!
//! [`tag`] reads what a machine asks for, [`Machine`] keeps it, and [`plan()`] decides on one Service of machines.

mod plan;
mod record;
pub mod tag;

pub use plan::{Input, MachinePlan, MachineStep, Prefer, plan};
pub(crate) use record::{BETWEEN, is_between};
pub use record::{Machine, MachineService};
