//! A Kubernetes API server in one process.

pub mod admission;
pub mod apply;
pub mod auth;
pub mod catalog;
pub mod cel;
pub use koinon_context as context;
pub mod crd;
pub mod data;
pub mod field;
pub mod jsonpath;
pub mod kinds;
pub mod names;
pub mod patch;
mod pem;
pub mod protobuf;
pub mod quantity;
pub mod schema;
pub mod selector;
pub mod serve;
pub mod status;
pub mod store;
pub mod table;

#[cfg(test)]
mod fuzz;
