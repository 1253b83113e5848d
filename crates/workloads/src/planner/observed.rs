//! From what a member shows to what the planner asks: what runs, and how much fits.

use super::Candidate;

/// A member's workload in counts. Pods that are going are in none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Observed {
    /// What its object asks for.
    pub spec_replicas: i64,
    /// Pods that there are, scheduled or not.
    pub pods: i64,
    /// Of those, the ones that found no node for too long.
    pub unschedulable: i64,
    /// Pods that could not even be created for too long (quota, admission).
    pub missing: i64,
}

impl Observed {
    /// What the planner may count on.
    ///
    /// Pods beyond what was asked for are surge of an update, not replicas: counted as existing they would
    /// ratchet everything into the cluster that is being updated. A capacity is known only when something
    /// is stuck, and it shows in what is not.
    pub fn candidate(self) -> Candidate {
        let asked = self.spec_replicas.max(0);
        let running = self.pods.saturating_sub(self.unschedulable.max(0));
        let stuck = self.unschedulable.max(0).saturating_add(self.missing.max(0));
        Candidate {
            existing: running.clamp(0, asked),
            capacity: (stuck > 0).then(|| asked.max(self.pods).saturating_sub(stuck).max(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(asked: i64, pods: i64, unschedulable: i64, missing: i64, existing: i64, capacity: Option<i64>) {
        let observed = Observed { spec_replicas: asked, pods, unschedulable, missing };
        assert_eq!(observed.candidate(), Candidate { existing, capacity }, "{observed:?}");
    }

    #[test]
    fn counts_are_clamped() {
        check(4, 4, 0, 0, 4, None);
        check(8, 8, 2, 0, 6, Some(6));
        check(8, 6, 0, 2, 6, Some(6));
        check(2, 2, 5, 0, 0, Some(0));
        check(-1, -1, -1, -1, 0, None);
    }

    #[test]
    fn pods_that_are_only_on_their_way_do_not_bound_anything() {
        check(20, 10, 0, 0, 10, None);
    }

    #[test]
    fn surge_is_neither_existing_nor_a_sign_of_no_room() {
        check(4, 5, 0, 0, 4, None);
        check(4, 5, 1, 0, 4, Some(4));
    }
}
