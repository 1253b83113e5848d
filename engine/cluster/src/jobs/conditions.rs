//! The conditions of a Job, and the verdict that they lead to.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::replicasets::to_the_second;

/// How a Job ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ending {
    Complete,
    Failed,
}

/// That a Job is to end, and why. It is told before anything is taken down, so that it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verdict {
    pub(super) ending: Ending,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Verdict {
    pub(super) fn failed(reason: &str, message: impl Into<String>) -> Verdict {
        Verdict { ending: Ending::Failed, reason: reason.into(), message: message.into() }
    }

    pub(super) fn succeeded(reason: &str, message: impl Into<String>) -> Verdict {
        Verdict { ending: Ending::Complete, reason: reason.into(), message: message.into() }
    }

    /// The condition that tells the verdict while pods still end.
    fn interim(&self) -> &'static str {
        match self.ending {
            Ending::Complete => "SuccessCriteriaMet",
            Ending::Failed => "FailureTarget",
        }
    }

    /// The condition by which the Job is over.
    fn terminal(&self) -> &'static str {
        match self.ending {
            Ending::Complete => "Complete",
            Ending::Failed => "Failed",
        }
    }
}

/// The verdict that was told before.
pub(super) fn reached(status: &JobStatus) -> Option<Verdict> {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    [Ending::Complete, Ending::Failed].into_iter().find_map(|ending| {
        let mut verdict = Verdict { ending, reason: String::new(), message: String::new() };
        let told = conditions.iter().find(|one| one.type_ == verdict.interim() && one.status == "True")?;
        verdict.reason = told.reason.clone().unwrap_or_default();
        verdict.message = told.message.clone().unwrap_or_default();
        Some(verdict)
    })
}

/// Tells the verdict, unless it is told already.
pub(super) fn announce(status: &mut JobStatus, verdict: &Verdict, now: Timestamp) {
    ensure(status, verdict.interim(), "True", (&verdict.reason, &verdict.message), now);
}

/// Says that the Job is over.
pub(super) fn finish(status: &mut JobStatus, verdict: &Verdict, now: Timestamp) {
    ensure(status, verdict.terminal(), "True", (&verdict.reason, &verdict.message), now);
    if verdict.ending == Ending::Complete {
        status.completion_time = Some(Time(to_the_second(now)));
    }
}

/// Sets a condition; one that was never there is not set to false. Says whether anything changed.
pub(super) fn ensure(
    status: &mut JobStatus,
    kind: &str,
    value: &str,
    (reason, message): (&str, &str),
    now: Timestamp,
) -> bool {
    let now = Some(Time(to_the_second(now)));
    let wanted = JobCondition {
        type_: kind.into(),
        status: value.into(),
        last_probe_time: now.clone(),
        last_transition_time: now,
        reason: Some(reason.into()),
        message: Some(message.into()),
    };
    let conditions = status.conditions.get_or_insert_default();
    match conditions.iter_mut().find(|condition| condition.type_ == kind) {
        Some(old) if old.status == value && old.reason == wanted.reason && old.message == wanted.message => {
            false
        }
        Some(old) => {
            *old = wanted;
            true
        }
        None if value == "False" => {
            if conditions.is_empty() {
                status.conditions = None;
            }
            false
        }
        None => {
            conditions.push(wanted);
            true
        }
    }
}
