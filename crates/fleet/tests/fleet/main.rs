//! A fleet of clusters in one process, under paused time, with wires that fail.

mod electing;
mod forming;
mod harness;
mod hostility;
mod joining;
mod letting_in;
mod proxies;
mod reaching;
mod rejoining;
mod renewing;
mod schedules;
mod watching;
