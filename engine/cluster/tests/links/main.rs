//! What links objects together, on the embedded server, in one process, under a paused clock.

mod addressing;
mod budgets;
mod harness;
mod identity;
mod limits;
mod mirroring;
#[allow(dead_code, reason = "each of the tests that share it uses a part")]
#[path = "../site/mod.rs"]
mod site;
mod storage;
