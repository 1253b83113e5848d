//! One cluster while replicas are being divided.

use koinon_api::preferences::ClusterPreference;

use super::reason::{Limit, MinimumCut, Parts, Reason};
use super::{Candidate, Share};

/// A cluster's bounds, what it has so far, and what that is made of.
#[derive(Debug, Clone)]
pub(super) struct Seat {
    /// Which of the candidates it is.
    pub(super) place: usize,
    pub(super) weight: i64,
    pub(super) minimum: i64,
    maximum: i64,
    capacity: i64,
    existing: i64,
    /// Replicas so far.
    pub(super) have: i64,
    /// Of those, the ones it ran already and that its shares have not yet paid for.
    credit: i64,
    pub(super) overflow: i64,
    /// What it got as its minimum.
    given: i64,
    cut: Option<MinimumCut>,
    kept: i64,
    given_up: i64,
    /// Whether it would have more if its bound were higher.
    is_bound: bool,
}

/// Whether a cluster takes part in the next round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Stays,
    Leaves,
}

impl Seat {
    pub(super) fn new(place: usize, preference: &ClusterPreference, candidate: &Candidate) -> Self {
        let maximum = preference.max_replicas.unwrap_or(i64::MAX).max(0);
        let minimum = preference.min_replicas.clamp(0, maximum);
        Seat {
            place,
            weight: preference.weight.max(0),
            minimum,
            maximum,
            capacity: candidate.capacity.unwrap_or(i64::MAX).max(0),
            existing: candidate.existing.max(0),
            have: 0,
            credit: 0,
            overflow: 0,
            given: 0,
            cut: None,
            kept: 0,
            given_up: 0,
            is_bound: false,
        }
    }

    /// The most that it may have.
    pub(super) fn bound(&self) -> i64 {
        self.maximum.min(self.capacity)
    }

    /// What it would have if nothing were ever taken away: what runs within its bounds, and its minimum.
    pub(super) fn undisturbed(&self) -> i64 {
        self.existing.min(self.bound()).max(self.minimum.min(self.capacity))
    }

    /// Takes its minimum out of the pool, and says how much that was.
    pub(super) fn take_minimum(&mut self, pool: i64) -> i64 {
        let possible = self.minimum.min(self.capacity);
        let taken = possible.min(pool);
        self.cut = if taken < possible {
            Some(MinimumCut::Replicas)
        } else if possible < self.minimum {
            self.is_bound = true;
            Some(MinimumCut::Capacity)
        } else {
            None
        };
        self.given = taken;
        self.have = taken;
        taken
    }

    /// Keeps what it runs beyond its minimum, and says how much that took from the pool.
    pub(super) fn keep_existing(&mut self, pool: i64) -> i64 {
        self.is_bound |= self.existing > self.bound();
        let kept = (self.existing.min(self.bound()) - self.have).clamp(0, pool);
        self.kept = kept;
        self.have += kept;
        self.credit = kept;
        kept
    }

    /// Takes what is due in one round, and says what it took from the pool and whether it goes on.
    ///
    /// What it kept is paid for first. A cluster that could take more than it may is done, and what its
    /// capacity turned away waits there.
    pub(super) fn take_due(&mut self, due: i64) -> (i64, Next) {
        let paid = due.min(self.credit);
        self.credit -= paid;
        let wanted = self.have + (due - paid);
        let allowed = wanted.min(self.maximum);
        let reached = allowed.min(self.capacity);
        if allowed > self.capacity {
            self.overflow = allowed - self.capacity;
        }
        let taken = reached - self.have;
        self.have = reached;
        if reached < wanted {
            self.is_bound = true;
            (taken, Next::Leaves)
        } else {
            (taken, Next::Stays)
        }
    }

    /// Sets what is left to it of what it would have had undisturbed.
    pub(super) fn give_up(&mut self, undisturbed: i64, given_up: i64) {
        self.is_bound |= self.existing > self.bound();
        self.have = undisturbed - given_up;
        self.given = self.have.min(self.minimum);
        self.kept = self.have - self.given;
        self.given_up = given_up;
    }

    pub(super) fn share(&self, weights: i128) -> Share {
        let parts = Parts {
            minimum: self.given,
            minimum_wanted: self.minimum,
            cut: self.cut,
            kept: self.kept,
            given_up: self.given_up,
            share: self.have - self.given - self.kept,
            weight: self.weight,
            weights,
            limit: self.is_bound.then(|| self.limit()),
            waiting: self.overflow,
        };
        Share { replicas: self.have, overflow: self.overflow, reason: Reason::Parts(parts) }
    }

    fn limit(&self) -> Limit {
        if self.capacity < self.maximum {
            Limit::Capacity(self.capacity)
        } else {
            Limit::Maximum(self.maximum)
        }
    }
}
