//! Scheduler, simulated nodes and their lifecycle on the embedded server, in one process, under a paused clock.

mod harness;
mod living;
mod placing;
mod running;
mod storms;
