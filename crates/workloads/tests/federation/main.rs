//! Whole federations in one process under a paused clock: what users do, and what then happens in every member.

mod budgets;
mod changing;
mod crashing;
mod deleting;
mod ending;
mod harness;
mod marks;
mod meanwhile;
mod moving;
mod namespaces;
mod pausing;
mod refusals;
mod rolling;
mod soaking;
mod spreading;
mod starting;
mod storms;
mod takeover;
mod troubles;
mod waiting;
mod wire;
