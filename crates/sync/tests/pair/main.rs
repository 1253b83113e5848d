//! A syncer between two API servers in one process, under virtual time.

mod basics;
mod deletions;
mod links;
mod reports;
mod running;
mod storms;
mod traps;
mod world;
