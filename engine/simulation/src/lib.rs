//! Whole federations in one thread under virtual time, with every fault a network and a process can have, and the
//! same again from a seed.
//!
//! ```text
//!   schedule (data, from a seed) ──► a scenario: users' edits, faults, ends of controllers
//!                                        │
//!   controller ── client ──► Network ────┴──► Site (an embedded API server, its clock as wrong as it likes)
//!                               │
//!                               └──► Trace: every write, every fault, every complaint of a witness
//! ```
//!
//! - [`Network`] carries requests between named parties. Each way has its [`Fault`]s; each party has a [`Fuse`] that
//!   ends it at one of its requests.
//! - [`Site`] is an API server in memory; [`Time`] is its clock, which runs with tokio's.
//! - [`Hostile`] is a server that means harm, for what has to go on beside one.
//! - [`explore`] runs a scenario for many seeds. A failure is shrunk to a small schedule and told with its timeline.
//! - The oracles: a witness that sees every write before it is carried out ([`Network::before_each_write`]), and
//!   [`Network::until_quiet`], which asks for silence after the last fault.
//!
//! Nothing here knows a role. Roles use it in their tests, and `koinon simulate` shows it to users.

mod dice;
#[cfg(feature = "explore")]
mod explore;
mod fault;
mod fuse;
mod hostile;
mod network;
mod site;
mod stream;
mod time;
mod trace;
mod way;

pub use dice::Dice;
#[cfg(feature = "explore")]
pub use explore::{Exploration, explore, repeat, replay, seeds};
pub use fault::{Fault, Requests};
pub use fuse::Fuse;
pub use hostile::{Hostile, Hostility};
pub use network::{Network, Witness};
pub use site::Site;
pub use time::Time;
pub use trace::{Trace, Write};
pub use way::Way;
