//! Custom resources kept in step between a cloud cluster and robots.

pub mod names;
pub mod plan;
pub mod settings;
