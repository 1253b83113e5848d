//! Proof that Koinon's API server behaves as kube-apiserver does.
//!
//! ```text
//!   harness ── starts ──> stock kube-apiserver, koinon        client: raw requests to either
//!
//!   generate ─ seed ──> sequence ─ both ──> normal ──> diff ──> known ──> shrink ──> report
//!   script (kubectl) ────────────────────> text ────> diff
//! ```
//!
//! Nothing here knows how Koinon works inside: both servers are processes with a kubeconfig.

pub mod client;
pub mod compare;
pub mod diff;
pub mod generate;
pub mod harness;
pub mod known;
pub mod kubeconfig;
pub mod matrix;
pub mod normal;
mod pointer;
pub mod rng;
pub mod script;
pub mod sequence;
pub mod text;
pub mod watch;
