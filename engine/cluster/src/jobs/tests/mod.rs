//! Decisions about Jobs, without a server. Cases and their outcomes are those of upstream's table tests.

mod counting;
mod indexed;
mod policies;
mod world;
