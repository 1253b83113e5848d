//! Garbage collection: dependents follow their owners.
//!
//! ```text
//! discovery ─► one metadata watch for each resource ─► graph ─► queue ─► work ─► server
//!                                                        ▲                 │
//!                                                        └── owner absent ─┘
//! ```
//!
//! Three ways for an owner to go: in the *background* it goes at once and its dependents after it; in the
//! *foreground* it waits until the dependents that block it are gone; as an *orphan*-maker it waits until its
//! dependents no longer name it.

mod graph;
mod live;
mod names;
mod plan;
mod report;
mod watches;
mod work;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use tokio::sync::Notify;

use self::graph::{Graph, Job};
use self::live::Live;
use crate::presence::Presence;
use koinon_control::clock::Clock;
use koinon_control::queue::{self, Queue};

/// Objects that are worked on at the same time.
const WORKERS: usize = 20;
/// Collecting starts without the kinds that could not be listed by then: each deletion is verified anyway.
const LONGEST_FIRST_LIST: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// What watches and workers share.
struct Collector {
    live: Live,
    clock: Clock,
    graph: Mutex<Graph>,
    queue: Queue<Job>,
    /// Resources, by URL, whose first list is not complete.
    unlisted: Mutex<BTreeSet<String>>,
    listed: Notify,
    /// Whether every group that the server announces could be looked into at least once.
    discovered: AtomicBool,
    /// Kinds may have come or gone.
    kinds_changed: Notify,
    /// Who waits for the first object of a kind.
    presence: Presence,
}

impl Collector {
    /// Whether every dependent there is can be known to the graph.
    fn knows_all(&self) -> bool {
        self.discovered.load(Ordering::Acquire) && self.unlisted.lock().is_empty()
    }

    async fn first_list(&self) {
        while !self.knows_all() {
            self.listed.notified().await;
        }
    }
}

/// Collects garbage for as long as it is polled, and tells `presence` of every kind that it sees an object of.
pub async fn run(client: Client, clock: Clock, presence: Presence) -> Infallible {
    let collector = Arc::new(Collector {
        live: Live::new(client),
        clock,
        graph: Mutex::default(),
        queue: Queue::new(FIRST_PAUSE, LONGEST_PAUSE),
        unlisted: Mutex::default(),
        listed: Notify::new(),
        discovered: AtomicBool::new(false),
        kinds_changed: Notify::new(),
        presence,
    });
    let working = async {
        let _ = tokio::time::timeout(LONGEST_FIRST_LIST, collector.first_list()).await;
        queue::work(&collector.queue, WORKERS, |job| collector.clone().handle(job)).await
    };
    tokio::select! {
        biased;
        never = watches::run(&collector) => never,
        never = working => never,
    }
}
