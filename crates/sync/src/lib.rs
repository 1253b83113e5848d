//! Custom resources kept in step between a cloud cluster and robots.
//!
//! ```text
//!            cloud API                                        robot API
//!                │                                                │
//!      access ─ follow ─► side ─┐                 ┌─ side ◄─ follow ─ access
//!                               └─► key ─► plan ◄─┘
//!                ▲                      │                         ▲
//!                └──── status ◄── lanes ┴ gate ──► copies ────────┘
//! ```
//!
//! - [`plan`] decides about one object, in plain values; [`settings`] reads what a CRD asks for.
//! - The engine follows the CRDs beside the robot and keeps one pipeline for each that asks for it: two watches, a
//!   lane of work in each direction, and a gate that every deletion passes.
//! - Nothing is deleted before both sides were listed completely, nor when the originals may be somewhere else than
//!   before, nor many at once without a human's word.
//!
//! It speaks the plain Kubernetes API to both sides and does not know which engine they run on.

mod access;
mod board;
mod definition;
mod drift;
mod end;
mod engine;
mod follow;
mod gate;
mod gauges;
mod keeper;
mod lane;
pub mod manifests;
mod metrics;
pub mod names;
mod origin;
mod pipeline;
pub mod plan;
mod presence;
mod record;
mod report;
mod robots;
pub mod settings;
mod side;

pub use access::Access;
pub use board::{CrdView, LinkView, Summary, View};
pub use engine::{BadName, Handle, Options, Sync, check_name};
pub use robots::{Contact, Robot, seen_from_cloud};
