//! What is known of a CRD's objects on one side: what the watch showed, and what we wrote ourselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use koinon_control::Key;
use koinon_control::store::{Change, Store, Versioned};
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
    store: Store<Kept, Name>,
    /// How many complete lists there were.
    lists: u64,
    /// Objects that had a status and lost it, by the UID they had then.
    cleared: BTreeMap<Name, Box<str>>,
}

#[derive(Clone)]
struct Kept(Arc<Record>);

impl Versioned for Kept {
    fn version(&self) -> u64 {
        self.0.version
    }

    fn is_same(&self, other: &Kept) -> bool {
        self.0.uid == other.0.uid
    }
}

impl Side {
    pub(crate) fn look(&self, key: &Key) -> Look {
        let state = self.state.lock();
        match state.store.objects().get(key) {
            _ if state.lists == 0 => Look::Unknown,
            Some(Kept(record)) => Look::Known(record.clone()),
            None => Look::Absent,
        }
    }

    /// The object as it is kept, under the name that is kept with it.
    pub(crate) fn kept(&self, key: &Key) -> Option<(Name, Arc<Record>)> {
        let state = self.state.lock();
        state.store.objects().get_key_value(key).map(|(name, kept)| (name.clone(), kept.0.clone()))
    }

    pub(crate) fn is_listed(&self) -> bool {
        self.lists() > 0
    }

    /// How many complete lists there were.
    pub(crate) fn lists(&self) -> u64 {
        self.state.lock().lists
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().store.objects().len()
    }

    /// How many objects are as asked.
    pub(crate) fn count(&self, wanted: impl Fn(&Record) -> bool) -> usize {
        self.state.lock().store.objects().values().filter(|kept| wanted(&kept.0)).count()
    }

    pub(crate) fn keys(&self) -> Vec<Name> {
        self.state.lock().store.objects().keys().cloned().collect()
    }

    /// Whether this very object had a status and has none now.
    pub(crate) fn is_cleared(&self, key: &Key, uid: &str) -> bool {
        self.state.lock().cleared.get(key).is_some_and(|cleared| **cleared == *uid)
    }

    /// Takes in the answer to a write of ours, or a closer look at one object.
    pub(crate) fn learn(&self, key: Name, record: Record) -> Option<Name> {
        self.change(|store| store.record_own_write(key, Kept(record.into()))).pop()
    }

    /// Takes in that this very object is gone.
    pub(crate) fn forget(&self, key: &Name, uid: &str) -> Option<Name> {
        self.change(|store| store.forget(key, |known| *known.0.uid == *uid)).pop()
    }

    /// Takes in that a list of this version did not have the object.
    pub(crate) fn missed(&self, key: &Name, version: u64) -> Option<Name> {
        self.change(|store| store.forget(key, |known| known.0.version <= version)).pop()
    }

    /// A list begins, before the server is asked for it.
    pub(crate) fn begin_list(&self) {
        self.state.lock().store.begin_list();
    }

    /// The list that was coming in does not come to its end.
    pub(crate) fn drop_list(&self) {
        self.state.lock().store.drop_list();
    }

    /// Takes in one object of a list.
    pub(crate) fn list(&self, key: Name, record: Record) {
        self.state.lock().store.list(key, Kept(record.into()));
    }

    /// Takes over a complete list.
    pub(crate) fn end_list(&self, version: u64) -> Vec<Name> {
        self.state.lock().lists += 1;
        self.change(|store| store.end_list(version))
    }

    /// Takes in what the watch shows.
    pub(crate) fn apply(&self, key: Name, record: Record) -> Vec<Name> {
        self.change(|store| store.apply(key, Kept(record.into())))
    }

    /// Takes in that the watch shows the end of an object. A successor under the same name is another object.
    pub(crate) fn delete(&self, key: &Name, uid: &str, version: u64) -> Vec<Name> {
        let is_it = |known: &Kept| *known.0.uid == *uid && known.0.version <= version;
        self.change(|store| store.delete(key, version, is_it))
    }

    /// Takes in that the watch has come to this version.
    pub(crate) fn observed_up_to(&self, version: u64) -> Vec<Name> {
        self.change(|store| store.observed_up_to(version))
    }

    fn change(&self, change: impl FnOnce(&mut Store<Kept, Name>) -> Vec<Change<Kept, Name>>) -> Vec<Name> {
        let State { store, cleared, .. } = &mut *self.state.lock();
        let mut changed = Vec::new();
        for Change { key, before, after } in change(store) {
            let same =
                before.as_ref().zip(after.as_ref()).is_some_and(|(before, after)| before.is_same(after));
            match (&before, &after) {
                // What we wrote is no news from the watch.
                (Some(before), Some(after)) if same && before.version() == after.version() => continue,
                (Some(Kept(before)), Some(Kept(after)))
                    if same && before.has_status() && !after.has_status() =>
                {
                    cleared.insert(key.clone(), after.uid.clone());
                }
                (_, Some(Kept(after))) if !after.has_status() => {}
                _ => drop(cleared.remove(&key)),
            }
            changed.push(key);
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
        side.begin_list();
        end_list(&side, version, objects);
        side
    }

    fn end_list(side: &Side, version: u64, objects: &[(&str, u64)]) -> Vec<Name> {
        for (name, version) in objects {
            let (key, record) = record(name, *version);
            side.list(key, record);
        }
        side.end_list(version)
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
        assert_eq!(names(&side.delete(&Key::new("", "a").into(), "uid-a", 6)), "a");
        assert!(!learn(&side, "a", 5));
        check(&side, "");
    }

    #[test]
    fn what_the_watch_passed_by_without_showing_is_gone() {
        let side = listed(2, &[("a", 1)]);
        learn(&side, "b", 5);
        assert_eq!(names(&side.observed_up_to(5)), "");
        assert_eq!(names(&side.observed_up_to(8)), "b");
        check(&side, "a=1");
    }

    #[test]
    fn a_list_replaces_all_but_what_was_written_after_it() {
        let side = listed(3, &[("a", 1), ("b", 2)]);
        side.begin_list();
        learn(&side, "c", 4);
        learn(&side, "d", 9);
        let changed = end_list(&side, 7, &[("b", 2), ("e", 6)]);
        assert_eq!(names(&changed), "a c e");
        check(&side, "b=2 d=9 e=6");
    }

    #[test]
    fn a_list_with_older_versions_is_of_another_server() {
        let side = listed(100, &[("a", 90)]);
        side.begin_list();
        learn(&side, "b", 120);
        let changed = end_list(&side, 10, &[("c", 5)]);
        assert_eq!(names(&changed), "a b c");
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
