//! Whole federations in one process under a paused clock: what users do, and what then happens in every member.

mod crashing;
mod deleting;
mod harness;
mod moving;
mod rolling;
mod spreading;
mod storms;
mod troubles;
mod wire;
