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

//FL
pub mod identity;
pub mod impersonate;
//KC
//PKI
pub mod rbac;
//RV
//TK

#[cfg(test)]
mod recorded;

pub use identity::User;
