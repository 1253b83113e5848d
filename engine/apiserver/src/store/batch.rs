//! Transactions that go to the disk together: their expectations, and the changes they make.

use std::collections::HashMap;
use std::sync::Arc;

use super::state::State;
use super::{CommitError, Committed, Entry, Expect, Key, Op};

/// More than this in one journal transaction gains nothing, and keeps the first waiting.
const ENOUGH_CHANGES: usize = 1024;
const ENOUGH_BYTES: usize = 8 << 20;

/// One object's step from one version to the next.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) key: Key,
    pub(super) revision: u64,
    pub(super) before: Option<Arc<Entry>>,
    pub(super) after: Option<Arc<Entry>>,
}

/// Changes not yet published, and the state as it will be after them.
pub(super) struct Batch {
    revision: u64,
    bytes: usize,
    changes: Vec<Change>,
    overlay: HashMap<Key, Option<Arc<Entry>>>,
}

impl Batch {
    /// A batch that continues from a published revision.
    pub(super) fn after(revision: u64) -> Self {
        Batch { revision, bytes: 0, changes: Vec::new(), overlay: HashMap::new() }
    }

    /// Adds a whole transaction, or nothing of it. An answer may tell of earlier transactions of this batch,
    /// so it must not leave before they are durable.
    pub(super) fn add(&mut self, state: &State, ops: Vec<Op>) -> Result<Committed, CommitError> {
        let start = self.changes.len();
        for (index, op) in ops.into_iter().enumerate() {
            if let Err(current) = self.step(state, op) {
                self.undo_to(start);
                return Err(CommitError::Conflict { index, current });
            }
        }
        Ok(Committed { revisions: self.changes[start..].iter().map(|change| change.revision).collect() })
    }

    pub(super) fn is_full(&self) -> bool {
        self.changes.len() >= ENOUGH_CHANGES || self.bytes >= ENOUGH_BYTES
    }

    /// The latest revision given out.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn changes(&self) -> &[Change] {
        &self.changes
    }

    pub(super) fn into_changes(self) -> Vec<Change> {
        self.changes
    }

    fn step(&mut self, state: &State, op: Op) -> Result<(), Option<Arc<Entry>>> {
        let (key, after) = match op {
            Op::Put { key, expect, body, labels } => {
                let current = self.current(state, &key);
                let holds = match expect {
                    Expect::Absent => current.is_none(),
                    Expect::Revision(revision) => current.as_ref().is_some_and(|it| it.revision == revision),
                    Expect::Any => true,
                };
                if !holds {
                    return Err(current);
                }
                let entry = Entry { body, revision: self.revision + 1, labels };
                (key, Some(Arc::new(entry)))
            }
            Op::Delete { key, revision } => {
                let current = self.current(state, &key);
                let holds = current.as_ref().is_some_and(|it| revision.is_none_or(|at| it.revision == at));
                if !holds {
                    return Err(current);
                }
                (key, None)
            }
        };
        self.revision += 1;
        self.bytes += after.as_ref().map_or(0, |entry| entry.size());
        let before = self.current(state, &key);
        self.overlay.insert(key.clone(), after.clone());
        self.changes.push(Change { key, revision: self.revision, before, after });
        Ok(())
    }

    fn current(&self, state: &State, key: &Key) -> Option<Arc<Entry>> {
        match self.overlay.get(key) {
            Some(pending) => pending.clone(),
            None => state.get(key).cloned(),
        }
    }

    fn undo_to(&mut self, start: usize) {
        for change in self.changes.drain(start..).rev() {
            self.revision -= 1;
            self.bytes -= change.after.as_ref().map_or(0, |entry| entry.size());
            self.overlay.insert(change.key, change.before);
        }
    }
}
