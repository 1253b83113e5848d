//! Whole federations in one process under a paused clock: what users do, and what then happens in every member.

mod harness;
mod spreading;
mod wire;
