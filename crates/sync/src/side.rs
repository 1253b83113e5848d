//! What is known of a CRD's objects on one side: what the watch showed, and what we wrote ourselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use koinon_control::Key;
use parking_lot::Mutex;

use crate::record::Record;

/// What is known of one object.
#[derive(Clone, Debug)]
pub(crate) enum Look {
    /// There was no complete list yet.
    Unknown,
    Absent,
    Known(Arc<Record>),
}

impl Look {
    pub(crate) fn record(&self) -> Option<&Arc<Record>> {
        match self {
            Look::Known(record) => Some(record),
            Look::Unknown | Look::Absent => None,
        }
    }
}

/// A key that is kept once, wherever it is needed.
pub(crate) type Name = Arc<Key>;

/// The objects of one CRD on one side. Whatever changes it gives back the keys that changed.
#[derive(Default)]
pub(crate) struct Side {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<Name, Arc<Record>>,
    /// Objects that we wrote and the watch has not shown yet, by version.
    ahead: BTreeMap<u64, Name>,
    /// Of everything up to this version the watch has told.
    seen: u64,
    /// How many complete lists there were.
    lists: u64,
    /// Objects that had a status and lost it, by the UID they had then.
    cleared: BTreeMap<Name, Box<str>>,
}

impl Side {
    pub(crate) fn look(&self, key: &Key) -> Look {
        let state = self.state.lock();
        match state.objects.get(key) {
            _ if state.lists == 0 => Look::Unknown,
            Some(record) => Look::Known(record.clone()),
            None => Look::Absent,
        }
    }

    /// The object as it is kept, under the name that is kept with it.
    pub(crate) fn kept(&self, key: &Key) -> Option<(Name, Arc<Record>)> {
        let state = self.state.lock();
        state.objects.get_key_value(key).map(|(name, record)| (name.clone(), record.clone()))
    }

    pub(crate) fn is_listed(&self) -> bool {
        self.lists() > 0
    }

    /// How many complete lists there were.
    pub(crate) fn lists(&self) -> u64 {
        self.state.lock().lists
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().objects.len()
    }

    /// How many objects are as asked.
    pub(crate) fn count(&self, wanted: impl Fn(&Record) -> bool) -> usize {
        self.state.lock().objects.values().filter(|record| wanted(record)).count()
    }

    pub(crate) fn keys(&self) -> Vec<Name> {
        self.state.lock().objects.keys().cloned().collect()
    }

    /// Whether this very object had a status and has none now.
    pub(crate) fn is_cleared(&self, key: &Key, uid: &str) -> bool {
        self.state.lock().cleared.get(key).is_some_and(|cleared| **cleared == *uid)
    }

    /// Takes in the answer to a write of ours, or a closer look at one object.
    pub(crate) fn learn(&self, key: Name, record: Record) -> Option<Name> {
        let mut state = self.state.lock();
        // Of this the watch has told already; it may even have shown the end of it.
        if record.version <= state.seen {
            return None;
        }
        if state.objects.get(&key).is_some_and(|known| record.version <= known.version) {
            return None;
        }
        state.ahead.insert(record.version, key.clone());
        state.put(key.clone(), record);
        Some(key)
    }

    /// Takes in that this very object is gone.
    pub(crate) fn forget(&self, key: &Name, uid: &str) -> Option<Name> {
        let mut state = self.state.lock();
        let known = state.objects.get(key)?;
        (*known.uid == *uid).then(|| {
            state.lose(key);
            key.clone()
        })
    }

    /// Takes in that a list of this version did not have the object.
    pub(crate) fn missed(&self, key: &Name, version: u64) -> Option<Name> {
        let mut state = self.state.lock();
        let known = state.objects.get(key)?;
        (known.version <= version).then(|| {
            state.lose(key);
            key.clone()
        })
    }

    /// Takes over a complete list.
    pub(crate) fn replace(&self, version: u64, list: Vec<(Name, Record)>) -> Vec<Name> {
        let mut state = self.state.lock();
        // Versions that went back are those of another server: what we wrote to the old one says nothing here.
        if version < state.seen {
            state.ahead.clear();
        }
        // What we wrote after the list was made is not in it; the watch that follows will tell.
        state.ahead.retain(|written, _| *written > version);
        let mut old = std::mem::take(&mut state.objects);
        let mut changed = Vec::new();
        let ahead: Vec<Name> = state.ahead.values().cloned().collect();
        for key in ahead {
            if let Some(ours) = old.remove(&key) {
                state.objects.insert(key, ours);
            }
        }
        for (key, record) in list {
            if state.objects.contains_key(&key) {
                continue;
            }
            let before = old.remove(&key);
            if before
                .as_ref()
                .is_none_or(|before| before.version != record.version || before.uid != record.uid)
            {
                changed.push(key.clone());
            }
            if let Some(before) = before {
                state.objects.insert(key.clone(), before);
            }
            state.put(key, record);
        }
        for key in old.into_keys() {
            state.cleared.remove(&key);
            changed.push(key);
        }
        state.lists += 1;
        state.seen = version;
        changed
    }

    /// Takes in what the watch shows.
    pub(crate) fn apply(&self, key: Name, record: Record) -> Vec<Name> {
        let mut state = self.state.lock();
        let mut changed = state.pass(record.version);
        state.ahead.retain(|_, ahead| *ahead != key);
        match state.objects.get(&key) {
            Some(known) if known.version == record.version && known.uid == record.uid => return changed,
            // What we wrote ourselves may be newer than what the watch shows so far.
            Some(known) if known.version > record.version => {
                let version = known.version;
                state.ahead.insert(version, key);
                return changed;
            }
            _ => {}
        }
        state.put(key.clone(), record);
        changed.push(key);
        changed
    }

    /// Takes in that the watch shows the end of an object.
    pub(crate) fn delete(&self, key: Name, uid: &str, version: u64) -> Vec<Name> {
        let mut state = self.state.lock();
        let mut changed = state.pass(version);
        // A successor under the same name is another object.
        if state.objects.get(&key).is_some_and(|known| *known.uid == *uid && known.version <= version) {
            state.ahead.retain(|_, ahead| *ahead != key);
            state.lose(&key);
            changed.push(key);
        }
        changed
    }

    /// Takes in that the watch has come to this version.
    pub(crate) fn pass(&self, version: u64) -> Vec<Name> {
        self.state.lock().pass(version)
    }
}

impl State {
    fn put(&mut self, key: Name, record: Record) {
        let before = self.objects.get(&key).filter(|before| before.uid == record.uid);
        if record.has_status() {
            self.cleared.remove(&key);
        } else if before.is_some_and(|before| before.has_status()) {
            self.cleared.insert(key.clone(), record.uid.clone());
        }
        self.objects.insert(key, Arc::new(record));
    }

    fn lose(&mut self, key: &Key) {
        self.objects.remove(key);
        self.cleared.remove(key);
    }

    /// What we wrote before this version and the watch never showed is gone again.
    fn pass(&mut self, version: u64) -> Vec<Name> {
        self.seen = self.seen.max(version);
        let mut changed = Vec::new();
        while let Some(oldest) = self.ahead.first_entry()
            && *oldest.key() < version
        {
            let (written, key) = oldest.remove_entry();
            if self.objects.get(&key).is_some_and(|known| known.version == written) {
                self.lose(&key);
                changed.push(key);
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Wire;

    fn record(name: &str, version: u64) -> (Name, Record) {
        with_status(name, version, "")
    }

    fn with_status(name: &str, version: u64, status: &str) -> (Name, Record) {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","uid":"uid-{name}","resourceVersion":"{version}"}}{status}}}"#
        );
        let (key, record) = serde_json::from_str::<Wire>(&text).unwrap().keep();
        (key.into(), record)
    }

    fn listed(version: u64, objects: &[(&str, u64)]) -> Side {
        let side = Side::default();
        side.replace(version, objects.iter().map(|(name, version)| record(name, *version)).collect());
        side
    }

    #[track_caller]
    fn check(side: &Side, expected: &str) {
        let objects: Vec<_> = side
            .keys()
            .iter()
            .map(|key| format!("{key}={}", side.look(key).record().expect("it is there").version))
            .collect();
        assert_eq!(objects.join(" "), expected);
    }

    fn learn(side: &Side, name: &str, version: u64) -> bool {
        let (key, record) = record(name, version);
        side.learn(key, record).is_some()
    }

    fn apply(side: &Side, name: &str, version: u64) -> String {
        let (key, record) = record(name, version);
        names(&side.apply(key, record))
    }

    fn names(keys: &[Name]) -> String {
        keys.iter().map(|key| key.name.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn before_a_complete_list_nothing_is_known() {
        let side = Side::default();
        learn(&side, "a", 3);
        assert!(matches!(side.look(&Key::new("", "a")), Look::Unknown));
        assert!(matches!(listed(1, &[]).look(&Key::new("", "a")), Look::Absent));
    }

    #[test]
    fn what_we_wrote_counts_at_once_and_is_no_news_from_the_watch() {
        let side = listed(2, &[("a", 1)]);
        assert!(learn(&side, "a", 5));
        check(&side, "a=5");
        assert_eq!(apply(&side, "a", 4), "");
        assert_eq!(apply(&side, "a", 5), "");
        assert_eq!(apply(&side, "b", 6), "b");
        check(&side, "a=5 b=6");
    }

    #[test]
    fn an_answer_that_the_watch_overtook_brings_nothing_back() {
        let side = listed(2, &[("a", 1)]);
        assert_eq!(names(&side.delete(Key::new("", "a").into(), "uid-a", 6)), "a");
        assert!(!learn(&side, "a", 5));
        check(&side, "");
    }

    #[test]
    fn what_the_watch_passed_by_without_showing_is_gone() {
        let side = listed(2, &[("a", 1)]);
        learn(&side, "b", 5);
        assert_eq!(names(&side.pass(5)), "");
        assert_eq!(names(&side.pass(8)), "b");
        check(&side, "a=1");
    }

    #[test]
    fn a_list_replaces_all_but_what_was_written_after_it() {
        let side = listed(3, &[("a", 1), ("b", 2)]);
        learn(&side, "c", 4);
        learn(&side, "d", 9);
        let changed = side.replace(7, vec![record("b", 2), record("e", 6)]);
        assert_eq!(names(&changed), "e a c");
        check(&side, "b=2 d=9 e=6");
    }

    #[test]
    fn a_list_with_older_versions_is_of_another_server() {
        let side = listed(100, &[("a", 90)]);
        learn(&side, "b", 120);
        let changed = side.replace(10, vec![record("c", 5)]);
        assert_eq!(names(&changed), "c a b");
        check(&side, "c=5");
    }

    #[test]
    fn a_lost_status_is_remembered_for_that_very_object() {
        let side = listed(2, &[]);
        let (key, reported) = with_status("a", 3, r#","status":{"x":1}"#);
        side.apply(key.clone(), reported);
        assert!(!side.is_cleared(&key, "uid-a"));
        apply(&side, "a", 4);
        assert!(side.is_cleared(&key, "uid-a"));
        assert!(!side.is_cleared(&key, "uid-of-another"));
        side.forget(&key, "uid-a");
        apply(&side, "a", 6);
        assert!(!side.is_cleared(&key, "uid-a"));
    }

    #[test]
    fn a_closer_look_says_more_than_a_stalled_watch() {
        let side = listed(5, &[("a", 1), ("b", 2)]);
        assert!(side.missed(&Key::new("", "a").into(), 9).is_some());
        learn(&side, "b", 12);
        assert!(side.missed(&Key::new("", "b").into(), 9).is_none(), "that look was before our write");
        check(&side, "b=12");
    }
}
