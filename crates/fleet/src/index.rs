//! The store of one kind: compact records of its objects in all members, kept by watches and read without waiting.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use jiff::Timestamp;
use koinon_api::membership::ClusterId;
use koinon_control::Key;
use koinon_control::store::{Change, Store, Versioned, version};
use kube::Resource;
use parking_lot::{Mutex, RwLock};
use serde::de::DeserializeOwned;

use crate::fleet::Member;

/// What a role keeps of an object: a few numbers and names, never the object.
pub trait Record: PartialEq + Send + Sync + 'static {
    type Object: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static;

    /// What is worth keeping; `None` for an object of no interest.
    fn fold(object: &Self::Object) -> Option<Self>
    where
        Self: Sized;

    /// The bytes that it holds beside its own size: texts and lists, whose length the member decides.
    fn held(&self) -> usize {
        0
    }
}

/// How much can be read into what an index holds of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Knowledge {
    /// Its objects were never listed to the end: what is not there may well exist.
    #[default]
    Unknown,
    /// Everything is there, and changes arrive.
    Complete,
    /// Everything was there, but changes have not arrived since.
    Stale { since: Timestamp },
}

/// Records of all members. One change at a time; whoever listens is told of records that really changed.
pub struct Index<R> {
    shelves: RwLock<BTreeMap<ClusterId, Shelf<R>>>,
    listeners: RwLock<Vec<Listener>>,
    changing: Mutex<()>,
}

type Listener = Box<dyn Fn(&News<'_>) + Send + Sync>;

/// What an index tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News<'a> {
    /// The record under a key is another, new or gone.
    Record(&'a ClusterId, &'a Key),
    /// More or less is known of a member than before, or it serves the kind now, or no more.
    Knowledge(&'a ClusterId, Knowledge),
}

struct Shelf<R> {
    store: Store<Entry<R>>,
    knowledge: Knowledge,
    /// Whether the member was last seen to know no such kind.
    unserved: bool,
    /// Which of those that had the member's name these are the objects of; nothing where nobody said so.
    serial: u64,
    /// The bytes of the records, and of those of a list that is coming in.
    held: u64,
    listing: u64,
}

impl<R> Default for Shelf<R> {
    fn default() -> Self {
        Shelf {
            store: Store::default(),
            knowledge: Knowledge::Unknown,
            unserved: false,
            serial: 0,
            held: 0,
            listing: 0,
        }
    }
}

struct Entry<R> {
    version: u64,
    uid: u64,
    record: Arc<R>,
}

impl<R: Record> Entry<R> {
    /// What it takes to keep it under a key.
    fn held(&self, key: &Key) -> u64 {
        let own = size_of::<(Key, Entry<R>)>() + size_of::<R>() + self.record.held();
        (own + key.namespace.len() + key.name.len()) as u64
    }
}

impl<R: Record> Shelf<R> {
    /// Changes records, and keeps count of what they hold.
    fn counting(
        &mut self,
        change: impl FnOnce(&mut Store<Entry<R>>) -> Vec<Change<Entry<R>>>,
    ) -> Vec<Change<Entry<R>>> {
        let changes = change(&mut self.store);
        for Change { key, before, after } in &changes {
            self.held += after.as_ref().map_or(0, |after| after.held(key));
            self.held = self.held.saturating_sub(before.as_ref().map_or(0, |before| before.held(key)));
        }
        changes
    }

    /// From the start: a list may replace a record under the version that it had.
    fn count_all(&mut self) {
        self.listing = 0;
        self.held = self.store.objects().iter().map(|(key, entry)| entry.held(key)).sum();
    }
}

impl<R> Clone for Entry<R> {
    fn clone(&self) -> Self {
        Entry { version: self.version, uid: self.uid, record: self.record.clone() }
    }
}

impl<R> Versioned for Entry<R> {
    fn version(&self) -> u64 {
        self.version
    }

    fn is_same(&self, other: &Self) -> bool {
        self.uid == other.uid
    }
}

impl<R: Record> Index<R> {
    pub fn new() -> Arc<Index<R>> {
        Arc::new(Index {
            shelves: RwLock::default(),
            listeners: RwLock::default(),
            changing: Mutex::default(),
        })
    }

    /// Calls `listener` with everything that changes from now on. It must not block; usually it adds keys to
    /// a queue.
    pub fn on_change(&self, listener: impl Fn(&News<'_>) + Send + Sync + 'static) {
        self.listeners.write().push(Box::new(listener));
    }

    /// One record. Whether its absence means anything is for [`Index::knowledge`] to say.
    pub fn get(&self, member: &str, key: &Key) -> Option<Arc<R>> {
        self.shelves.read().get(member)?.store.objects().get(key).map(|entry| entry.record.clone())
    }

    /// The records under one key in all members.
    pub fn everywhere(&self, key: &Key) -> BTreeMap<ClusterId, Arc<R>> {
        let shelves = self.shelves.read();
        let found = shelves.iter().filter_map(|(member, shelf)| {
            shelf.store.objects().get(key).map(|entry| (member.clone(), entry.record.clone()))
        });
        found.collect()
    }

    /// All records of one member, by key.
    pub fn of_member(&self, member: &str) -> Vec<(Key, Arc<R>)> {
        let shelves = self.shelves.read();
        let records = shelves.get(member).map(|shelf| shelf.store.objects()).into_iter().flatten();
        records.map(|(key, entry)| (key.clone(), entry.record.clone())).collect()
    }

    pub fn knowledge(&self, member: &str) -> Knowledge {
        self.shelves.read().get(member).map_or(Knowledge::Unknown, |shelf| shelf.knowledge)
    }

    /// Whether what is here is of this member, and not of one that had its name before.
    pub(crate) fn is_of(&self, member: &Member) -> bool {
        self.shelves.read().get(member.name()).is_some_and(|shelf| shelf.serial == member.serial)
    }

    /// From now on what comes under this name is of that member.
    pub(crate) fn enter(&self, member: &ClusterId, serial: u64) {
        self.shelves.write().entry(member.clone()).or_default().serial = serial;
    }

    /// Whether a member certainly serves no such kind: there is none, and none can be made.
    pub fn is_unserved(&self, member: &str) -> bool {
        self.shelves.read().get(member).is_some_and(|shelf| shelf.unserved)
    }

    /// The bytes of a member's records, and of those of a list that is coming in.
    pub(crate) fn held(&self, member: &str) -> u64 {
        self.shelves.read().get(member).map_or(0, |shelf| shelf.held + shelf.listing)
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.shelves.read().values().map(|shelf| shelf.store.objects().len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes in a member's answer to a write of ours, so that the next decision counts with it.
    pub fn learn(&self, member: &ClusterId, object: &R::Object) {
        self.change(member, |shelf| match Entry::of(object) {
            Some(entry) => shelf.counting(|store| store.record_own_write(Key::of(object), entry)),
            // The watch tells in time; until then the old record stands.
            None => Vec::new(),
        });
    }

    /// Takes in that a member, asked to delete this very object, did so at once.
    pub fn forget(&self, member: &ClusterId, key: &Key, uid: &str) {
        let uid = digest(uid);
        self.change(member, |shelf| shelf.counting(|store| store.forget(key, |entry| entry.uid == uid)));
    }

    /// A list of a member's objects begins.
    pub fn begin_list(&self, member: &ClusterId) {
        self.change(member, |shelf| {
            shelf.store.begin_list();
            shelf.listing = 0;
            Vec::new()
        });
    }

    /// The list that was coming in does not come to its end.
    pub(crate) fn drop_list(&self, member: &ClusterId) {
        self.change(member, |shelf| {
            shelf.store.drop_list();
            shelf.listing = 0;
            Vec::new()
        });
    }

    /// Takes in one object of a list.
    pub fn list(&self, member: &ClusterId, object: &R::Object) {
        let Some(entry) = Entry::of(object) else { return };
        self.change(member, |shelf| {
            let key = Key::of(object);
            shelf.listing += entry.held(&key);
            shelf.store.list(key, entry);
            Vec::new()
        });
    }

    /// Takes over a complete list, made at a version of the member.
    pub fn end_list(&self, member: &ClusterId, at: u64) {
        self.change(member, |shelf| {
            let changes = shelf.store.end_list(at);
            shelf.count_all();
            changes
        });
    }

    /// Takes in an object that the watch shows.
    pub fn apply(&self, member: &ClusterId, object: &R::Object) {
        let key = Key::of(object);
        self.change(member, |shelf| match Entry::of(object) {
            Some(entry) => shelf.counting(|store| store.apply(key, entry)),
            None => shelf.counting(|store| store.delete(&key, version(object), |_| true)),
        });
    }

    /// Takes in that the watch showed the end of an object.
    pub fn delete(&self, member: &ClusterId, object: &R::Object) {
        let uid = object.meta().uid.as_deref().map_or(0, digest);
        self.change(member, |shelf| {
            shelf.counting(|store| store.delete(&Key::of(object), version(object), |entry| entry.uid == uid))
        });
    }

    /// The watch has come to this version without showing anything.
    pub fn pass(&self, member: &ClusterId, version: u64) {
        self.change(member, |shelf| shelf.counting(|store| store.observed_up_to(version)));
    }

    /// From now on changes arrive; what was listed is complete.
    pub fn followed(&self, member: &ClusterId) {
        self.know(member, |_| (Knowledge::Complete, false));
    }

    /// The member serves no such kind: there are none, and none of ours either.
    pub fn unserved(&self, member: &ClusterId) {
        self.begin_list(member);
        self.end_list(member, u64::MAX);
        self.know(member, |_| (Knowledge::Complete, true));
    }

    /// Changes do not arrive any more. What is known stays, but it grows old.
    pub fn cut(&self, member: &ClusterId, now: Timestamp) {
        self.know(member, |(before, unserved)| match before {
            Knowledge::Complete => (Knowledge::Stale { since: now }, unserved),
            Knowledge::Unknown | Knowledge::Stale { .. } => (before, unserved),
        });
    }

    /// Drops all of a cluster that is no member any more.
    pub fn leave(&self, member: &ClusterId) {
        let _one_at_a_time = self.changing.lock();
        let Some(shelf) = self.shelves.write().remove(member) else { return };
        self.tell(shelf.store.objects().keys().map(|key| News::Record(member, key)));
        self.tell([News::Knowledge(member, Knowledge::Unknown)]);
    }

    /// Takes in how much is known now, and whether the kind is unserved.
    fn know(&self, member: &ClusterId, next: impl FnOnce((Knowledge, bool)) -> (Knowledge, bool)) {
        let _one_at_a_time = self.changing.lock();
        let (before, after) = {
            let mut shelves = self.shelves.write();
            let shelf = shelves.entry(member.clone()).or_default();
            let before = (shelf.knowledge, shelf.unserved);
            let after = next(before);
            (shelf.knowledge, shelf.unserved) = after;
            (before, after)
        };
        if before != after {
            self.tell([News::Knowledge(member, after.0)]);
        }
    }

    fn change(&self, member: &ClusterId, change: impl FnOnce(&mut Shelf<R>) -> Vec<Change<Entry<R>>>) {
        let _one_at_a_time = self.changing.lock();
        let changes = change(self.shelves.write().entry(member.clone()).or_default());
        let changed = changes.iter().filter(|change| {
            let record = |entry: &Option<Entry<R>>| entry.as_ref().map(|entry| entry.record.clone());
            record(&change.before) != record(&change.after)
        });
        self.tell(changed.map(|change| News::Record(member, &change.key)));
    }

    fn tell<'a>(&self, news: impl IntoIterator<Item = News<'a>>) {
        let listeners = self.listeners.read();
        for one in news {
            for listener in listeners.iter() {
                listener(&one);
            }
        }
    }
}

impl<R: Record> Entry<R> {
    fn of(object: &R::Object) -> Option<Entry<R>> {
        let record = Arc::new(R::fold(object)?);
        Some(Entry { version: version(object), uid: object.meta().uid.as_deref().map_or(0, digest), record })
    }
}

/// Tells one object from its successor in eight bytes instead of thirty-six.
fn digest(uid: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
