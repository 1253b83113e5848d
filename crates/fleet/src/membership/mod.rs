//! Who belongs to the federation: read from its objects, kept in them, and changed by commands.
//!
//! [`formation`] decides who is a member and what this cluster's part is, [`status`] what the Federation says
//! of its members; both are plain functions. [`controller`] makes the fleet be so.

pub mod controller;
pub mod formation;
pub mod status;

pub use controller::Controller;
pub use formation::{Formation, Part, Role};
