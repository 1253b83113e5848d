//! When a CronJob is due, and when it has to be looked at again.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::CronJob;
use koinon_cron::Schedule;

/// Clocks may differ by a little: who looks too early would find nothing to do.
const MARGIN: SignedDuration = SignedDuration::from_millis(100);
/// From so many missed times on, users are told.
const MANY: i64 = 100;

/// The last time at which a Job should have begun.
#[derive(Debug, PartialEq)]
pub(super) struct Recent {
    /// What times were looked for since.
    pub(super) since: Timestamp,
    pub(super) time: Option<Timestamp>,
    pub(super) missed: Missed,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Missed {
    None,
    Few,
    Many,
}

/// Whether times before the starting deadline are looked at.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Deadline {
    Counts,
    Ignored,
}

/// A schedule with no two times, such as one for the 31st of February.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("time difference between two schedules is less than 1 second")]
pub(super) struct NoTimes;

/// Finds the last time up to now.
pub(super) fn recent(
    job: &CronJob,
    now: Timestamp,
    schedule: &Schedule,
    deadline: Deadline,
) -> Result<Recent, NoTimes> {
    let since = earliest(job, now, deadline);
    let missed = |time, missed| Ok(Recent { since, time, missed });
    let first = schedule.next(since).ok_or(NoTimes)?;
    if now < first {
        return missed(None, Missed::None);
    }
    let second = schedule.next(first).ok_or(NoTimes)?;
    if now < second {
        return missed(Some(first), Missed::None);
    }
    let between = second.as_second() - first.as_second();
    if between < 1 {
        return Err(NoTimes);
    }
    // How many it were is estimated from the first two. From a little before the estimate on they are looked for,
    // since times need not be evenly spread.
    let count = now.duration_since(first).as_secs() / between + 1;
    let from = first + SignedDuration::from_secs((count - 2) * between);
    let mut last = None;
    let mut next = schedule.next(from);
    while let Some(time) = next.filter(|time| *time <= now) {
        last = Some(time);
        next = schedule.next(time);
    }
    missed(last, if count > MANY { Missed::Many } else { Missed::Few })
}

/// How long until the next time.
pub(super) fn until_next(job: &CronJob, now: Timestamp, schedule: &Schedule) -> Option<Duration> {
    let last = match recent(job, now, schedule, Deadline::Ignored) {
        Ok(Recent { time: Some(time), .. }) => time,
        Ok(Recent { since, missed: Missed::None, .. }) => since,
        Ok(_) | Err(NoTimes) => now,
    };
    let pause = schedule.next(last)?.duration_since(now) + MARGIN;
    Some(Duration::try_from(pause).unwrap_or(Duration::ZERO))
}

fn earliest(job: &CronJob, now: Timestamp, deadline: Deadline) -> Timestamp {
    let last = job.status.as_ref().and_then(|status| status.last_schedule_time.as_ref());
    let since = last.or(job.metadata.creation_timestamp.as_ref()).map_or(now, |time| time.0);
    let seconds = job.spec.starting_deadline_seconds;
    let limit = seconds.filter(|_| deadline == Deadline::Counts);
    let limit = limit.and_then(|seconds| now.checked_sub(SignedDuration::from_secs(seconds)).ok());
    limit.map_or(since, |limit| limit.max(since))
}
