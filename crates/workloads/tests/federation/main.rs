//! Whole federations in one process under a paused clock: what users do, and what then happens in every member.

mod budgets;
mod changing;
mod crashing;
mod deleting;
mod harness;
mod meanwhile;
mod moving;
mod pausing;
mod refusals;
mod rolling;
mod spreading;
mod storms;
mod troubles;
mod wire;
