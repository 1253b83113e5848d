//! What a CronJob needs: a Job begun, old ones removed, and a status that says which run.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use koinon_control::events::Weight;
use koinon_cron::Schedule;
use kube::{Resource as _, ResourceExt as _};

use super::times::{Deadline, Missed, recent, until_next};
use crate::jobs::finished;
use crate::replicasets::claim::controller_reference;
use crate::replicasets::owned::controller_of;

const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// An event about a CronJob.
#[derive(Debug, PartialEq)]
pub(super) struct News {
    pub(super) weight: Weight,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

fn normal(reason: &'static str, message: impl Into<String>) -> News {
    News { weight: Weight::Normal, reason, message: message.into() }
}

fn warning(reason: &'static str, message: impl Into<String>) -> News {
    News { weight: Weight::Warning, reason, message: message.into() }
}

/// What to do now about the next Job.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Nothing, until the CronJob changes.
    Rest,
    /// Nothing yet.
    Wait(Option<Duration>),
    /// Begin the Job of this time, in place of those that still run if the policy says so.
    Start { time: Timestamp, replace: Vec<ObjectReference> },
}

/// The Jobs that a CronJob began, by name.
pub(super) fn children(cron: &CronJob, jobs: Vec<Arc<Job>>) -> Vec<Arc<Job>> {
    let ours = |job: &Arc<Job>| {
        controller_of(&**job).is_some_and(|owner| {
            owner.kind == CronJob::kind(&()) && Some(&owner.name) == cron.metadata.name.as_ref()
        })
    };
    jobs.into_iter().filter(ours).collect()
}

/// The finished Jobs beyond what the history keeps, oldest first.
pub(super) fn outdated(spec: &CronJobSpec, jobs: &[Arc<Job>]) -> Vec<Arc<Job>> {
    let beyond = |condition: &str, limit: Option<i32>| {
        let ended = |job: &&Arc<Job>| finished(job).is_some_and(|one| one.type_ == condition);
        let mut jobs: Vec<Arc<Job>> = jobs.iter().filter(ended).cloned().collect();
        // Those that never began come last.
        jobs.sort_by_key(|job| {
            let start = job.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0);
            (start.is_none(), start, job.name_any())
        });
        let keep = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(0));
        jobs.truncate(jobs.len().saturating_sub(keep));
        jobs
    };
    let mut jobs = beyond("Complete", spec.successful_jobs_history_limit);
    jobs.extend(beyond("Failed", spec.failed_jobs_history_limit));
    jobs
}

/// Takes in how the Jobs stand. Gives what to tell, and the active ones that are not among them.
pub(super) fn observe(status: &mut CronJobStatus, jobs: &[Arc<Job>]) -> (Vec<News>, Vec<ObjectReference>) {
    let mut news = Vec::new();
    for job in jobs {
        let known = active(status).iter().any(|one| one.uid == job.metadata.uid);
        match finished(job) {
            None if !known => {
                let message =
                    format!("Saw a job that the controller did not create or forgot: {}", job.name_any());
                news.push(warning("UnexpectedJob", message));
            }
            None => {}
            Some(end) => {
                if known {
                    let name = job.name_any();
                    let message = format!("Saw completed job: {name}, condition: {}", end.type_);
                    news.push(normal("SawCompletedJob", message));
                    drop_active(status, job.metadata.uid.as_ref());
                }
                let ended = job.status.as_ref().and_then(|status| status.completion_time.clone());
                if end.type_ == "Complete" && ended > status.last_successful_time {
                    status.last_successful_time = ended;
                }
            }
        }
    }
    let uids: BTreeSet<_> = jobs.iter().map(|job| &job.metadata.uid).collect();
    let missing = active(status).iter().filter(|one| !uids.contains(&one.uid)).cloned().collect();
    (news, missing)
}

/// An active Job that is gone, the server itself says.
pub(super) fn lost(status: &mut CronJobStatus, job: &ObjectReference) -> News {
    drop_active(status, job.uid.as_ref());
    normal("MissingJob", format!("Active job went missing: {}", job.name.as_deref().unwrap_or_default()))
}

pub(super) fn drop_active(status: &mut CronJobStatus, uid: Option<&String>) {
    if let Some(active) = &mut status.active {
        active.retain(|one| one.uid.as_ref() != uid);
    }
    if active(status).is_empty() {
        status.active = None;
    }
}

fn active(status: &CronJobStatus) -> &[ObjectReference] {
    status.active.as_deref().unwrap_or_default()
}

/// The schedule of a CronJob, in its zone.
pub(super) fn schedule(spec: &CronJobSpec) -> Result<Schedule, News> {
    let text = &spec.schedule;
    if let Some(name) = &spec.time_zone
        && koinon_cron::zone(name).is_none()
    {
        return Err(warning(
            "UnknownTimeZone",
            format!("invalid timeZone: {name:?}: unknown time zone {name}"),
        ));
    }
    let schedule = Schedule::parse(text)
        .map_err(|why| warning("UnparseableSchedule", format!("unparseable schedule: {text:?} : {why}")))?;
    let zone = spec.time_zone.as_ref().filter(|_| !text.contains("TZ"));
    Ok(match zone.and_then(|name| koinon_cron::zone(name)) {
        Some(zone) => schedule.in_zone(zone),
        None => schedule,
    })
}

/// Decides whether a Job has to begin.
pub(super) fn decide(now: Timestamp, cron: &CronJob, status: &CronJobStatus) -> (Step, Vec<News>) {
    if cron.metadata.deletion_timestamp.is_some() {
        return (Step::Rest, Vec::new());
    }
    let spec = &cron.spec;
    let schedule = match schedule(spec) {
        Err(news) if news.reason == "UnknownTimeZone" => return (Step::Rest, vec![news]),
        _ if spec.suspend == Some(true) => return (Step::Rest, Vec::new()),
        Err(news) => return (Step::Rest, vec![news]),
        Ok(schedule) => schedule,
    };
    let mut news = Vec::new();
    if spec.schedule.contains("TZ") {
        news.push(warning("UnsupportedSchedule", format!("CRON_TZ or TZ used in schedule {:?} is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details", spec.schedule)));
    }
    let wait = || Step::Wait(until_next(cron, now, &schedule));
    let found = match recent(cron, now, &schedule, Deadline::Counts) {
        Ok(found) => found,
        Err(error) => {
            news.push(warning("InvalidSchedule", format!("invalid schedule: {} : {error}", spec.schedule)));
            return (Step::Rest, news);
        }
    };
    let Some(time) = found.time else { return (wait(), news) };
    if found.missed == Missed::Many {
        let message =
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        news.push(warning("TooManyMissedTimes", message));
    }
    let too_late = spec.starting_deadline_seconds.is_some_and(|seconds| {
        time.checked_add(SignedDuration::from_secs(seconds)).is_ok_and(|latest| latest < now)
    });
    if too_late {
        let at = time.strftime("%a, %d %b %Y %H:%M:%S +0000");
        news.push(warning("MissSchedule", format!("Missed scheduled time to start a job: {at}")));
        return (wait(), news);
    }
    let name = job_name(cron, time);
    let begun = active(status).iter().any(|one| one.name.as_ref() == Some(&name))
        || status.last_schedule_time.as_ref().is_some_and(|last| last.0 == time);
    if begun {
        return (wait(), news);
    }
    match spec.concurrency_policy.as_deref() {
        Some("Forbid") if !active(status).is_empty() => {
            let message =
                "Not starting job because prior execution is running and concurrency policy is Forbid";
            news.push(normal("JobAlreadyActive", message));
            (wait(), news)
        }
        Some("Replace") => (Step::Start { time, replace: active(status).to_vec() }, news),
        _ => (Step::Start { time, replace: Vec::new() }, news),
    }
}

/// How long until the next time, once the status is this.
pub(super) fn next(now: Timestamp, cron: &CronJob, status: &CronJobStatus) -> Option<Duration> {
    let schedule = schedule(&cron.spec).ok()?;
    until_next(&CronJob { status: Some(status.clone()), ..cron.clone() }, now, &schedule)
}

/// One name for each minute, so that no time is begun twice.
fn job_name(cron: &CronJob, time: Timestamp) -> String {
    format!("{}-{}", cron.name_any(), time.as_second() / 60)
}

/// The Job that a CronJob begins at a time.
pub(super) fn job(cron: &CronJob, spec: &CronJobSpec, time: Timestamp) -> Job {
    let meta = spec.job_template.metadata.clone().unwrap_or_default();
    let zone = spec.time_zone.as_ref().and_then(|name| koinon_cron::zone(name));
    let local = time.to_zoned(zone.unwrap_or(jiff::tz::TimeZone::UTC));
    let at = match local.offset().is_zero() {
        true => local.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        false => local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
    };
    let mut annotations = meta.annotations.unwrap_or_default();
    annotations.insert(SCHEDULED.into(), at);
    Job {
        metadata: ObjectMeta {
            name: Some(job_name(cron, time)),
            namespace: cron.namespace(),
            labels: meta.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![controller_reference(cron)]),
            ..ObjectMeta::default()
        },
        spec: spec.job_template.spec.clone(),
        status: None,
    }
}

/// Notes that a Job was begun.
pub(super) fn begun(status: &mut CronJobStatus, job: &Job, time: Timestamp) {
    status.active.get_or_insert_default().push(job.object_ref(&()));
    status.last_schedule_time = Some(Time(time));
}
