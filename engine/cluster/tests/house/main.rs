//! Housekeeping on the embedded server, in one process, without a socket, under a paused clock.

mod collecting;
mod emptying;
mod gathering;
mod harness;
#[allow(dead_code, reason = "each of the tests that share it uses a part")]
#[path = "../site/mod.rs"]
mod site;
mod storms;
