//! The cache of every controller: the objects of one kind in one cluster, as its watch and our own writes show
//! them. No IO.
//!
//! [`crate::View`] keeps whole objects in it, `fleet`'s index records of all members, `sync` text, `config` what a
//! leader and its followers have.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::sync::Arc;

use kube::{Resource, ResourceExt as _};

/// Names an object among those of its kind. The namespace is empty where there are none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Key {
        Key { namespace: namespace.into(), name: name.into() }
    }

    pub fn of(object: &impl Resource) -> Key {
        Key { namespace: object.namespace().unwrap_or_default(), name: object.name_any() }
    }
}

impl Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// What is kept of an object, which at least tells its versions apart, and it from its successors.
pub trait Versioned: Clone {
    fn version(&self) -> u64;
    /// Whether this is the same object, maybe in another version, and not one of the same name.
    fn is_same(&self, other: &Self) -> bool;
}

impl<K: Resource> Versioned for Arc<K> {
    fn version(&self) -> u64 {
        version(&**self)
    }

    fn is_same(&self, other: &Self) -> bool {
        self.meta().uid == other.meta().uid
    }
}

/// Versions of one server are numbers that grow; one that is not counts as older than all.
pub fn version(object: &impl Resource) -> u64 {
    object.meta().resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// An object before and after it changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change<T, K = Key> {
    pub key: K,
    pub before: Option<T>,
    pub after: Option<T>,
}

/// The objects of one kind in one cluster: as new as the watch, and never older than what we wrote (read-your-writes).
pub struct Store<T, K = Key> {
    objects: BTreeMap<K, T>,
    /// Objects that we wrote and the watch has not shown yet, by version.
    unconfirmed: BTreeMap<u64, K>,
    /// The newest version that the watch showed: of anything older it has told everything.
    observed: u64,
    /// A list that is still coming in.
    listing: Option<BTreeMap<K, T>>,
    /// The newest version that we had written when it began.
    written: u64,
}

impl<T, K> Default for Store<T, K> {
    fn default() -> Self {
        Store {
            objects: BTreeMap::new(),
            unconfirmed: BTreeMap::new(),
            observed: 0,
            listing: None,
            written: 0,
        }
    }
}

impl<T: Versioned, K: Ord + Clone> Store<T, K> {
    pub fn objects(&self) -> &BTreeMap<K, T> {
        &self.objects
    }

    /// The newest version that the watch showed.
    pub fn observed(&self) -> u64 {
        self.observed
    }

    /// Takes in the server's answer to a write of ours.
    pub fn record_own_write(&mut self, key: K, object: T) -> Vec<Change<T, K>> {
        let version = object.version();
        // The watch is past this already; it may even have shown the end of it.
        if version <= self.observed || self.objects.get(&key).is_some_and(|known| version <= known.version())
        {
            return Vec::new();
        }
        self.unconfirmed.insert(version, key.clone());
        let before = self.objects.insert(key.clone(), object.clone());
        vec![Change { key, before, after: Some(object) }]
    }

    /// Takes in that the server deleted an object of ours at once, if it is the one that `is_it` knows.
    pub fn forget(&mut self, key: &K, is_it: impl FnOnce(&T) -> bool) -> Vec<Change<T, K>> {
        if !self.objects.get(key).is_some_and(is_it) {
            return Vec::new();
        }
        let before = self.objects.remove(key);
        vec![Change { key: key.clone(), before, after: None }]
    }

    /// A list begins, before the server is asked for it; what it does not show is unknown until it ends.
    pub fn begin_list(&mut self) {
        self.listing = Some(BTreeMap::new());
        self.written = self.unconfirmed.keys().next_back().copied().unwrap_or(0);
    }

    /// The list that was coming in does not come to its end: what it showed counts for nothing.
    pub fn drop_list(&mut self) {
        self.listing = None;
    }

    /// Takes in one object of a list.
    pub fn list(&mut self, key: K, object: T) {
        self.listing.get_or_insert_default().insert(key, object);
    }

    /// Takes over a complete list, which was made at version `at` where that is known.
    pub fn end_list(&mut self, at: u64) -> Vec<Change<T, K>> {
        let mut new = self.listing.take().unwrap_or_default();
        let newest = new.values().map(Versioned::version).max().unwrap_or(0).max(at);
        // Versions that went back are those of another server: what we wrote to the old one says nothing here.
        if at > 0 && at < self.observed {
            self.unconfirmed.clear();
        }
        self.observed = newest;
        // What we wrote after the list was made is not in it; the watch that follows will tell. What was answered before the
        // server was asked for the list is in it, or gone.
        let told = newest.max(self.written);
        self.unconfirmed.retain(|written, _| *written > told);
        for key in self.unconfirmed.values() {
            if let Some(ours) = self.objects.get(key) {
                new.insert(key.clone(), ours.clone());
            }
        }
        let mut changes = Vec::new();
        for (key, before) in &self.objects {
            if !new.contains_key(key) {
                changes.push(Change { key: key.clone(), before: Some(before.clone()), after: None });
            }
        }
        for (key, after) in &new {
            let before = self.objects.get(key);
            if before.is_none_or(|before| before.version() != after.version()) {
                let (before, after) = (before.cloned(), Some(after.clone()));
                changes.push(Change { key: key.clone(), before, after });
            }
        }
        self.objects = new;
        changes
    }

    /// Takes in what the watch shows.
    pub fn apply(&mut self, key: K, object: T) -> Vec<Change<T, K>> {
        let mut changes = self.observed_up_to(object.version());
        self.unconfirmed.retain(|_, unconfirmed| *unconfirmed != key);
        // What we wrote ourselves may be newer than what the watch shows so far.
        if let Some(known) = self.objects.get(&key)
            && known.is_same(&object)
            && known.version() > object.version()
        {
            self.unconfirmed.insert(known.version(), key);
            return changes;
        }
        let before = self.objects.insert(key.clone(), object.clone());
        changes.push(Change { key, before, after: Some(object) });
        changes
    }

    /// Takes in that the watch showed the end of an object; `is_it` tells it from a successor of its name.
    pub fn delete(&mut self, key: &K, version: u64, is_it: impl FnOnce(&T) -> bool) -> Vec<Change<T, K>> {
        let mut changes = self.observed_up_to(version);
        if self.objects.get(key).is_some_and(is_it) {
            self.unconfirmed.retain(|_, unconfirmed| unconfirmed != key);
            let before = self.objects.remove(key);
            changes.push(Change { key: key.clone(), before, after: None });
        }
        changes
    }

    /// The watch has come to this version: what we wrote before it and what it never showed is gone again.
    pub fn observed_up_to(&mut self, version: u64) -> Vec<Change<T, K>> {
        self.observed = self.observed.max(version);
        let mut changes = Vec::new();
        while let Some(oldest) = self.unconfirmed.first_entry()
            && *oldest.key() < version
        {
            let (written, key) = oldest.remove_entry();
            if self.objects.get(&key).is_some_and(|known| known.version() == written) {
                let before = self.objects.remove(&key);
                changes.push(Change { key, before, after: None });
            }
        }
        changes
    }
}
