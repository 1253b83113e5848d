//! The quota of one cluster: its oldest members first, until there are too many, or too many endpoints. A cluster that
//! says more than that, by mistake or to do harm, costs its leaders no more work than any other. No IO.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::services::model::Source;

/// So many Services and NativeServices of one cluster join federated ones, at most.
pub(super) const MOST_MEMBERS: usize = 5_000;
/// So many endpoints they have all together, at most.
pub(super) const MOST_ENDPOINTS: usize = 100_000;

/// A member's place in the line: who is older comes first.
pub(super) type Seat = (Timestamp, Source);

/// The members of one cluster in their order, each with how many endpoints it has.
#[derive(Debug)]
pub(super) struct Quota {
    seats: BTreeMap<Seat, usize>,
    endpoints: usize,
    limits: Limits,
    /// The first that does not count.
    cutoff: Option<Seat>,
}

/// What one cluster may bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) members: usize,
    pub(super) endpoints: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { members: MOST_MEMBERS, endpoints: MOST_ENDPOINTS }
    }
}

impl Quota {
    pub(super) fn new(limits: Limits) -> Quota {
        Quota { seats: BTreeMap::new(), endpoints: 0, limits, cutoff: None }
    }

    /// Takes in a member and its endpoints; says who else counts now, or no more.
    pub(super) fn sit(&mut self, seat: Seat, endpoints: usize) -> Vec<Source> {
        self.endpoints += endpoints;
        self.endpoints -= self.seats.insert(seat, endpoints).unwrap_or(0);
        self.move_on()
    }

    /// Takes in that a member is gone; says the same.
    pub(super) fn leave(&mut self, seat: &Seat) -> Vec<Source> {
        self.endpoints -= self.seats.remove(seat).unwrap_or(0);
        self.move_on()
    }

    pub(super) fn counts(&self, seat: &Seat) -> bool {
        self.cutoff.as_ref().is_none_or(|cutoff| seat < cutoff)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    /// Those that do not count, the oldest first.
    pub(super) fn beyond(&self) -> impl Iterator<Item = &Source> {
        let from = self.cutoff.as_ref();
        from.into_iter().flat_map(|from| self.seats.range(from..)).map(|((_, source), _)| source)
    }

    fn move_on(&mut self) -> Vec<Source> {
        let cutoff = self.find_cutoff();
        let before = std::mem::replace(&mut self.cutoff, cutoff);
        let moved = match (&before, &self.cutoff) {
            (before, after) if before == after => return Vec::new(),
            (Some(one), Some(other)) => self.seats.range(one.min(other)..one.max(other)),
            (Some(one), None) | (None, Some(one)) => self.seats.range(one..),
            (None, None) => return Vec::new(),
        };
        moved.map(|((_, source), _)| source.clone()).collect()
    }

    fn find_cutoff(&self) -> Option<Seat> {
        if self.seats.len() <= self.limits.members && self.endpoints <= self.limits.endpoints {
            return None;
        }
        let mut left = self.limits.endpoints;
        let mut in_order = self.seats.iter().enumerate();
        let first = in_order.find(|(at, (_, endpoints))| match left.checked_sub(**endpoints) {
            Some(rest) if *at < self.limits.members => {
                left = rest;
                false
            }
            _ => true,
        });
        first.map(|(_, (seat, _))| seat.clone())
    }
}

#[cfg(test)]
mod tests {
    use koinon_control::Key;
    use koinon_fleet::ClusterId;
    use proptest::prelude::*;

    use super::*;
    use crate::services::model::Kind;

    fn seat(age: i64, name: &str) -> Seat {
        let source =
            Source { cluster: ClusterId::new("a").unwrap(), kind: Kind::Service, key: Key::new("ns", name) };
        (Timestamp::from_second(age).unwrap(), source)
    }

    fn names(sources: Vec<Source>) -> Vec<String> {
        sources.into_iter().map(|source| source.key.name).collect()
    }

    #[test]
    fn the_oldest_count_and_who_takes_their_place_is_told() {
        let mut quota = Quota::new(Limits { members: 2, endpoints: 100 });
        assert!(quota.sit(seat(1, "one"), 10).is_empty());
        assert!(quota.sit(seat(3, "three"), 10).is_empty());
        assert_eq!(
            names(quota.sit(seat(4, "four"), 10)),
            ["four"],
            "itself is the first that does not count"
        );
        assert_eq!(names(quota.sit(seat(2, "two"), 10)), ["three"]);
        assert_eq!(quota.beyond().map(|one| one.key.name.as_str()).collect::<Vec<_>>(), ["three", "four"]);
        assert_eq!(names(quota.leave(&seat(1, "one"))), ["three"]);
        // One that has all the endpoints leaves nothing for those after it.
        assert_eq!(names(quota.sit(seat(2, "two"), 95)), ["three"]);
        assert!(quota.counts(&seat(2, "two")) && !quota.counts(&seat(3, "three")));
        assert_eq!(names(quota.sit(seat(2, "two"), 101)), ["two"]);
        assert_eq!(names(quota.sit(seat(2, "two"), 1)), ["two", "three"]);
        quota.leave(&seat(4, "four"));
        assert_eq!(quota.beyond().count(), 0);
    }

    proptest! {
        #[test]
        fn what_counts_depends_on_what_is_there_and_every_change_is_told(
            steps in proptest::collection::vec((0i64..12, 0usize..60, any::<bool>()), 1..60),
        ) {
            let limits = Limits { members: 5, endpoints: 100 };
            let mut quota = Quota::new(limits);
            let mut there = BTreeMap::new();
            for (age, endpoints, comes) in steps {
                let before: BTreeMap<Seat, bool> =
                    there.keys().map(|seat: &Seat| (seat.clone(), quota.counts(seat))).collect();
                let one = seat(age, "x");
                let told = if comes {
                    there.insert(one.clone(), endpoints);
                    quota.sit(one.clone(), endpoints)
                } else {
                    there.remove(&one);
                    quota.leave(&one)
                };
                let mut fresh = Quota::new(limits);
                for (seat, endpoints) in &there {
                    fresh.sit(seat.clone(), *endpoints);
                }
                for other in there.keys() {
                    prop_assert_eq!(quota.counts(other), fresh.counts(other));
                    let changed = before.get(other).is_some_and(|before| *before != quota.counts(other));
                    prop_assert!(!changed || told.contains(&other.1));
                }
                let counted = there.iter().filter(|(seat, _)| quota.counts(seat));
                let (members, endpoints) = counted.fold((0, 0), |sum, one| (sum.0 + 1, sum.1 + one.1));
                prop_assert!(members <= limits.members && endpoints <= limits.endpoints);
            }
        }
    }
}
