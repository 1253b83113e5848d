//! A fleet of clusters in one process, under paused time, with wires that fail.

mod electing;
mod forming;
mod harness;
mod joining;
mod reaching;
mod rejoining;
mod schedules;
mod watching;
