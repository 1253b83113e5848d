//! Who joins what, and whose slices are whose: kept while records change, so that nobody has to search. No IO.

use std::collections::{BTreeMap, BTreeSet};

use koinon_control::Key;
use koinon_fleet::ClusterId;

use crate::services::model::Source;

/// A Service in one cluster.
type Owner = (ClusterId, Key);

#[derive(Default)]
pub(super) struct Books {
    joins: BTreeMap<Source, Vec<Key>>,
    members: BTreeMap<Key, BTreeSet<Source>>,
    slices: BTreeMap<Owner, BTreeSet<String>>,
    owners: BTreeMap<(ClusterId, Key), Key>,
}

impl Books {
    /// Takes in what an object joins; gives back everything that it concerns, or concerned before.
    pub(super) fn join(&mut self, source: Source, joins: &[Key]) -> BTreeSet<Key> {
        let before = match joins {
            [] => self.joins.remove(&source),
            joins => self.joins.insert(source.clone(), joins.to_vec()),
        };
        let mut concerned: BTreeSet<Key> = joins.iter().cloned().collect();
        for key in before.into_iter().flatten() {
            if !joins.contains(&key)
                && let Some(members) = self.members.get_mut(&key)
            {
                members.remove(&source);
                if members.is_empty() {
                    self.members.remove(&key);
                }
            }
            concerned.insert(key);
        }
        for key in joins {
            self.members.entry(key.clone()).or_default().insert(source.clone());
        }
        concerned
    }

    /// Takes in which Service a slice belongs to; gives back those that it concerns, or concerned before.
    pub(super) fn own(&mut self, cluster: &ClusterId, slice: &Key, service: Option<&str>) -> BTreeSet<Key> {
        let at = (cluster.clone(), slice.clone());
        let owner = service.map(|name| Key::new(slice.namespace.as_str(), name));
        let before = match &owner {
            Some(owner) => self.owners.insert(at, owner.clone()),
            None => self.owners.remove(&at),
        };
        if let Some(before) = &before
            && owner.as_ref() != Some(before)
        {
            let place = (cluster.clone(), before.clone());
            if let Some(names) = self.slices.get_mut(&place) {
                names.remove(&slice.name);
                if names.is_empty() {
                    self.slices.remove(&place);
                }
            }
        }
        if let Some(owner) = &owner {
            self.slices.entry((cluster.clone(), owner.clone())).or_default().insert(slice.name.clone());
        }
        before.into_iter().chain(owner).collect()
    }

    /// What an object joins.
    pub(super) fn joined_by(&self, source: &Source) -> &[Key] {
        self.joins.get(source).map(Vec::as_slice).unwrap_or_default()
    }

    /// All members of a federated Service.
    pub(super) fn members_of(&self, key: &Key) -> impl Iterator<Item = &Source> {
        self.members.get(key).into_iter().flatten()
    }

    pub(super) fn has_members(&self, key: &Key) -> bool {
        self.members.contains_key(key)
    }

    /// The names of the slices of one Service.
    pub(super) fn slices_of(&self, cluster: &ClusterId, service: &Key) -> impl Iterator<Item = &str> {
        self.slices.get(&(cluster.clone(), service.clone())).into_iter().flatten().map(String::as_str)
    }

    /// All federated Services that have members.
    pub(super) fn federated(&self) -> impl Iterator<Item = &Key> {
        self.members.keys()
    }

    /// All members in one cluster, with what they join.
    pub(super) fn in_cluster(&self, cluster: &ClusterId) -> impl Iterator<Item = (&Source, &Vec<Key>)> {
        self.joins.iter().filter(move |(source, _)| &source.cluster == cluster)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::model::Kind;

    fn source(name: &str) -> Source {
        Source { cluster: ClusterId::new("a").unwrap(), kind: Kind::Service, key: Key::new("ns", name) }
    }

    fn keys(names: &[&str]) -> Vec<Key> {
        names.iter().map(|name| Key::new("x", *name)).collect()
    }

    #[test]
    fn what_is_left_is_forgotten_and_told() {
        let mut books = Books::default();
        assert_eq!(books.join(source("one"), &keys(&["f", "g"])).len(), 2);
        assert_eq!(books.join(source("two"), &keys(&["f"])).len(), 1);
        let concerned = books.join(source("one"), &keys(&["g", "h"]));
        assert_eq!(concerned.into_iter().collect::<Vec<_>>(), keys(&["f", "g", "h"]));
        assert_eq!(books.members_of(&keys(&["f"])[0]).collect::<Vec<_>>(), [&source("two")]);
        books.join(source("one"), &[]);
        books.join(source("two"), &[]);
        assert!(books.members.is_empty() && books.joins.is_empty());
    }

    #[test]
    fn a_slice_that_moves_concerns_both() {
        let (mut books, a) = (Books::default(), ClusterId::new("a").unwrap());
        let slice = Key::new("ns", "s1");
        books.own(&a, &slice, Some("one"));
        assert_eq!(books.slices_of(&a, &Key::new("ns", "one")).collect::<Vec<_>>(), ["s1"]);
        assert_eq!(books.own(&a, &slice, Some("two")).len(), 2);
        assert_eq!(books.slices_of(&a, &Key::new("ns", "one")).count(), 0);
        books.own(&a, &slice, None);
        assert!(books.slices.is_empty() && books.owners.is_empty());
    }
}
