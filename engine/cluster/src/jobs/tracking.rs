//! Counting pods that ended, each once, whatever fails in between.
//!
//! ```text
//! uids into status.uncountedTerminatedPods ─► written ─► finalizers off ─► counters up, uids out ─► written
//! ```
//!
//! A pod stays until its uid is written down, and a uid stays until the pod is let go. So a controller that was
//! stopped anywhere finds out what was counted.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use koinon_control::events::Weight;

use super::conditions::{self, Ending, Verdict};
use super::facts::{
    has_failed, has_succeeded, index, is_indexed, is_suspended, is_tracked, uid, valid_index,
};
use super::plan::{Change, Draft};
use super::policy::{self, Failure};
use crate::replicasets::pods::is_ready;
use crate::replicasets::{to_the_second, unless_zero};

/// So many pods are counted at a time, so that their uids do not make the status too large.
const MOST_UNCOUNTED: usize = 500;

/// What became of a change.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) created: usize,
    pub(super) deleted: Vec<Arc<Pod>>,
}

/// Pods whose end was noted and not yet counted, by uid.
#[derive(Clone, Default)]
pub(super) struct Uncounted {
    pub(super) succeeded: Vec<String>,
    pub(super) failed: Vec<String>,
}

impl Uncounted {
    pub(super) fn of(status: &JobStatus) -> Uncounted {
        let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
        Uncounted {
            succeeded: uncounted.succeeded.unwrap_or_default(),
            failed: uncounted.failed.unwrap_or_default(),
        }
    }

    fn len(&self) -> usize {
        self.succeeded.len() + self.failed.len()
    }
}

/// An event about a Job.
#[derive(Debug, PartialEq)]
pub(super) struct News {
    pub(super) weight: Weight,
    pub(super) reason: String,
    pub(super) message: String,
}

/// What is to be written about a Job, in two steps: the status as it is now, then finalizers off the pods of
/// `release`, then the status that [`Tracking::released`] gives.
pub(super) struct Tracking {
    pub(super) status: JobStatus,
    pub(super) release: Vec<Arc<Pod>>,
    pub(super) news: Vec<News>,
    completions: Option<i32>,
    uncounted: Uncounted,
    verdict: Option<Verdict>,
    /// Pods that still have the finalizer, by uid.
    held: BTreeSet<String>,
    /// There was more to count than fits.
    more: bool,
}

/// Takes in what became of the change.
pub(super) fn track(now: Timestamp, mut draft: Draft, change: &Change, outcome: &Outcome) -> Tracking {
    let mut news = Vec::new();
    draft.settle(now, change, outcome, &mut news);
    let held: BTreeSet<String> =
        draft.pods.iter().filter(|pod| is_tracked(pod)).map(|pod| uid(pod).to_owned()).collect();
    let mut tracking = Tracking {
        status: draft.status.clone(),
        release: Vec::new(),
        news,
        completions: draft.spec.completions,
        uncounted: draft.uncounted.clone(),
        verdict: draft.verdict.clone(),
        held,
        more: false,
    };
    tracking.count_released();
    tracking.note(&draft);
    if let Some(verdict) = &tracking.verdict {
        conditions::announce(&mut tracking.status, verdict, now);
    }
    tracking
}

impl Draft {
    /// Counts as the change left them, and whether that completes the Job.
    fn settle(&mut self, now: Timestamp, change: &Change, outcome: &Outcome, news: &mut Vec<News>) {
        let everyone_ended = outcome.deleted.len() == self.active;
        self.active = (self.active + outcome.created).saturating_sub(outcome.deleted.len());
        self.ready -= outcome.deleted.iter().filter(|pod| is_ready(pod)).count().min(self.ready);
        self.terminating += outcome.deleted.len();
        if matches!(change, Change::End(_)) {
            if !everyone_ended {
                self.verdict = None;
            }
        } else if self.is_complete() {
            let message = "Reached expected number of succeeded pods";
            self.verdict = Some(Verdict::succeeded("CompletionsReached", message));
        } else if self.job.metadata.deletion_timestamp.is_none() {
            self.tell_suspension(now, news);
        }
        let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
        self.status.active = unless_zero(count(self.active));
        self.status.ready = Some(count(self.ready));
        self.status.terminating = Some(count(self.terminating));
    }

    fn is_complete(&self) -> bool {
        let enough = match self.spec.completions {
            None => self.succeeded > 0,
            Some(_) => self.succeeded >= super::facts::completions(&self.spec),
        };
        enough && self.active == 0
    }

    fn tell_suspension(&mut self, now: Timestamp, news: &mut Vec<News>) {
        let suspended = is_suspended(&self.spec);
        let (value, reason, message, event) = if suspended {
            ("True", "JobSuspended", "Job suspended", "Suspended")
        } else {
            ("False", "JobResumed", "Job resumed", "Resumed")
        };
        if conditions::ensure(&mut self.status, "Suspended", value, (reason, message), now) {
            // The deadline counts from the last time that the Job began.
            self.status.start_time = (!suspended).then(|| Time(to_the_second(now)));
            news.push(News { weight: Weight::Normal, reason: event.into(), message: message.into() });
        }
    }

    /// Whether a pod need not be held any longer.
    fn may_release(&self, pod: &Pod) -> bool {
        let job_ends = self.job.metadata.deletion_timestamp.is_some() || self.verdict.is_some();
        let awaits_replacement = || {
            let last = index(pod).and_then(|index| self.replaced.get(&index));
            last.is_some_and(|last| uid(last) == uid(pod))
        };
        job_ends || has_succeeded(pod) || has_failed(&self.spec, pod) && !awaits_replacement()
    }
}

impl Tracking {
    /// Notes the ends of pods that can be let go.
    fn note(&mut self, draft: &Draft) {
        let spec = &draft.spec;
        let failing = draft.verdict.as_ref().is_some_and(|verdict| verdict.ending == Ending::Failed);
        let noted = &draft.uncounted;
        let is_in = |list: &[String], pod: &Pod| list.iter().any(|one| one == uid(pod));
        let mut succeeded_indexes = Vec::new();
        for pod in draft.pods.iter().filter(|pod| is_tracked(pod) && draft.may_release(pod)) {
            self.release.push(pod.clone());
            let place = valid_index(spec, pod);
            if has_succeeded(pod) && !is_in(&noted.failed, pod) {
                match place {
                    // The index says as much as a uid.
                    Some(index) if is_indexed(spec) => {
                        succeeded_indexes.extend((!draft.counted_indexes.has(index)).then_some(index));
                    }
                    None if is_indexed(spec) => {}
                    _ if is_in(&noted.succeeded, pod) => {}
                    _ => self.uncounted.succeeded.push(uid(pod).into()),
                }
            } else if (has_failed(spec, pod) || failing)
                && !is_in(&noted.failed, pod)
                && (place.is_some() || !is_indexed(spec))
                && policy::judge(spec, pod) != Failure::Ignored
            {
                self.uncounted.failed.push(uid(pod).into());
            }
            if succeeded_indexes.len() + self.uncounted.len() >= MOST_UNCOUNTED {
                self.more = true;
                break;
            }
        }
        if is_indexed(spec) {
            let succeeded = draft.succeeded_indexes.with(succeeded_indexes);
            self.status.succeeded = unless_zero(i32::try_from(succeeded.total()).unwrap_or(i32::MAX));
            self.status.completed_indexes = Some(succeeded.to_string()).filter(|text| !text.is_empty());
            self.status.failed_indexes = draft.failed_indexes.as_ref().map(ToString::to_string);
        }
        self.write_uncounted();
    }

    /// Counts the noted pods that are no longer held.
    fn count_released(&mut self) {
        let held = &self.held;
        let count = |uids: &mut Vec<String>, counter: &mut Option<i32>| {
            let before = uids.len();
            uids.retain(|uid| held.contains(uid));
            let gone = i32::try_from(before - uids.len()).unwrap_or(i32::MAX);
            *counter = unless_zero(counter.unwrap_or(0).saturating_add(gone));
        };
        count(&mut self.uncounted.succeeded, &mut self.status.succeeded);
        count(&mut self.uncounted.failed, &mut self.status.failed);
        self.write_uncounted();
    }

    fn write_uncounted(&mut self) {
        let list = |uids: &[String]| (!uids.is_empty()).then(|| uids.to_vec());
        self.status.uncounted_terminated_pods = Some(UncountedTerminatedPods {
            succeeded: list(&self.uncounted.succeeded),
            failed: list(&self.uncounted.failed),
        });
    }

    /// Takes in which pods were let go. Says that the Job is over once all are counted and gone.
    pub(super) fn released(&mut self, now: Timestamp, released: &[String]) {
        for uid in released {
            self.held.remove(uid);
        }
        self.count_released();
        let done = released.len() == self.release.len() && !self.more && self.uncounted.len() == 0;
        let Some(verdict) = self.verdict.as_ref().filter(|_| done && self.status.terminating == Some(0))
        else {
            return;
        };
        conditions::finish(&mut self.status, verdict, now);
        match verdict.ending {
            Ending::Complete => {
                if self.completions.is_some_and(|wanted| self.status.succeeded.unwrap_or(0) > wanted) {
                    self.news.push(News {
                        weight: Weight::Warning,
                        reason: "TooManySucceededPods".into(),
                        message: "Too many succeeded pods running after completion count reached".into(),
                    });
                }
                let (reason, message) = ("Completed".into(), "Job completed".into());
                self.news.push(News { weight: Weight::Normal, reason, message });
            }
            Ending::Failed => {
                let (reason, message) = (verdict.reason.clone(), verdict.message.clone());
                self.news.push(News { weight: Weight::Warning, reason, message });
            }
        }
    }
}
