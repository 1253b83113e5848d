//! From the old template to the new one: step by step, or all at once.

use std::collections::BTreeMap;

use super::draft::Draft;
use super::sets::{Set, sum};

impl Draft<'_> {
    /// One step of a rolling update: either up or down, never both, so that each sees what the other did.
    pub(super) fn roll(&mut self) {
        self.find_or_make_new();
        if self.raise_new() || self.lower_old() {
            return;
        }
        self.retire_when_complete();
    }

    /// Old pods go, all of them; only then are new ones made.
    pub(super) fn recreate(&mut self, running: &BTreeMap<String, usize>) {
        self.find_new();
        let mut lowered = false;
        for old in self.active_old() {
            lowered |= self.scale(old, 0, "old pods go before new ones come");
        }
        if lowered || self.old_pods_remain(running) {
            return;
        }
        self.find_or_make_new();
        if let Some(new) = self.new {
            self.scale(new, self.limits.replicas, "all old pods are gone");
        }
        self.retire_when_complete();
    }

    fn old_pods_remain(&self, running: &BTreeMap<String, usize>) -> bool {
        let old = self.old();
        if sum(old.iter().map(|old| &self.sets[*old]), Set::actual) > 0 {
            return true;
        }
        old.iter().any(|old| {
            self.sets[*old].uid().and_then(|uid| running.get(uid)).is_some_and(|running| *running > 0)
        })
    }

    /// The size that the new set may have: as much as the surge leaves room for.
    pub(super) fn room_for_new(&self) -> i32 {
        let now = self.newest().map_or(0, |set| set.replicas);
        let room = self.limits.most() - self.total();
        if room <= 0 { now } else { now + room.min(self.limits.replicas - now) }
    }

    fn raise_new(&mut self) -> bool {
        let Some(new) = self.new else { return false };
        if self.sets[new].replicas > self.limits.replicas {
            return self.scale(new, self.limits.replicas, "the Deployment asks for fewer");
        }
        self.scale(new, self.room_for_new(), "there is room for more new pods")
    }

    fn lower_old(&mut self) -> bool {
        let old = self.active_old();
        let Some(new) = self.newest() else { return false };
        // New pods that are not available yet must not make room: they may never be.
        let not_yet = new.replicas - new.lasting();
        let spare = self.total() - self.limits.least() - not_yet;
        if old.is_empty() || spare <= 0 {
            return false;
        }
        let unhealthy = self.lower_unhealthy(&old, spare);
        let healthy = self.lower_healthy(&old);
        unhealthy || healthy
    }

    /// Pods that are not available serve nobody, and would block the rollout.
    fn lower_unhealthy(&mut self, old: &[usize], mut spare: i32) -> bool {
        let mut lowered = false;
        for index in old {
            let set = &self.sets[*index];
            let unhealthy = (set.replicas - set.available()).min(spare);
            if unhealthy > 0 {
                let replicas = set.replicas - unhealthy;
                spare -= unhealthy;
                lowered |= self.scale(*index, replicas, "these old pods are not available");
            }
        }
        lowered
    }

    fn lower_healthy(&mut self, old: &[usize]) -> bool {
        let sets = old.iter().copied().chain(self.new).map(|index| &self.sets[index]);
        let mut spare = sum(sets, Set::lasting) - self.limits.least();
        let mut lowered = false;
        for index in old {
            let replicas = self.sets[*index].replicas;
            let fewer = replicas.min(spare);
            if fewer > 0 {
                spare -= fewer;
                lowered |= self.scale(*index, replicas - fewer, "enough pods are available without these");
            }
        }
        lowered
    }

    fn retire_when_complete(&mut self) {
        if self.is_complete(&self.status) {
            self.retire();
        }
    }

    /// Marks the oldest of the spent sets, as far as they are more than history shall hold.
    pub(super) fn retire(&mut self) {
        let Some(limit) = self.spec.revision_history_limit.filter(|limit| *limit != i32::MAX) else { return };
        let mut old = self.old();
        old.retain(|index| !self.sets[*index].is_deleted());
        let surplus = old.len().saturating_sub(limit.max(0) as usize);
        // Stable, so that the older comes first where revisions are the same or unknown.
        old.sort_by_key(|index| self.sets[*index].revision().unwrap_or(0));
        let spent = old.into_iter().take(surplus).filter(|index| self.sets[*index].is_spent());
        self.retired = spent.collect();
    }
}
