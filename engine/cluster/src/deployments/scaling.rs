//! A Deployment that was scaled while several of its sets have pods: each gets its share.

use std::cmp::Reverse;

use super::draft::Draft;
use super::sets::{DESIRED, MAX, Set};

impl Draft<'_> {
    /// Brings the sets to the size of the Deployment, without going on with a rollout.
    pub(super) fn resize(&mut self) {
        const WHY: &str = "the Deployment was scaled";
        let active: Vec<usize> =
            (0..self.sets.len()).filter(|index| self.sets[*index].replicas > 0).collect();
        let only = match active[..] {
            // The newest takes it all, were there no pods so far.
            [] => self.new.or_else(|| self.sets.len().checked_sub(1)),
            [only] => Some(only),
            _ => None,
        };
        if let Some(only) = only {
            if !self.scale(only, self.limits.replicas, WHY) && self.was_scaled() {
                self.note_size(only, WHY);
            }
            return;
        }
        if active.is_empty() {
            return;
        }
        if self.newest().is_some_and(|new| self.is_saturated(new)) {
            for old in self.active_old() {
                self.scale(old, 0, "the new ReplicaSet has all pods already");
            }
            return;
        }
        if !self.is_rolling() {
            // Once the new size is known, the rollout itself gives each its own. What the present sizes are
            // shares of stays noted.
            for index in active {
                self.note(index, DESIRED, self.limits.replicas, WHY);
            }
            return;
        }
        for (index, replicas) in self.shares(active) {
            self.scale(index, replicas, WHY);
            self.note_size(index, WHY);
        }
    }

    /// Has all pods of a Deployment of this size, and knows it.
    fn is_saturated(&self, set: &Set) -> bool {
        let wanted = self.limits.replicas;
        set.replicas == wanted && set.count(DESIRED) == Some(wanted) && set.available() == wanted
    }

    /// The size of each set in proportion to what it has; the largest takes what rounding leaves.
    fn shares(&self, mut active: Vec<usize>) -> Vec<(usize, i32)> {
        let allowed = if self.limits.replicas > 0 { self.limits.most() } else { 0 };
        let to_add = allowed - active.iter().map(|index| self.sets[*index].replicas).sum::<i32>();
        // Among sets of one size, newer ones grow first and older ones shrink first.
        match to_add {
            1.. => {
                active.sort_by(|a, b| self.sets[*b].age().cmp(&self.sets[*a].age()));
                active.sort_by_key(|index| Reverse(self.sets[*index].replicas));
            }
            ..=-1 => active.sort_by_key(|index| (Reverse(self.sets[*index].replicas), *index)),
            0 => {}
        }
        let mut added = 0;
        let mut shares: Vec<(usize, i32)> = Vec::new();
        for index in active {
            let set = &self.sets[index];
            let left = to_add - added;
            let share = match left {
                1.. => self.fraction(set).min(left),
                ..=-1 => self.fraction(set).max(left),
                0 => 0,
            };
            added += share;
            shares.push((index, set.replicas + share));
        }
        if let Some((_, largest)) = shares.first_mut() {
            *largest = (*largest + to_add - added).max(0);
        }
        shares
    }

    /// How much a set would grow if it kept its part of the whole.
    fn fraction(&self, set: &Set) -> i32 {
        if self.limits.replicas == 0 {
            return -set.replicas;
        }
        // Without the annotation, what is there is the best guess.
        let noted = set.count(MAX).filter(|before| *before != 0);
        let before = noted.unwrap_or_else(|| self.status.replicas.unwrap_or(0));
        if before == 0 {
            return 0;
        }
        let size = f64::from(set.replicas) * f64::from(self.limits.most()) / f64::from(before);
        size.round() as i32 - set.replicas
    }
}
