//! A cache of snapshots: a change of one member has the leaders of all members plan from the same view, built once.
//!
//! Whoever takes in a change forgets what it concerns before anybody is told of it, so nobody who is told finds what was before.

use std::collections::BTreeMap;
use std::sync::Arc;

use koinon_control::Key;
use parking_lot::Mutex;

use crate::services::view::Clusters;

/// Enough for what all reconcilers look at within a moment; what is kept here is kept from being freed.
const MOST: usize = 256;

#[derive(Default)]
pub(super) struct SnapshotCache(Mutex<State>);

#[derive(Default)]
struct State {
    kept: BTreeMap<Key, Arc<Clusters>>,
    /// How often something was forgotten.
    turn: u64,
}

/// The moment at which somebody began to look.
#[derive(Clone, Copy)]
pub(super) struct Began(u64);

impl SnapshotCache {
    pub(super) fn get(&self, key: &Key) -> Result<Arc<Clusters>, Began> {
        let state = self.0.lock();
        state.kept.get(key).cloned().ok_or(Began(state.turn))
    }

    /// Keeps what was put together, unless something changed since: it may be of before that.
    pub(super) fn keep(&self, key: &Key, clusters: &Arc<Clusters>, Began(turn): Began) {
        let mut state = self.0.lock();
        if state.turn != turn {
            return;
        }
        if state.kept.len() >= MOST {
            state.kept.clear();
        }
        state.kept.insert(key.clone(), clusters.clone());
    }

    pub(super) fn forget(&self, key: &Key) {
        let mut state = self.0.lock();
        state.turn += 1;
        state.kept.remove(key);
    }

    pub(super) fn forget_all(&self) {
        let mut state = self.0.lock();
        state.turn += 1;
        state.kept.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_together_before_a_change_is_not_kept() {
        let (snapshots, key, other) =
            (SnapshotCache::default(), Key::new("ns", "foo"), Key::new("ns", "bar"));
        let clusters = Arc::new(Clusters::new());
        let Err(began) = snapshots.get(&key) else { panic!("there is nothing yet") };
        snapshots.keep(&key, &clusters, began);
        assert!(snapshots.get(&key).is_ok());
        snapshots.forget(&key);
        snapshots.keep(&key, &clusters, began);
        let Err(began) = snapshots.get(&key) else { panic!("it was looked at before the change") };
        snapshots.keep(&key, &clusters, began);
        snapshots.forget(&other);
        assert!(
            snapshots.get(&key).is_ok(),
            "a change of something else concerns it only while it is looked at"
        );
        snapshots.forget_all();
        assert!(snapshots.get(&key).is_err());
    }
}
