//! Whole federations in one process under a paused clock: what users do, and what then is in every cluster.

mod conditions;
mod exporting;
mod harness;
mod leading;
mod machines;
mod refusing;
mod resolving;
mod schedules;
mod sharing;
mod wire;
#[path = "../planning/world.rs"]
#[expect(dead_code, reason = "the model is used here for what it says of a whole federation")]
mod world;
