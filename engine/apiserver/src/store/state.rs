//! The published state: every object as of one revision, and the recent events of each resource.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::watch;

use super::batch::Change;
use super::objects::Objects;
use super::{Entry, Event, EventKind, Key, Options, ReadError};

/// What an event costs besides the version it keeps alive.
const EVENT_OVERHEAD: usize = size_of::<Event>() + 64;

pub(super) struct State {
    /// The latest published revision.
    pub(super) revision: u64,
    /// The floor of a resource that never had an event: what came before this process is not known.
    base_floor: u64,
    resources: Vec<Resource>,
    index: HashMap<Arc<str>, usize>,
    options: Options,
    pub(super) objects: usize,
    pub(super) events: usize,
    pub(super) history_bytes: usize,
    pub(super) closed: bool,
}

pub(super) struct Resource {
    name: Arc<str>,
    pub(super) objects: Objects,
    /// Oldest first, so sorted by revision.
    pub(super) events: VecDeque<Arc<Event>>,
    /// The revision of the newest event dropped; the history is complete after it.
    pub(super) floor: u64,
    pub(super) changed: watch::Sender<()>,
}

impl State {
    /// A state with no objects, whose history begins at `revision`.
    pub(super) fn new(revision: u64, options: Options) -> Self {
        State {
            revision,
            base_floor: revision,
            resources: Vec::new(),
            index: HashMap::new(),
            options,
            objects: 0,
            events: 0,
            history_bytes: 0,
            closed: false,
        }
    }

    /// Puts back an object that the journal had, without an event.
    pub(super) fn restore(&mut self, key: &Key, entry: Arc<Entry>) {
        let at = self.resource_index(&key.resource);
        self.resources[at].objects.put(&key.namespace, &key.name, entry);
        self.objects += 1;
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Arc<Entry>> {
        self.resource(&key.resource)?.objects.get(&key.namespace, &key.name)
    }

    pub(super) fn resource(&self, name: &str) -> Option<&Resource> {
        self.index.get(name).map(|at| &self.resources[*at])
    }

    pub(super) fn resource_at(&self, at: usize) -> &Resource {
        &self.resources[at]
    }

    /// The place of a resource, made when it is new. Places stay.
    pub(super) fn resource_index(&mut self, name: &Arc<str>) -> usize {
        if let Some(at) = self.index.get(name) {
            return *at;
        }
        let at = self.resources.len();
        self.resources.push(Resource {
            name: name.clone(),
            objects: Objects::default(),
            events: VecDeque::new(),
            floor: self.base_floor,
            changed: watch::Sender::new(()),
        });
        self.index.insert(name.clone(), at);
        at
    }

    /// Whether the history of a resource can tell what the state was at `revision`, and what came after.
    pub(super) fn check_revision(&self, resource: &str, revision: u64) -> Result<(), ReadError> {
        let floor = self.resource(resource).map_or(self.base_floor, |resource| resource.floor);
        if revision > self.revision {
            Err(ReadError::Future { current: self.revision })
        } else if revision < floor {
            Err(ReadError::Compacted { floor })
        } else {
            Ok(())
        }
    }

    /// Makes changes visible, and answers what to wake once the lock is released.
    pub(super) fn apply(&mut self, changes: Vec<Change>) -> Vec<watch::Sender<()>> {
        let mut touched = Vec::new();
        for change in changes {
            self.revision = change.revision;
            let at = self.resource_index(&change.key.resource);
            if !touched.contains(&at) {
                touched.push(at);
            }
            let Some(event) = self.change_object(at, change) else { continue };
            self.remember(at, event);
        }
        touched.into_iter().map(|at| self.resources[at].changed.clone()).collect()
    }

    /// What to wake when the store closes.
    pub(super) fn everyone(&self) -> Vec<watch::Sender<()>> {
        self.resources.iter().map(|resource| resource.changed.clone()).collect()
    }

    fn change_object(&mut self, at: usize, change: Change) -> Option<Event> {
        let resource = &mut self.resources[at];
        let Change { key, revision, before, after } = change;
        let (kind, entry) = match (&before, after) {
            (None, Some(after)) => (EventKind::Added, after),
            (Some(_), Some(after)) => (EventKind::Modified, after),
            (Some(before), None) => (EventKind::Deleted, before.clone()),
            (None, None) => return None,
        };
        let (namespace, name) = match kind {
            EventKind::Deleted => resource.objects.remove(&key.namespace, &key.name)?,
            _ => resource.objects.put(&key.namespace, &key.name, entry.clone()),
        };
        match kind {
            EventKind::Added => self.objects += 1,
            EventKind::Modified => {}
            EventKind::Deleted => self.objects -= 1,
        }
        let key = Key { resource: resource.name.clone(), namespace, name };
        Some(Event { revision, key, kind, entry, previous: before })
    }

    fn remember(&mut self, at: usize, event: Event) {
        self.history_bytes += cost(&event);
        self.events += 1;
        self.resources[at].events.push_back(Arc::new(event));
        if self.resources[at].events.len() > self.options.events_per_resource {
            self.forget_oldest(at);
        }
        while self.history_bytes > self.options.history_bytes {
            // Resources are few, and this runs once for each write at most, so a scan is enough.
            let oldest = (0..self.resources.len())
                .filter_map(|at| Some((self.resources[at].events.front()?.revision, at)))
                .min();
            let Some((_, at)) = oldest else { break };
            self.forget_oldest(at);
        }
    }

    fn forget_oldest(&mut self, at: usize) {
        let resource = &mut self.resources[at];
        if let Some(event) = resource.events.pop_front() {
            resource.floor = event.revision;
            self.history_bytes -= cost(&event);
            self.events -= 1;
        }
    }
}

/// The memory that goes when an event is dropped: the version before it. The version after it is either
/// current or the one before a later event.
fn cost(event: &Event) -> usize {
    EVENT_OVERHEAD + event.previous.as_ref().map_or(0, |previous| previous.size())
}
