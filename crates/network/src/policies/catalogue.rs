//! Every policy that anybody has or remembers, by page: kept as news comes, because to gather them anew from all members takes long.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

use super::key::PolicyKey;

/// The names of all policies.
#[derive(Default)]
pub(super) struct Catalogue {
    pages: Mutex<BTreeMap<u8, BTreeSet<PolicyKey>>>,
}

impl Catalogue {
    pub(super) fn add(&self, key: &PolicyKey) {
        let mut pages = self.pages.lock();
        let page = pages.entry(key.page()).or_default();
        if !page.contains(key) {
            page.insert(key.clone());
        }
    }

    /// Strikes a policy off if it is nowhere. Asked under the lock: whoever brings it back meanwhile adds it afterwards.
    pub(super) fn strike(&self, key: &PolicyKey, is_nowhere: impl FnOnce() -> bool) {
        let mut pages = self.pages.lock();
        let Some(page) = pages.get_mut(&key.page()) else { return };
        if page.contains(key) && is_nowhere() {
            page.remove(key);
            if page.is_empty() {
                pages.remove(&key.page());
            }
        }
    }

    /// The pages on which there is anything.
    pub(super) fn in_use(&self) -> Vec<u8> {
        self.pages.lock().keys().copied().collect()
    }

    pub(super) fn page(&self, number: u8) -> Vec<PolicyKey> {
        self.pages.lock().get(&number).into_iter().flatten().cloned().collect()
    }

    pub(super) fn of_namespace(&self, namespace: &str) -> Vec<PolicyKey> {
        let pages = self.pages.lock();
        pages.values().flatten().filter(|key| key.namespace == namespace).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nowhere_is_struck_off() {
        let catalogue = Catalogue::default();
        let (x, y) = (PolicyKey::cluster("x"), PolicyKey::namespaced("n", "y"));
        catalogue.add(&x);
        catalogue.add(&y);
        catalogue.add(&x);
        assert_eq!(catalogue.page(x.page()).iter().filter(|key| **key == x).count(), 1);
        assert_eq!(catalogue.of_namespace("n"), std::slice::from_ref(&y));
        catalogue.strike(&y, || false);
        assert!(catalogue.in_use().contains(&y.page()), "somebody has it");
        catalogue.strike(&y, || true);
        assert_eq!(catalogue.of_namespace("n"), []);
        assert_eq!(catalogue.in_use(), [x.page()]);
    }
}
