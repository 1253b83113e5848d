//! Housekeeping on the embedded server, in one process, without a socket, under a paused clock.

mod collecting;
mod emptying;
mod gathering;
mod harness;
mod storms;
