//! Watches: cursors into the history of one resource.

use std::sync::Arc;

use tokio::sync::watch::Receiver;

use super::{Event, ReadError, Shared, WatchError};

/// So that one slow reader far behind does not hold the lock for long.
const BATCH: usize = 512;

/// Reads the events of one resource in order, each once. It buffers nothing: a watcher that does not read
/// costs nothing, and one that falls behind the history is told so.
pub struct Watch {
    shared: Arc<Shared>,
    resource: usize,
    cursor: u64,
    changed: Receiver<()>,
}

impl Watch {
    pub(super) fn new(shared: &Arc<Shared>, resource: &str, from: u64) -> Result<Self, ReadError> {
        let mut state = shared.state.write();
        state.check_revision(resource, from)?;
        let resource = state.resource_index(&resource.into());
        let changed = state.resource_at(resource).changed.subscribe();
        drop(state);
        Ok(Watch { shared: shared.clone(), resource, cursor: from, changed })
    }

    /// The next events, waiting for one when there is none. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, WatchError> {
        loop {
            // Before looking, so that what comes after the look wakes the wait.
            self.changed.mark_unchanged();
            let events = self.try_next()?;
            if !events.is_empty() {
                return Ok(events);
            }
            if self.shared.state.read().closed || self.changed.changed().await.is_err() {
                return Err(WatchError::Closed);
            }
        }
    }

    /// The events that are there already; none when the watcher has seen all.
    pub fn try_next(&mut self) -> Result<Vec<Arc<Event>>, WatchError> {
        let state = self.shared.state.read();
        let resource = state.resource_at(self.resource);
        if self.cursor < resource.floor {
            return Err(WatchError::Compacted { floor: resource.floor });
        }
        let unseen = resource.events.partition_point(|event| event.revision <= self.cursor);
        let events: Vec<Arc<Event>> = resource.events.range(unseen..).take(BATCH).cloned().collect();
        self.cursor = match events.last() {
            Some(last) if unseen + events.len() < resource.events.len() => last.revision,
            _ => state.revision,
        };
        Ok(events)
    }

    /// The revision up to which every event of this resource has been handed out: a watch from there misses
    /// nothing. It moves on while other resources change.
    pub fn seen(&mut self) -> u64 {
        let state = self.shared.state.read();
        let newest = state.resource_at(self.resource).events.back().map_or(0, |event| event.revision);
        if newest <= self.cursor && state.resource_at(self.resource).floor <= self.cursor {
            self.cursor = state.revision;
        }
        self.cursor
    }
}
