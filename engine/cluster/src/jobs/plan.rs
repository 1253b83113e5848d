//! What a Job needs next: more pods, fewer, or an end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::backoff::{self, Backoff};
use super::conditions::{self, Verdict};
use super::facts::{
    completions, failures, finished_at, has_failed, has_succeeded, ignored_failures, indexes, is_indexed,
    is_suspended, is_tracked, replaces_only_failed, uid, valid_index,
};
use super::indexes::Indexes;
use super::policy::{self, Failure};
use super::removal::first_to_go;
use super::template;
use super::tracking::Uncounted;
use crate::replicasets::pods::{is_active, is_ready, is_terminating, phase};
use crate::replicasets::to_the_second;

/// So many pods are made or deleted before the status is told again.
const BURST: usize = 500;
/// Changes of pods are gathered for so long before a Job is looked at.
pub(super) const BATCH: Duration = Duration::from_secs(1);

/// What to do about one Job: first the change, then what [`super::tracking`] makes of its outcome.
pub(super) struct Plan {
    pub(super) draft: Draft,
    pub(super) change: Change,
    /// When to look again if nothing changes.
    pub(super) look_again: Option<Duration>,
}

/// How the pods of a Job have to change.
#[derive(Debug, PartialEq)]
pub(super) enum Change {
    Nothing,
    Create(Vec<Pod>),
    /// Too many run: these are let go and never counted.
    Delete(Vec<Arc<Pod>>),
    /// The Job is over: these have to end, and are counted when they have.
    End(Vec<Arc<Pod>>),
}

/// A Job as it was found, with what was decided about it.
pub(super) struct Draft {
    pub(super) job: Arc<Job>,
    pub(super) spec: JobSpec,
    pub(super) pods: Vec<Arc<Pod>>,
    pub(super) status: JobStatus,
    pub(super) verdict: Option<Verdict>,
    pub(super) uncounted: Uncounted,
    pub(super) active: usize,
    pub(super) ready: usize,
    pub(super) terminating: usize,
    pub(super) succeeded: usize,
    pub(super) counted_indexes: Indexes,
    pub(super) succeeded_indexes: Indexes,
    pub(super) failed_indexes: Option<Indexes>,
    /// Failed pods, by index, that stay until their replacement carries on their count of failures.
    pub(super) replaced: BTreeMap<usize, Arc<Pod>>,
    pub(super) backoff: Backoff,
}

/// Decides over the pods that a Job has.
pub(super) fn plan(now: Timestamp, job: &Arc<Job>, mut pods: Vec<Arc<Pod>>, remembered: &Backoff) -> Plan {
    let spec = job.spec.clone().unwrap_or_default();
    if is_indexed(&spec) {
        pods.sort_by_key(|pod| super::facts::index(pod));
    }
    let mut status = job.status.clone().unwrap_or_default();
    if status.start_time.is_none() && !is_suspended(&spec) {
        status.start_time = Some(Time(to_the_second(now)));
    }
    let active: Vec<Arc<Pod>> = pods.iter().filter(|pod| is_active(pod)).cloned().collect();
    let mut draft = Draft {
        job: job.clone(),
        verdict: conditions::reached(&status),
        uncounted: Uncounted::of(&status),
        active: active.len(),
        ready: active.iter().filter(|pod| is_ready(pod)).count(),
        terminating: pods.iter().filter(|pod| is_terminating(pod)).count(),
        succeeded: 0,
        counted_indexes: Indexes::default(),
        succeeded_indexes: Indexes::default(),
        failed_indexes: None,
        replaced: BTreeMap::new(),
        backoff: Backoff::default(),
        spec,
        pods,
        status,
    };
    let failed = draft.count(remembered);
    let mut look_again = draft.judge(now, failed);
    draft.judge_indexes(&active);
    let change = if draft.verdict.is_some() {
        Change::End(active)
    } else if job.metadata.deletion_timestamp.is_some() {
        Change::Nothing
    } else {
        let (change, pause) = draft.manage(now, &active);
        look_again = look_again.into_iter().chain(pause.map(|pause| pause.max(BATCH))).min();
        change
    };
    Plan { draft, change, look_again }
}

impl Draft {
    /// Counts what ended; gives how many pods failed so far.
    fn count(&mut self, remembered: &Backoff) -> usize {
        let fresh = |ended: &dyn Fn(&Pod) -> bool, counted: &[String]| -> Vec<Arc<Pod>> {
            let unseen = |pod: &&Arc<Pod>| {
                is_tracked(pod)
                    && !counted.iter().any(|counted| counted == uid(pod))
                    && (!is_indexed(&self.spec) || valid_index(&self.spec, pod).is_some())
            };
            self.pods.iter().filter(unseen).filter(|pod| ended(pod)).cloned().collect()
        };
        let succeeded = fresh(&has_succeeded, &self.uncounted.succeeded);
        let failed = fresh(&|pod| has_failed(&self.spec, pod), &self.uncounted.failed);
        self.backoff = remembered.after(&succeeded, &failed);
        let before = |count: Option<i32>| usize::try_from(count.unwrap_or(0)).unwrap_or(0);
        self.succeeded = before(self.status.succeeded) + succeeded.len() + self.uncounted.succeeded.len();
        let counting = failed.iter().filter(|pod| policy::judge(&self.spec, pod) != Failure::Ignored).count();
        before(self.status.failed) + counting + self.uncounted.failed.len()
    }

    /// Finds out whether the Job has failed as a whole; says when its deadline is.
    fn judge(&mut self, now: Timestamp, failed: usize) -> Option<Duration> {
        if self.verdict.is_some() {
            return None;
        }
        if let Some(message) = self.failed_by_policy() {
            self.verdict = Some(Verdict::failed("PodFailurePolicy", message));
            return None;
        }
        let limit = usize::try_from(self.spec.backoff_limit.unwrap_or(6)).unwrap_or(0);
        if failed > limit || self.restarted_too_often(limit) {
            let message = "Job has reached the specified backoff limit";
            self.verdict = Some(Verdict::failed("BackoffLimitExceeded", message));
            return None;
        }
        let deadline = self.spec.active_deadline_seconds.filter(|_| !is_suspended(&self.spec))?;
        let start = self.status.start_time.as_ref()?.0;
        let left = SignedDuration::from_secs(deadline) - now.duration_since(start);
        if left <= SignedDuration::ZERO {
            let message = "Job was active longer than specified deadline";
            self.verdict = Some(Verdict::failed("DeadlineExceeded", message));
            return None;
        }
        Duration::try_from(left).ok()
    }

    fn failed_by_policy(&self) -> Option<String> {
        self.spec.pod_failure_policy.as_ref()?;
        self.pods.iter().filter(|pod| has_failed(&self.spec, pod)).find_map(|pod| {
            match policy::judge(&self.spec, pod) {
                Failure::FailsJob(message) => Some(message),
                Failure::Counts | Failure::Ignored | Failure::FailsIndex => None,
            }
        })
    }

    /// Where containers are restarted in their pods, those restarts are the failures.
    fn restarted_too_often(&self, limit: usize) -> bool {
        let policy = self.spec.template.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
        if policy != Some("OnFailure") {
            return false;
        }
        let running = self.pods.iter().filter(|pod| matches!(phase(pod), "Running" | "Pending"));
        let statuses = running.filter_map(|pod| pod.status.as_ref()).flat_map(|status| {
            status.init_container_statuses.iter().chain(&status.container_statuses).flatten()
        });
        let restarts: i64 = statuses.map(|container| i64::from(container.restart_count)).sum();
        restarts > 0 && usize::try_from(restarts).unwrap_or(0) >= limit
    }

    /// Counts by index, and finds out whether that ends the Job.
    fn judge_indexes(&mut self, active: &[Arc<Pod>]) {
        if !is_indexed(&self.spec) {
            return;
        }
        let completions = completions(&self.spec);
        let counting = |wanted: &dyn Fn(&Pod) -> bool| {
            let pods = self.pods.iter().filter(|pod| is_tracked(pod) && wanted(pod));
            pods.filter_map(|pod| valid_index(&self.spec, pod)).collect::<std::collections::BTreeSet<_>>()
        };
        let read = |text: &Option<String>| Indexes::parse(text.as_deref().unwrap_or_default(), completions);
        self.counted_indexes = read(&self.status.completed_indexes);
        self.succeeded_indexes = self.counted_indexes.with(counting(&has_succeeded));
        self.succeeded = self.succeeded_indexes.total();
        if self.spec.backoff_limit_per_index.is_some() {
            let failing = counting(&|pod| policy::fails_index(&self.spec, pod));
            let failed = read(&self.status.failed_indexes).with(failing);
            let most = self.spec.max_failed_indexes.and_then(|most| usize::try_from(most).ok());
            if self.verdict.is_none() && most.is_some_and(|most| failed.total() > most) {
                let message = "Job has exceeded the specified maximal number of failed indexes";
                self.verdict = Some(Verdict::failed("MaxFailedIndexesExceeded", message));
            } else if self.verdict.is_none()
                && failed.total() > 0
                && failed.total() + self.succeeded >= completions
            {
                self.verdict = Some(Verdict::failed("FailedIndexes", "Job has failed indexes"));
            }
            self.failed_indexes = Some(failed);
            self.replaced = self.waiting_for_replacement(active);
        }
        if self.verdict.is_none()
            && let Some(message) = policy::success(&self.spec, &self.succeeded_indexes)
        {
            self.verdict = Some(Verdict::succeeded("SuccessPolicy", message));
        }
    }

    /// For each index without an active pod, the last that failed.
    fn waiting_for_replacement(&self, active: &[Arc<Pod>]) -> BTreeMap<usize, Arc<Pod>> {
        let running = indexes(active);
        let mut last: BTreeMap<usize, Arc<Pod>> = BTreeMap::new();
        for pod in self.pods.iter().filter(|pod| is_tracked(pod) && has_failed(&self.spec, pod)) {
            let Some(index) = valid_index(&self.spec, pod) else { continue };
            let settled = self.succeeded_indexes.has(index)
                || self.failed_indexes.as_ref().is_some_and(|failed| failed.has(index));
            if settled || running.contains(&index) {
                continue;
            }
            let total = |pod: &Pod| failures(pod).saturating_add(ignored_failures(pod));
            let later =
                |other: &Arc<Pod>| total(other) <= total(pod) && finished_at(pod) >= finished_at(other);
            if last.get(&index).is_none_or(later) {
                last.insert(index, pod.clone());
            }
        }
        last
    }

    /// Decides how many pods there should be; says how long a backoff keeps some from being made.
    fn manage(&self, now: Timestamp, active: &[Arc<Pod>]) -> (Change, Option<Duration>) {
        let spec = &self.spec;
        if is_suspended(spec) {
            return (deletion(first_to_go(spec, active, active.len())), None);
        }
        let parallelism = usize::try_from(spec.parallelism.unwrap_or(1)).unwrap_or(0);
        let wanted = match spec.completions {
            None if self.succeeded > 0 => active.len(),
            None => parallelism,
            Some(_) => completions(spec).saturating_sub(self.succeeded).min(parallelism),
        };
        let mut going = first_to_go(spec, active, active.len().saturating_sub(wanted));
        going.truncate(BURST);
        if !going.is_empty() {
            return (Change::Delete(going), None);
        }
        let leaving = if replaces_only_failed(spec) { self.terminating } else { 0 };
        let missing = wanted.saturating_sub(leaving + active.len());
        if missing == 0 {
            return (Change::Nothing, None);
        }
        let per_index = spec.backoff_limit_per_index.is_some();
        let pause = if per_index { Duration::ZERO } else { self.backoff.remaining(now) };
        if !pause.is_zero() {
            return (Change::Nothing, Some(pause));
        }
        let count = missing.min(BURST);
        if !is_indexed(spec) {
            return (Change::Create(vec![template::pod(&self.job, spec); count]), None);
        }
        let mut next = self.pending(active, count);
        if per_index {
            let pause = |index: &usize| backoff::of_index(self.replaced.get(index), now);
            let soonest = next.iter().map(pause).min();
            next.retain(|index| pause(index).is_zero());
            if next.is_empty() {
                return (Change::Nothing, soonest);
            }
        }
        let pod = |index: usize| template::indexed_pod(&self.job, spec, index, self.replaced.get(&index));
        (Change::Create(next.into_iter().map(pod).collect()), None)
    }

    /// The first indexes that have neither ended nor an active pod.
    fn pending(&self, active: &[Arc<Pod>], count: usize) -> Vec<usize> {
        let mut taken = self.succeeded_indexes.with(indexes(active));
        if replaces_only_failed(&self.spec) {
            taken = taken.with(indexes(self.pods.iter().filter(|pod| is_terminating(pod))));
        }
        if let Some(failed) = &self.failed_indexes {
            taken = taken.merge(failed);
        }
        taken.missing(count, completions(&self.spec))
    }
}

fn deletion(pods: Vec<Arc<Pod>>) -> Change {
    if pods.is_empty() { Change::Nothing } else { Change::Delete(pods) }
}
