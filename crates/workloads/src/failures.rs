//! Pods that members cannot create, told as events: once for each cluster, as `kubectl describe` of one cluster's ReplicaSet does.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use koinon_control::Key;
use koinon_control::events::Weight;
use parking_lot::Mutex;

use crate::events::Told;

/// The clusters of each workload of which that was told. Kept in memory: whoever starts anew goes by the condition.
#[derive(Default)]
pub(crate) struct Failures(Mutex<HashMap<Key, BTreeSet<String>>>);

impl Failures {
    /// What is new of this workload. `now` is what each cluster says that cannot create its pods; `is_known` says that the
    /// workload's condition spoke of failures already.
    pub(crate) fn news(&self, key: &Key, now: &BTreeMap<String, String>, is_known: bool) -> Vec<Told> {
        let names: BTreeSet<String> = now.keys().cloned().collect();
        let mut told = self.0.lock();
        let before = match told.get(key) {
            Some(before) => before.clone(),
            None if is_known => names.clone(),
            None => BTreeSet::new(),
        };
        if names.is_empty() {
            told.remove(key);
        } else {
            told.insert(key.clone(), names);
        }
        let news = now.iter().filter(|(name, _)| !before.contains(*name));
        news.map(|(name, message)| Told {
            weight: Weight::Warning,
            reason: "FailedCreate",
            message: format!("cluster {name}: pods cannot be created: {message}"),
        })
        .collect()
    }

    /// How many workloads it has an entry for.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Forgets a workload that is no more.
    pub(crate) fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cluster_is_told_once_until_it_is_well_again() {
        let failures = Failures::default();
        let key = Key::new("default", "web");
        let now = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), "no quota".into())).collect();
        let news = |now: &BTreeMap<String, String>, is_known| {
            let told = failures.news(&key, now, is_known);
            told.into_iter().map(|told| told.message).collect::<Vec<_>>()
        };
        assert_eq!(news(&now(&["a"]), false), ["cluster a: pods cannot be created: no quota"]);
        assert_eq!(news(&now(&["a", "b"]), true), ["cluster b: pods cannot be created: no quota"]);
        assert_eq!(news(&now(&["a", "b"]), true), [""; 0]);
        assert_eq!(news(&now(&["b"]), true), [""; 0]);
        assert_eq!(news(&now(&["a", "b"]), true).len(), 1, "it fails again");
        failures.forget(&key);
        assert_eq!(news(&now(&["a", "b"]), true), [""; 0], "after a restart the condition tells");
        assert_eq!(news(&now(&[]), true), [""; 0]);
        assert_eq!(failures.0.lock().len(), 0);
    }
}
