//! Scheduler, simulated nodes and their lifecycle on the embedded server, in one process, under a paused clock.

mod harness;
mod living;
mod placing;
mod running;
#[allow(dead_code, reason = "each of the tests that share it uses a part")]
#[path = "../site/mod.rs"]
mod site;
mod storms;
