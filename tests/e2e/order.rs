//! Who runs when: a few scenarios at a time, and one at a time of those that need something that is there once.

use std::collections::BTreeMap;

use tokio::sync::{Mutex, MutexGuard, Semaphore, SemaphorePermit};

/// So many scenarios run at a time. They wait more than they work.
const AT_ONCE: usize = 4;

/// Something that each cluster has once, so that scenarios that need it take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// AMKO's namespace.
    Configuration,
    /// What robots and clouds share.
    Sync,
    /// Membership in a federation of supervisors.
    Union,
}

pub(crate) struct Order {
    slots: Semaphore,
    lanes: BTreeMap<Lane, Mutex<()>>,
    /// Of those without a lane one at a time waits for a slot, so that a lane, where the next can only follow
    /// the one before, does not wait behind all of them.
    door: Mutex<()>,
}

/// The turn of a scenario, until this is dropped.
pub(crate) struct Turn<'a> {
    _lane: Option<MutexGuard<'a, ()>>,
    _slot: SemaphorePermit<'a>,
}

impl Order {
    pub(crate) fn new() -> Order {
        let lanes = [Lane::Configuration, Lane::Sync, Lane::Union].map(|lane| (lane, Mutex::default()));
        Order { slots: Semaphore::new(AT_ONCE), lanes: lanes.into(), door: Mutex::default() }
    }

    pub(crate) async fn turn(&self, lane: Option<Lane>) -> anyhow::Result<Turn<'_>> {
        let (lane, door) = match lane {
            Some(lane) => (Some(self.lanes[&lane].lock().await), None),
            None => (None, Some(self.door.lock().await)),
        };
        let slot = self.slots.acquire().await?;
        drop(door);
        Ok(Turn { _lane: lane, _slot: slot })
    }
}
