//! How many replicas each cluster should run, and why.
//!
//! ```text
//! order ─► minimums ─► what runs already ─► rounds by weight ─► replicas, waiting, unplaced
//!                      (without rebalance)
//! ```
//!
//! Clusters are taken by weight, the heaviest first, and among equal weights by a hash of the cluster's name and the
//! workload's key ([`order`]): always the same for one workload, different between workloads. Each gets its
//! minimum; then, unless replicas may be moved, what it runs already; what is left is divided by weight, in
//! rounds, shares rounded up ([`rounds`]). What a cluster runs already counts against its shares instead of
//! coming on top of them.
//!
//! Everything is exact integer arithmetic, and the answer depends on nothing but the input.

pub mod observed;
pub mod order;
mod reason;
mod rounds;
mod scale_down;
mod seat;

use std::collections::BTreeMap;

use koinon_api::preferences::{Preferences, ScaleDown};
use serde::Serialize;

pub use observed::Observed;
pub use reason::{Limit, MinimumCut, Parts, Reason};

use self::seat::Seat;

/// A member's object asks for at most so many replicas beyond its share, while others wait: once they run,
/// there is room for more.
pub const PROBES: i64 = 2;

/// What is to be spread.
#[derive(Debug, Clone, Copy)]
pub struct Workload<'a> {
    /// `namespace/name`; it decides the order among clusters of equal weight.
    pub key: &'a str,
    /// How many replicas there should be in all.
    pub replicas: i64,
    /// Where they should be.
    pub preferences: &'a Preferences,
}

/// What is known of one cluster that may take replicas. A cluster that is offline is no candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Candidate {
    /// The replicas that it runs already, without those that are stuck or beyond what it was asked for.
    pub existing: i64,
    /// The most that it can run; none as long as nothing shows a bound.
    pub capacity: Option<i64>,
}

/// Where the replicas go.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Plan {
    /// The part of every candidate.
    pub clusters: BTreeMap<String, Share>,
    /// Replicas that found no cluster.
    pub unplaced: i64,
}

/// One cluster's part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Share {
    /// What it should run.
    pub replicas: i64,
    /// What it would run beyond that if it had room.
    pub overflow: i64,
    /// How that came about.
    pub reason: Reason,
}

impl Share {
    /// What the member's object asks for: the share, and a few of those that wait as probes.
    pub fn spec_replicas(&self) -> i64 {
        self.replicas.saturating_add(self.overflow.min(PROBES))
    }
}

/// Divides the replicas of a workload over clusters.
///
/// Counts below zero are taken as zero, and a minimum above its maximum as the maximum.
pub fn plan(workload: &Workload<'_>, candidates: &BTreeMap<String, Candidate>) -> Plan {
    let replicas = workload.replicas.max(0);
    let preferences = workload.preferences;
    let mut seats = seats(workload, candidates);
    let weights = seats.iter().map(|seat| i128::from(seat.weight)).sum();

    let unplaced = if preferences.rebalance {
        let pool = minimums(&mut seats, replicas);
        rounds::distribute(&mut seats, pool)
    } else if preferences.scale_down == ScaleDown::Weighted && scale_down::by_weight(&mut seats, replicas) {
        0
    } else {
        let pool = minimums(&mut seats, replicas);
        let pool = keep_existing(&mut seats, pool);
        let pool = rounds::distribute(&mut seats, pool);
        // Nothing is moved for them, so only those that found no home at all are worth waiting for.
        seats.iter_mut().for_each(|seat| seat.overflow = seat.overflow.min(pool));
        pool
    };
    Plan { clusters: shares(&seats, weights, candidates), unplaced }
}

/// The clusters that any preference holds for, in their order.
fn seats(workload: &Workload<'_>, candidates: &BTreeMap<String, Candidate>) -> Vec<Seat> {
    let mut seats = Vec::with_capacity(candidates.len());
    // Ranks are sorted rather than seats: those are large, and each would move many times.
    let mut ranks = Vec::with_capacity(candidates.len());
    for (place, (name, candidate)) in candidates.iter().enumerate() {
        if let Some(preference) = workload.preferences.for_cluster(name) {
            let seat = Seat::new(place, preference, candidate);
            ranks.push((order::Rank::new(seat.weight, name, workload.key), seats.len()));
            seats.push(seat);
        }
    }
    ranks.sort_unstable();
    ranks.into_iter().map(|(_, at)| seats[at].clone()).collect()
}

/// Gives every cluster its minimum while there are replicas, and says how many are left.
fn minimums(seats: &mut [Seat], mut pool: i64) -> i64 {
    for seat in seats {
        pool -= seat.take_minimum(pool);
    }
    pool
}

/// Leaves every cluster what it runs while there are replicas, and says how many are left.
fn keep_existing(seats: &mut [Seat], mut pool: i64) -> i64 {
    for seat in seats {
        pool -= seat.keep_existing(pool);
    }
    pool
}

fn shares(
    seats: &[Seat],
    weights: i128,
    candidates: &BTreeMap<String, Candidate>,
) -> BTreeMap<String, Share> {
    let mut seated: Vec<Option<&Seat>> = vec![None; candidates.len()];
    for seat in seats {
        seated[seat.place] = Some(seat);
    }
    let none = || Share { replicas: 0, overflow: 0, reason: Reason::NoPreference };
    let shares = seated.into_iter().map(|seat| seat.map_or_else(none, |seat| seat.share(weights)));
    candidates.keys().cloned().zip(shares).collect()
}
