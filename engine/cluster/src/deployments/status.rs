//! How a Deployment stands: its counts, whether it moves, and when to look again if it does not.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::{DeploymentCondition, DeploymentStatus};
use kube::ResourceExt as _;

use super::conditions::{self, AVAILABLE, COMPLETE, PROGRESSING, REPLICA_FAILURE, TIMED_OUT, UPDATED};
use super::draft::Draft;
use super::sets::{Set, sum};
use crate::replicasets::unless_zero;

impl Draft<'_> {
    /// The counts, and whether enough pods are available.
    pub(super) fn counted(&self) -> DeploymentStatus {
        let available = sum(&self.sets, Set::available);
        let mut status = DeploymentStatus {
            observed_generation: self.deployment.metadata.generation,
            replicas: unless_zero(sum(&self.sets, Set::actual)),
            updated_replicas: unless_zero(self.newest().map_or(0, Set::actual)),
            ready_replicas: unless_zero(sum(&self.sets, Set::ready)),
            available_replicas: unless_zero(available),
            unavailable_replicas: unless_zero((self.total() - available).max(0)),
            terminating_replicas: self.sets.iter().map(Set::terminating).sum(),
            collision_count: self.status.collision_count,
            conditions: self.status.conditions.clone(),
        };
        let condition = if available >= self.limits.least() {
            ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        } else {
            ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
        };
        let (is, reason, message) = condition;
        conditions::set(&mut status, conditions::new(AVAILABLE, is, reason, message, self.now));
        status
    }

    /// The counts, and how the rollout goes.
    pub(super) fn progressed(&self) -> DeploymentStatus {
        let mut status = self.counted();
        self.measure_progress(&mut status);
        match self.failure() {
            Some(failure) => conditions::set(&mut status, failure),
            None => conditions::remove(&mut status, REPLICA_FAILURE),
        }
        status
    }

    fn measure_progress(&self, status: &mut DeploymentStatus) {
        let Some(deadline) = self.deadline() else {
            return conditions::remove(status, PROGRESSING);
        };
        let before = conditions::get(&self.status, PROGRESSING);
        // A rollout that has ended is not measured again when its pods come and go.
        let ended = before.is_some_and(|before| before.reason.as_deref() == Some(COMPLETE));
        if ended && status.replicas == status.updated_replicas {
            return;
        }
        let (kind, name) = match self.newest() {
            Some(new) => ("ReplicaSet", new.name().to_owned()),
            None => ("Deployment", self.deployment.name_any()),
        };
        let message = |does: &str| format!("{kind} {name:?} {does}.");
        if self.is_complete(status) {
            let message = message("has successfully progressed");
            conditions::set(status, conditions::new(PROGRESSING, "True", COMPLETE, message, self.now));
        } else if self.has_moved(status) {
            let message = message("is progressing");
            let mut condition = conditions::new(PROGRESSING, "True", UPDATED, message, self.now);
            if let Some(before) = before.filter(|before| before.status == "True") {
                condition.last_transition_time = before.last_transition_time.clone();
            }
            // Each sign of progress starts the deadline anew, also for the same reason.
            conditions::replace(status, condition);
        } else if before.is_some_and(|before| self.is_timed_out(before, deadline)) {
            let message = message("has timed out progressing");
            conditions::set(status, conditions::new(PROGRESSING, "False", TIMED_OUT, message, self.now));
        }
    }

    /// All replicas are new and available, no old ones are left, and the status is about this generation.
    pub(super) fn is_complete(&self, status: &DeploymentStatus) -> bool {
        let wanted = unless_zero(self.limits.replicas);
        unless_zero(status.updated_replicas.unwrap_or(0)) == wanted
            && unless_zero(status.replicas.unwrap_or(0)) == wanted
            && unless_zero(status.available_replicas.unwrap_or(0)) == wanted
            && status.observed_generation >= self.deployment.metadata.generation
    }

    /// New pods came, old ones went, or more are ready or available than before.
    fn has_moved(&self, after: &DeploymentStatus) -> bool {
        let count = |count: Option<i32>| count.unwrap_or(0);
        let old = |status: &DeploymentStatus| count(status.replicas) - count(status.updated_replicas);
        let before = &self.status;
        count(after.updated_replicas) > count(before.updated_replicas)
            || old(after) < old(before)
            || count(after.ready_replicas) > count(before.ready_replicas)
            || count(after.available_replicas) > count(before.available_replicas)
    }

    fn is_timed_out(&self, before: &DeploymentCondition, deadline: i32) -> bool {
        match before.reason.as_deref() {
            Some(COMPLETE) => false,
            Some(TIMED_OUT) => true,
            _ => self.time_left(before, deadline).is_some_and(|left| left.is_negative()),
        }
    }

    fn time_left(&self, condition: &DeploymentCondition, deadline: i32) -> Option<SignedDuration> {
        let from = condition.last_update_time.as_ref()?.0;
        let until = from.checked_add(SignedDuration::from_secs(deadline.into())).ok()?;
        Some(until.duration_since(self.now))
    }

    /// When a rollout that does not move will have timed out, if it can.
    pub(super) fn look_again(&self, status: &DeploymentStatus) -> Option<Duration> {
        let condition = conditions::get(status, PROGRESSING)?;
        if self.is_complete(status) || matches!(condition.reason.as_deref(), Some(COMPLETE | TIMED_OUT)) {
            return None;
        }
        let left = self.time_left(condition, self.deadline()?)?;
        // Times are noted in whole seconds, so a little later it is certain.
        Some(left.max(SignedDuration::ZERO).unsigned_abs() + Duration::from_secs(1))
    }

    /// A set that cannot make or delete pods; the new one's trouble comes first.
    fn failure(&self) -> Option<DeploymentCondition> {
        let old = self.old();
        let mut sets = self.new.into_iter().chain(old).map(|index| &self.sets[index]);
        let failure = sets.find_map(|set| {
            let conditions = set.object.status.as_ref()?.conditions.as_ref()?;
            conditions.iter().find(|condition| condition.type_ == REPLICA_FAILURE).cloned()
        })?;
        Some(DeploymentCondition {
            type_: failure.type_,
            status: failure.status,
            reason: failure.reason,
            message: failure.message,
            last_update_time: failure.last_transition_time.clone(),
            last_transition_time: failure.last_transition_time,
        })
    }
}
