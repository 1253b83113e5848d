//! ReplicaSets, Deployments, StatefulSets, DaemonSets and ReplicationControllers on the embedded server, in one process, without a socket, under a paused clock.

mod claiming;
mod counting;
mod daemons;
mod harness;
mod losing;
mod rolling;
#[allow(dead_code, reason = "each of the tests that share it uses a part")]
#[path = "../site/mod.rs"]
mod site;
mod stateful;
mod watching;
