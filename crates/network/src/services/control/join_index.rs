//! The join index: which objects join which federated Service, and whose slices are whose. No IO.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use koinon_control::Key;
use koinon_fleet::ClusterId;

use super::quota::{Limits, Quota};
use crate::services::model::{Joining, Kind, Source};

/// A Service in one cluster.
type Owner = (ClusterId, Key);

/// More members that do not count than this are not told so one by one.
const MOST_TOLD: usize = 20;

#[derive(Default)]
pub(super) struct JoinIndex {
    joins: BTreeMap<Source, Joined>,
    /// Those that count.
    members: BTreeMap<Key, BTreeSet<Source>>,
    slices: BTreeMap<Owner, Owned>,
    owners: BTreeMap<(ClusterId, Key), (Key, usize)>,
    /// What each cluster may bring, where there is a limit.
    limits: Option<Limits>,
    quotas: BTreeMap<ClusterId, Quota>,
}

/// What an object joins, since when it is there, and what it was like when last looked at.
#[derive(Clone)]
struct Joined {
    created: Timestamp,
    keys: Vec<Key>,
    content: Option<Arc<Joining>>,
}

/// The slices of one Service, and how many endpoints are in them.
#[derive(Default)]
struct Owned {
    names: BTreeSet<String>,
    endpoints: usize,
}

/// What a change concerns.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Concerned {
    pub(super) keys: BTreeSet<Key>,
    /// Members that count now and did not before, or the other way round.
    pub(super) moved: Vec<Source>,
}

impl JoinIndex {
    /// An index in which no cluster takes more room than it may.
    pub(super) fn limited(limits: Limits) -> JoinIndex {
        JoinIndex { limits: Some(limits), ..JoinIndex::default() }
    }

    /// Takes in what an object joins; gives back everything that it concerns, or concerned before.
    pub(super) fn join(&mut self, source: Source, created: Timestamp, keys: &[Key]) -> Concerned {
        let joined = Joined { created, keys: keys.to_vec(), content: None };
        let mut concerned = Concerned { keys: keys.iter().cloned().collect(), ..Concerned::default() };
        let before = self.joins.get(&source);
        let is_same = before.is_some_and(|one| (one.created, one.keys.as_slice()) == (created, keys));
        if is_same || (before.is_none() && keys.is_empty()) {
            return concerned;
        }
        if let Some(before) = self.joins.remove(&source) {
            self.unlist(&source, &before.keys);
            concerned.keys.extend(before.keys);
            concerned.moved.extend(self.leave(&source, before.created));
        }
        if !keys.is_empty() {
            self.joins.insert(source.clone(), joined);
            concerned.moved.extend(self.sit(&source, created));
            // One that comes after the first that does not count moves nobody, and counts no more than that one.
            if self.counts(&source) {
                self.list(&source, keys);
            }
        }
        self.settle(&mut concerned);
        concerned
    }

    /// Takes in what a member is like; says whether nobody else is concerned, because only what it says of how it stands is
    /// otherwise than before.
    pub(super) fn is_same_member(&mut self, source: &Source, joining: &Arc<Joining>) -> bool {
        let Some(joined) = self.joins.get_mut(source) else { return false };
        let before = joined.content.replace(joining.clone());
        before.is_some_and(|before| before.is_same_member(joining))
    }

    /// Takes in since when a Service is exported, or that it is no more. It joins no federated Service, but counts among
    /// all that its cluster brings.
    pub(super) fn export(&mut self, source: Source, created: Option<Timestamp>) -> Concerned {
        let mut concerned = Concerned::default();
        let before = self.joins.get(&source).map(|joined| joined.created);
        if before == created {
            return concerned;
        }
        if let Some(before) = before {
            self.joins.remove(&source);
            concerned.moved.extend(self.leave(&source, before));
        }
        if let Some(created) = created {
            self.joins.insert(source.clone(), Joined { created, keys: Vec::new(), content: None });
            concerned.moved.extend(self.sit(&source, created));
        }
        self.settle(&mut concerned);
        concerned
    }

    /// Takes in which Service a slice belongs to and how many endpoints it has; gives back the Services that it is or was of,
    /// and what else that concerns because its cluster has more room now, or less.
    pub(super) fn own(
        &mut self,
        cluster: &ClusterId,
        slice: &Key,
        service: Option<(&str, usize)>,
    ) -> (BTreeSet<Key>, Concerned) {
        let at = (cluster.clone(), slice.clone());
        let owner = service.map(|(name, endpoints)| (Key::new(slice.namespace.as_str(), name), endpoints));
        let before = match &owner {
            Some(owner) => self.owners.insert(at, owner.clone()),
            None => self.owners.remove(&at),
        };
        if let Some((before, endpoints)) = &before {
            let place = (cluster.clone(), before.clone());
            if let Some(owned) = self.slices.get_mut(&place) {
                owned.names.remove(&slice.name);
                owned.endpoints -= endpoints;
                if owned.names.is_empty() {
                    self.slices.remove(&place);
                }
            }
        }
        if let Some((owner, endpoints)) = &owner {
            let owned = self.slices.entry((cluster.clone(), owner.clone())).or_default();
            owned.names.insert(slice.name.clone());
            owned.endpoints += endpoints;
        }
        let is_same = before == owner;
        let services: BTreeSet<Key> = before.into_iter().chain(owner).map(|(owner, _)| owner).collect();
        let mut concerned = Concerned::default();
        let by = services.iter().filter(|_| !is_same);
        for (key, kind) in by.flat_map(|key| [(key, Kind::Service), (key, Kind::ServiceExport)]) {
            let source = Source { cluster: cluster.clone(), kind, key: key.clone() };
            if let Some(created) = self.joins.get(&source).map(|joined| joined.created) {
                concerned.moved.extend(self.sit(&source, created));
            }
        }
        self.settle(&mut concerned);
        (services, concerned)
    }

    /// Has those that moved count, or not; what they join is concerned.
    fn settle(&mut self, concerned: &mut Concerned) {
        concerned.moved.sort();
        concerned.moved.dedup();
        for source in &concerned.moved {
            let Some(joined) = self.joins.get(source).cloned() else { continue };
            match self.counts(source) {
                true => self.list(source, &joined.keys),
                false => self.unlist(source, &joined.keys),
            }
            concerned.keys.extend(joined.keys);
        }
    }

    fn list(&mut self, source: &Source, keys: &[Key]) {
        for key in keys {
            self.members.entry(key.clone()).or_default().insert(source.clone());
        }
    }

    fn unlist(&mut self, source: &Source, keys: &[Key]) {
        for key in keys {
            let Some(members) = self.members.get_mut(key) else { continue };
            members.remove(source);
            if members.is_empty() {
                self.members.remove(key);
            }
        }
    }

    fn sit(&mut self, source: &Source, created: Timestamp) -> Vec<Source> {
        let Some(limits) = self.limits else { return Vec::new() };
        let owned = self.slices.get(&(source.cluster.clone(), source.key.clone()));
        let has_slices = matches!(source.kind, Kind::Service | Kind::ServiceExport);
        let endpoints = owned.filter(|_| has_slices).map_or(0, |owned| owned.endpoints);
        let quota = self.quotas.entry(source.cluster.clone()).or_insert_with(|| Quota::new(limits));
        quota.sit((created, source.clone()), endpoints)
    }

    fn leave(&mut self, source: &Source, created: Timestamp) -> Vec<Source> {
        let Some(quota) = self.quotas.get_mut(&source.cluster) else { return Vec::new() };
        let moved = quota.leave(&(created, source.clone()));
        if quota.is_empty() {
            self.quotas.remove(&source.cluster);
        }
        moved
    }

    /// Whether a member counts: its cluster may bring no more than so much.
    pub(super) fn counts(&self, source: &Source) -> bool {
        let Some(quota) = self.quotas.get(&source.cluster) else { return true };
        self.joins.get(source).is_none_or(|joined| quota.counts(&(joined.created, source.clone())))
    }

    /// Those members of a cluster that do not count, as many as are told so.
    pub(super) fn beyond(&self, cluster: &ClusterId) -> impl Iterator<Item = &Source> {
        self.quotas.get(cluster).into_iter().flat_map(Quota::beyond).take(MOST_TOLD)
    }

    /// What an object joins.
    pub(super) fn joined_by(&self, source: &Source) -> &[Key] {
        self.joins.get(source).map(|joined| joined.keys.as_slice()).unwrap_or_default()
    }

    /// All members of a federated Service.
    pub(super) fn members_of(&self, key: &Key) -> impl Iterator<Item = &Source> {
        self.members.get(key).into_iter().flatten()
    }

    /// Those of them that are in one cluster.
    pub(super) fn members_in(&self, key: &Key, cluster: &ClusterId) -> Vec<Source> {
        self.members_of(key).filter(|source| source.cluster == *cluster).cloned().collect()
    }

    pub(super) fn has_members(&self, key: &Key) -> bool {
        self.members.contains_key(key)
    }

    /// The names of the slices of one Service.
    pub(super) fn slices_of(&self, cluster: &ClusterId, service: &Key) -> impl Iterator<Item = &str> {
        let owned = self.slices.get(&(cluster.clone(), service.clone()));
        owned.into_iter().flat_map(|owned| &owned.names).map(String::as_str)
    }

    /// All federated Services that have members.
    pub(super) fn federated(&self) -> impl ExactSizeIterator<Item = &Key> {
        self.members.keys()
    }

    /// All members in one cluster, with what they join.
    pub(super) fn in_cluster(&self, cluster: &ClusterId) -> impl Iterator<Item = (&Source, &[Key])> {
        let of_cluster = self.joins.iter().filter(move |(source, _)| &source.cluster == cluster);
        of_cluster.map(|(source, joined)| (source, joined.keys.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
        let mut joins = JoinIndex::default();
        let mut join =
            |name: &str, names: &[&str]| joins.join(source(name), Timestamp::UNIX_EPOCH, &keys(names)).keys;
        assert_eq!(join("one", &["f", "g"]).len(), 2);
        assert_eq!(join("two", &["f"]).len(), 1);
        assert_eq!(join("one", &["g", "h"]).into_iter().collect::<Vec<_>>(), keys(&["f", "g", "h"]));
        assert_eq!(joins.members_of(&keys(&["f"])[0]).collect::<Vec<_>>(), [&source("two")]);
        joins.join(source("one"), Timestamp::UNIX_EPOCH, &[]);
        joins.join(source("two"), Timestamp::UNIX_EPOCH, &[]);
        assert!(joins.members.is_empty() && joins.joins.is_empty());
    }

    #[test]
    fn a_slice_that_moves_concerns_both() {
        let (mut joins, a) = (JoinIndex::default(), ClusterId::new("a").unwrap());
        let slice = Key::new("ns", "s1");
        joins.own(&a, &slice, Some(("one", 3)));
        assert_eq!(joins.slices_of(&a, &Key::new("ns", "one")).collect::<Vec<_>>(), ["s1"]);
        assert_eq!(joins.own(&a, &slice, Some(("two", 3))).0.len(), 2);
        assert_eq!(joins.slices_of(&a, &Key::new("ns", "one")).count(), 0);
        joins.own(&a, &slice, None);
        assert!(joins.slices.is_empty() && joins.owners.is_empty());
    }

    #[test]
    fn a_cluster_that_brings_too_much_has_its_oldest_count() {
        let (mut joins, a) =
            (JoinIndex::limited(Limits { members: 2, endpoints: 10 }), ClusterId::new("a").unwrap());
        let at = |second| Timestamp::from_second(second).unwrap();
        let f = &keys(&["f"])[0];
        for (second, name) in [(1, "one"), (2, "two"), (3, "three")] {
            joins.join(source(name), at(second), &keys(&["f"]));
        }
        assert_eq!(joins.members_of(f).collect::<Vec<_>>(), [&source("one"), &source("two")]);
        assert_eq!(joins.beyond(&a).collect::<Vec<_>>(), [&source("three")]);
        // One that brings all the endpoints that there may be pushes the others out, and they come back.
        let (services, concerned) = joins.own(&a, &Key::new("ns", "s1"), Some(("one", 10)));
        assert_eq!((services.len(), concerned.moved.len()), (1, 0), "two has no endpoints and still fits");
        let (_, concerned) = joins.own(&a, &Key::new("ns", "s2"), Some(("two", 1)));
        assert_eq!(concerned.moved, [source("two")]);
        assert_eq!(concerned.keys.into_iter().collect::<Vec<_>>(), keys(&["f"]));
        assert_eq!(joins.members_of(f).collect::<Vec<_>>(), [&source("one")]);
        let (_, concerned) = joins.own(&a, &Key::new("ns", "s1"), None);
        assert_eq!(concerned.moved, [source("two")]);
        let concerned = joins.join(source("one"), at(1), &[]);
        assert_eq!(concerned.moved, [source("three")]);
        assert_eq!(joins.members_of(f).collect::<Vec<_>>(), [&source("three"), &source("two")]);
        joins.join(source("two"), at(2), &[]);
        joins.join(source("three"), at(3), &[]);
        joins.own(&a, &Key::new("ns", "s2"), None);
        assert!(joins.quotas.is_empty() && joins.members.is_empty() && joins.slices.is_empty());
    }

    #[test]
    fn who_comes_after_the_first_that_does_not_count_does_not_count_either() {
        let mut joins = JoinIndex::limited(Limits { members: 2, endpoints: 10 });
        let f = &keys(&["f"])[0];
        for (second, name) in (1..).zip(["one", "two", "three", "four", "five"]) {
            joins.join(source(name), Timestamp::from_second(second).unwrap(), &keys(&["f"]));
        }
        assert_eq!(joins.members_of(f).collect::<Vec<_>>(), [&source("one"), &source("two")]);
        assert_eq!(joins.beyond(&source("one").cluster).count(), 3);
        joins.join(source("one"), Timestamp::from_second(1).unwrap(), &[]);
        assert_eq!(joins.members_of(f).collect::<Vec<_>>(), [&source("three"), &source("two")]);
    }

    proptest! {
        #[test]
        fn exactly_those_that_count_are_members_whatever_came_before(
            steps in proptest::collection::vec((0u8..8, 0i64..6, 0usize..40, 0u8..4), 1..60),
        ) {
            let limits = Limits { members: 3, endpoints: 60 };
            let (mut joins, a) = (JoinIndex::limited(limits), ClusterId::new("a").unwrap());
            let f = &keys(&["f"])[0];
            for (name, age, endpoints, what) in steps {
                let (one, created) = (source(&format!("s{name}")), Timestamp::from_second(age).unwrap());
                let slice = Key::new("ns", format!("slice{name}"));
                match what {
                    0 => drop(joins.join(one, created, &[])),
                    1 => drop(joins.own(&a, &slice, Some((&one.key.name, endpoints)))),
                    _ => drop(joins.join(one, created, &keys(&["f"]))),
                }
                let counted: Vec<&Source> = joins.joins.keys().filter(|one| joins.counts(one)).collect();
                prop_assert_eq!(joins.members_of(f).collect::<Vec<_>>(), counted);
                prop_assert!(joins.members_of(f).count() <= limits.members);
            }
        }
    }

    #[test]
    fn what_is_exported_counts_among_all_that_a_cluster_brings() {
        let mut joins = JoinIndex::limited(Limits { members: 2, endpoints: 10 });
        let (at, a) = (|second| Timestamp::from_second(second).unwrap(), ClusterId::new("a").unwrap());
        let exported = |name: &str| Source { kind: Kind::ServiceExport, ..source(name) };
        joins.export(exported("one"), Some(at(1)));
        joins.join(source("two"), at(2), &keys(&["f"]));
        assert_eq!(joins.export(exported("three"), Some(at(3))).moved, [exported("three")]);
        assert!(joins.counts(&exported("one")) && !joins.counts(&exported("three")));
        let (_, concerned) = joins.own(&a, &Key::new("ns", "s1"), Some(("one", 11)));
        assert_eq!(concerned.moved, [source("two"), exported("one")], "one alone is too much");
        joins.own(&a, &Key::new("ns", "s1"), None);
        assert_eq!(joins.export(exported("one"), None).moved, [exported("three")]);
        assert!(joins.counts(&exported("three")) && !joins.has_members(&Key::new("ns", "three")));
        joins.export(exported("three"), None);
        joins.join(source("two"), at(2), &[]);
        assert!(joins.quotas.is_empty() && joins.joins.is_empty());
    }
}
