//! CronJobs: a Job at each time of a schedule.
//!
//! ```text
//! Jobs, CronJobs ─change, time─► queue ─► old Jobs removed ─► observe ─► decide ─► Job ─► status
//! ```
//!
//! It behaves as the controller of a stock cluster does, with the same names, events and status. What is
//! different on purpose:
//! - A schedule without a time zone is in UTC, not in the zone of the machine.
//! - A Job whose owner is of another kind is nobody's, even if the owner has the CronJob's name.

mod act;
mod plan;
#[cfg(test)]
mod tests;
mod times;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};
use koinon_control::call;
use koinon_control::events::Recorder;
use koinon_control::queue::{self, Next, Queue};
use koinon_control::{Clock, Key, View};
use kube::Api;

use self::plan::{News, Step};
use crate::replicasets::keepers::keeper;
use crate::shared::Shared;

/// The name that events come from, as clusters know it.
pub const COMPONENT: &str = "cronjob-controller";

const WORKERS: usize = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1000);

struct Controller {
    shared: Shared,
    events: Recorder,
    crons: Arc<View<CronJob>>,
    queue: Arc<Queue<Key>>,
}

/// Keeps the CronJobs of a cluster for as long as it is polled.
pub async fn run(shared: Shared, events: Recorder) -> Infallible {
    let queue = Arc::new(Queue::new(FIRST_PAUSE, LONGEST_PAUSE));
    let crons = View::new();
    listen(&shared, &crons, &queue);
    let controller =
        Arc::new(Controller { shared: shared.clone(), events, crons: crons.clone(), queue: queue.clone() });
    let work = async {
        shared.jobs.listed().await;
        crons.listed().await;
        queue::work(&queue, WORKERS, |key| controller.clone().handle(key)).await
    };
    tokio::select! {
        biased;
        never = crons.follow(Api::all(shared.client.clone())) => never,
        never = work => never,
    }
}

fn listen(shared: &Shared, crons: &Arc<View<CronJob>>, queue: &Arc<Queue<Key>>) {
    let (wake, clock) = (queue.clone(), shared.clock.clone());
    crons.on_change(move |before, after| {
        let Some(cron) = after.or(before) else { return };
        let pause = match (before, after) {
            (Some(before), Some(after)) => rescheduled(before, after, &clock),
            _ => None,
        };
        wake.add_after(Key::of(&**cron), pause.unwrap_or(Duration::ZERO));
    });
    let wake = queue.clone();
    shared.jobs.on_change(move |before, after| {
        let of = |job: &Arc<Job>| keeper::<CronJob>(&**job);
        let (was, is) = (before.and_then(of), after.and_then(of));
        if was != is {
            was.into_iter().for_each(|key| wake.add(key));
        }
        is.into_iter().for_each(|key| wake.add(key));
    });
}

/// A CronJob with another schedule waits for a time of that schedule: those that passed were never its own.
fn rescheduled(before: &CronJob, after: &CronJob, clock: &Clock) -> Option<Duration> {
    let (before, spec) = (&before.spec, &after.spec);
    if (&before.schedule, &before.time_zone) == (&spec.schedule, &spec.time_zone) {
        return None;
    }
    times::until_next(after, clock.now(), &plan::schedule(spec).ok()?)
}

impl Controller {
    async fn handle(self: Arc<Self>, key: Key) -> Next {
        match self.sync(&key).await {
            Ok(look_again) => {
                if let Some(pause) = look_again {
                    self.queue.add_after(key, pause);
                }
                Next::Done
            }
            Err(error) => {
                tracing::debug!(%key, %error, "cronjobs: will try again");
                Next::Retry
            }
        }
    }

    /// Looks at one CronJob; says when to look again if nothing changes.
    async fn sync(&self, key: &Key) -> Result<Option<Duration>, call::Error> {
        let Some(cron) = self.crons.get(key) else { return Ok(None) };
        let mut status = cron.status.clone().unwrap_or_default();
        let mut jobs = plan::children(&cron, self.shared.jobs.in_namespace(&key.namespace));
        for job in plan::outdated(&cron.spec, &jobs) {
            if self.delete(&cron, &job).await.is_ok() {
                plan::drop_active(&mut status, job.metadata.uid.as_ref());
                jobs.retain(|other| other.metadata.uid != job.metadata.uid);
            }
        }
        let outcome = self.advance(&cron, &jobs, &mut status).await;
        // What was learned and begun is told, whatever failed after it.
        self.write_status(&cron, &status).await?;
        outcome
    }

    async fn advance(
        &self,
        cron: &Arc<CronJob>,
        jobs: &[Arc<Job>],
        status: &mut CronJobStatus,
    ) -> Result<Option<Duration>, call::Error> {
        let (news, missing) = plan::observe(status, jobs);
        self.tell(cron, news);
        for job in missing {
            if self.find(&job).await?.is_none() {
                self.tell(cron, vec![plan::lost(status, &job)]);
            }
        }
        let (step, news) = plan::decide(self.shared.clock.now(), cron, status);
        self.tell(cron, news);
        match step {
            Step::Rest => Ok(None),
            Step::Wait(pause) => Ok(pause),
            Step::Start { time, replace } => {
                for job in replace {
                    self.replace(cron, &job).await?;
                    plan::drop_active(status, job.uid.as_ref());
                }
                self.start(cron, time, status).await?;
                Ok(plan::next(self.shared.clock.now(), cron, status))
            }
        }
    }

    fn tell(&self, cron: &CronJob, news: Vec<News>) {
        for News { weight, reason, message } in news {
            self.events.tell(cron, weight, reason, message);
        }
    }
}
