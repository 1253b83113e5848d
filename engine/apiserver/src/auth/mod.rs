//! Who is asking, and what they may do.
//!
//! ```text
//! TLS peer ──┐
//! bearer ────┼─► identity ─► impersonate ─► rbac ─► handler
//! (token) ───┘   (User)                     ▲
//!                                 Index ◄───┘ fed with roles and bindings
//! ```
//!
//! Everything but [`pki`] and [`kubeconfig`] is a pure function over values: no IO, no clock of its own.

pub(crate) mod csr;
pub mod files;
pub mod identity;
pub mod impersonate;
pub mod kubeconfig;
pub mod pki;
pub mod rbac;
pub mod reviews;
pub mod token;

#[cfg(test)]
mod recorded;

pub use identity::User;
