//! What links objects together, on the embedded server, in one process, under a paused clock.

mod addressing;
mod budgets;
mod harness;
mod identity;
mod limits;
