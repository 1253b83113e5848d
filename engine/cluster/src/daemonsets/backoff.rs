//! A node that refuses every pod of a set gets the next one ever later.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// What is remembered of nodes on which pods failed, by the uid of their set.
#[derive(Default)]
pub(super) struct Backoff(Mutex<BTreeMap<String, BTreeMap<String, Pause>>>);

struct Pause {
    /// A changed set begins anew.
    generation: i64,
    since: Instant,
    length: Duration,
}

impl Backoff {
    /// The nodes of a set that rest, and how long until the first of them may be looked at again.
    pub(super) fn resting(&self, uid: &str, generation: i64) -> (BTreeSet<String>, Option<Duration>) {
        let now = Instant::now();
        let nodes = self.0.lock();
        let resting = nodes.get(uid).into_iter().flatten().filter_map(|(node, pause)| {
            let until = pause.since + pause.length;
            (pause.generation == generation && now < until).then(|| (node.clone(), until - now))
        });
        let (nodes, left): (BTreeSet<String>, Vec<Duration>) = resting.unzip();
        (nodes, left.into_iter().min())
    }

    /// A pod of the set failed on this node and is replaced now.
    pub(super) fn note(&self, uid: &str, generation: i64, node: &str) {
        let now = Instant::now();
        let mut nodes = self.0.lock();
        let pauses = nodes.entry(uid.to_owned()).or_default();
        let before = pauses.get(node).filter(|pause| {
            // Long well, and it counts as the first time.
            pause.generation == generation && now < pause.since + 2 * LONGEST
        });
        let length = before.map_or(FIRST, |pause| (pause.length * 2).min(LONGEST));
        pauses.insert(node.to_owned(), Pause { generation, since: now, length });
    }

    /// Forgets all sets but these.
    pub(super) fn keep(&self, known: impl Fn(&str) -> bool) {
        self.0.lock().retain(|uid, _| known(uid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_node_rests_twice_as_long_each_time_until_the_set_changes() {
        let backoff = Backoff::default();
        let rests = |generation| backoff.resting("set", generation).1.map(|left| left.as_secs());
        assert_eq!(rests(1), None);
        for expected in [1, 2, 4] {
            backoff.note("set", 1, "n1");
            assert_eq!(rests(1), Some(expected));
            tokio::time::sleep(Duration::from_secs(expected)).await;
            assert_eq!(rests(1), None);
        }
        backoff.note("set", 1, "n1");
        assert_eq!((rests(1), rests(2)), (Some(8), None));
        backoff.note("set", 2, "n1");
        assert_eq!(rests(2), Some(1));
        for _ in 0..20 {
            backoff.note("set", 2, "n1");
        }
        assert_eq!(rests(2), Some(LONGEST.as_secs()));
        backoff.keep(|_| false);
        assert_eq!(rests(2), None);
    }
}
