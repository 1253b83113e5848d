//! `batch`: jobs and what starts them by the clock.

mod cronjob;
mod job;
mod job_policies;
mod job_status;
mod job_update;

use crate::kinds::Strategy;

pub(super) fn strategy(kind: &str) -> Option<&'static Strategy> {
    match kind {
        "Job" => Some(&job::STRATEGY),
        "CronJob" => Some(&cronjob::STRATEGY),
        _ => None,
    }
}
