//! The federator on embedded servers, several clusters in one process, without a socket, under a paused clock.

mod definitions;
mod disasters;
mod faults;
mod further;
mod harness;
mod schedules;
mod suite;
