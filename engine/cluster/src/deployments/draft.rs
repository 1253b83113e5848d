//! A plan in the making: what is known of a Deployment, and what shall change.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStatus, ReplicaSet};

use super::conditions::{self, PAUSED, PROGRESSING, RESUMED, TIMED_OUT};
use super::limits::{Limits, Strategy};
use super::sets::{DESIRED, MAX, Set, sum};

pub(super) struct Draft<'a> {
    pub(super) now: Timestamp,
    pub(super) deployment: &'a Deployment,
    pub(super) spec: &'a DeploymentSpec,
    pub(super) limits: Limits,
    /// The oldest first; one that is yet to be made last.
    pub(super) sets: Vec<Set>,
    /// The set whose template the Deployment has.
    pub(super) new: Option<usize>,
    /// Sets that change, in the order of their changes.
    pub(super) touched: Vec<usize>,
    /// Sets that go, because history is long enough.
    pub(super) retired: Vec<usize>,
    /// The status as it was, with conditions as they shall be.
    pub(super) status: DeploymentStatus,
    /// The revision that the Deployment has to be annotated with.
    pub(super) revision: Option<String>,
}

impl<'a> Draft<'a> {
    pub(super) fn of(
        now: Timestamp,
        deployment: &'a Deployment,
        spec: &'a DeploymentSpec,
        sets: Vec<Arc<ReplicaSet>>,
    ) -> Draft<'a> {
        let mut sets: Vec<Set> = sets.into_iter().map(Set::of).collect();
        sets.sort_by(|a, b| a.age().cmp(&b.age()));
        Draft {
            now,
            deployment,
            spec,
            limits: Limits::of(deployment),
            sets,
            new: None,
            touched: Vec::new(),
            retired: Vec::new(),
            status: deployment.status.clone().unwrap_or_default(),
            revision: None,
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.spec.paused == Some(true)
    }

    /// The seconds within which something has to move, if it matters.
    pub(super) fn deadline(&self) -> Option<i32> {
        self.spec.progress_deadline_seconds.filter(|seconds| *seconds != i32::MAX)
    }

    pub(super) fn newest(&self) -> Option<&Set> {
        self.new.map(|new| &self.sets[new])
    }

    /// All but the new one, the oldest first.
    pub(super) fn old(&self) -> Vec<usize> {
        (0..self.sets.len()).filter(|index| Some(*index) != self.new).collect()
    }

    /// Those of the old ones that shall have pods.
    pub(super) fn active_old(&self) -> Vec<usize> {
        self.old().into_iter().filter(|index| self.sets[*index].replicas > 0).collect()
    }

    /// The pods that all sets together shall have.
    pub(super) fn total(&self) -> i32 {
        sum(&self.sets, |set| set.replicas)
    }

    pub(super) fn touch(&mut self, index: usize, why: &'static str) {
        self.sets[index].why = why;
        if !self.touched.contains(&index) {
            self.touched.push(index);
        }
    }

    /// Gives a set another size; says whether that was a change.
    pub(super) fn scale(&mut self, index: usize, replicas: i32, why: &'static str) -> bool {
        if self.sets[index].replicas == replicas {
            return false;
        }
        self.sets[index].replicas = replicas;
        self.note_size(index, why);
        self.touch(index, why);
        true
    }

    /// Notes on a set the size of the Deployment that it was scaled for.
    pub(super) fn note_size(&mut self, index: usize, why: &'static str) {
        self.note(index, DESIRED, self.limits.replicas, why);
        self.note(index, MAX, self.limits.most(), why);
    }

    pub(super) fn note(&mut self, index: usize, key: &str, value: i32, why: &'static str) {
        let value = value.to_string();
        if self.sets[index].annotation(key) != Some(value.as_str()) {
            self.sets[index].annotate(key, value);
            self.touch(index, why);
        }
    }

    /// Whether the Deployment was scaled since its sets were.
    pub(super) fn was_scaled(&self) -> bool {
        let mut active = self.sets.iter().filter(|set| set.replicas > 0);
        active.any(|set| set.count(DESIRED).is_some_and(|desired| desired != self.limits.replicas))
    }

    /// Pausing and resuming are noted where progress is measured, so that the pause does not count.
    pub(super) fn note_pause(&mut self) {
        let reason = conditions::reason(&self.status, PROGRESSING);
        if self.deadline().is_none() || reason == Some(TIMED_OUT) {
            return;
        }
        let (reason, message) = match (self.is_paused(), reason == Some(PAUSED)) {
            (true, false) => (PAUSED, "Deployment is paused"),
            (false, true) => (RESUMED, "Deployment is resumed"),
            (true, true) | (false, false) => return,
        };
        let condition = conditions::new(PROGRESSING, "Unknown", reason, message, self.now);
        conditions::set(&mut self.status, condition);
    }

    pub(super) fn is_rolling(&self) -> bool {
        self.limits.strategy == Strategy::Rolling
    }
}
