//! Names, kinds and annotations that users and controllers share.
//!
//! It knows no IO: no client, no runtime, no clock.

pub mod membership;
