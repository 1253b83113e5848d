//! ReplicaSets and Deployments on the embedded server, in one process, without a socket, under a paused clock.

mod claiming;
mod counting;
mod harness;
mod losing;
mod rolling;
mod watching;
