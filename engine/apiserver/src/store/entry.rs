//! What the store keeps and what it is asked to do: keys, entries, labels, events, operations.

use std::cmp::Ordering;
use std::sync::Arc;

/// Names one object. Order is the order in which etcd would list the objects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// `group/resource`; the core group is empty: `apps/deployments`, `/pods`.
    pub resource: Arc<str>,
    /// Empty for a cluster-scoped object.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

/// One version of one object. It never changes; an update makes another one.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// The object as the caller encoded it, without its revision. A boxed slice, since it has no slack.
    pub body: Box<[u8]>,
    /// The revision of the write that made this version.
    pub revision: u64,
    /// The object's labels, kept apart so that a selector needs no parsing.
    pub labels: Labels,
}

/// Labels sorted by key, each key once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Labels(Box<[(Box<str>, Box<str>)]>);

/// One operation of a transaction.
#[derive(Debug, Clone)]
pub enum Op {
    /// Creates or replaces an object.
    Put { key: Key, expect: Expect, body: Box<[u8]>, labels: Labels },
    /// Removes an object, which must exist, and at this revision when one is given.
    Delete { key: Key, revision: Option<u64> },
}

/// What a `Put` demands of the object before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// There is none yet.
    Absent,
    /// It exists, and this is its revision.
    Revision(u64),
    /// Anything, nothing included.
    Any,
}

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    Added,
    Modified,
    Deleted,
}

/// One write, as the history keeps it.
#[derive(Debug, PartialEq, Eq)]
pub struct Event {
    /// The revision of the write. For a deletion it is later than `entry.revision`, and the one to show.
    pub revision: u64,
    pub key: Key,
    pub kind: EventKind,
    /// The object after the write; for a deletion, as it was last.
    pub entry: Arc<Entry>,
    /// The object before the write; none for a creation.
    pub previous: Option<Arc<Entry>>,
}

impl Key {
    /// Joins the three parts of a key.
    pub fn new(
        resource: impl Into<Arc<str>>,
        namespace: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
    ) -> Self {
        Key { resource: resource.into(), namespace: namespace.into(), name: name.into() }
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.resource
            .cmp(&other.resource)
            .then_with(|| namespace_order(&self.namespace, &other.namespace))
            .then_with(|| self.name.cmp(&other.name))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Entry {
    /// Roughly what one entry occupies in memory.
    pub(super) fn size(&self) -> usize {
        let labels: usize = self.labels.iter().map(|(key, value)| key.len() + value.len() + 32).sum();
        size_of::<Entry>() + self.body.len() + labels
    }
}

impl Labels {
    /// The value of one label.
    pub fn get(&self, key: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(candidate, _)| candidate.as_ref().cmp(key)).ok()?;
        Some(&self.0[at].1)
    }

    /// All labels, sorted by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_ref(), value.as_ref()))
    }
}

impl<K: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(labels: I) -> Self {
        let mut labels: Vec<(Box<str>, Box<str>)> =
            labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        // Stable, so of several with one key the first stays.
        labels.sort_by(|a, b| a.0.cmp(&b.0));
        labels.dedup_by(|later, earlier| later.0 == earlier.0);
        Labels(labels.into())
    }
}

/// The order of namespaces in a list over all of them. A key in etcd is `namespace/name`, and `-` sorts
/// before `/`: everything in `team-a` comes before everything in `team`.
pub(super) fn namespace_order(a: &str, b: &str) -> Ordering {
    let end = std::iter::once(b'/');
    a.bytes().chain(end.clone()).cmp(b.bytes().chain(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_sort_as_prefixes_of_etcd_keys() {
        let mut namespaces = ["team", "team-a", "", "a", "team0", "te"];
        namespaces.sort_by(|a, b| namespace_order(a, b));
        assert_eq!(namespaces, ["", "a", "te", "team-a", "team", "team0"]);
    }

    #[test]
    fn labels_are_sorted_and_found() {
        let labels = Labels::from_iter([("b", "2"), ("a", "1"), ("b", "3")]);
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "2")]);
        assert_eq!((labels.get("b"), labels.get("c")), (Some("2"), None));
    }
}
