//! Jobs: pods that run to their end, so many at a time, until enough have succeeded or too many have failed.
//!
//! ```text
//! pods, Jobs ─change─► queue ─► claim ─► plan ─► make or delete pods ─► tracking ─► status, finalizers, status
//! pods that lost their Job, or whose Job is over ──────► orphans ─► finalizers off
//! ```
//!
//! It behaves as the controller of a stock cluster does, with the same conditions, events, pauses and order of
//! steps. What is different on purpose:
//! - There are no expectations to wait for: every answer goes into the view at once. Where an answer was lost,
//!   the server is asked before anything is made again.
//! - A status that changed under us is tried again from the start.
//! - Jobs are not tied to Workloads and PodGroups, which are an alpha feature of stock clusters.

mod act;
mod backoff;
mod conditions;
mod facts;
mod indexes;
mod orphans;
mod plan;
mod policy;
mod removal;
mod template;
#[cfg(test)]
mod tests;
mod tracking;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use koinon_control::call;
use koinon_control::events::{Recorder, Weight};
use koinon_control::queue::{self, Next, Queue};
use koinon_control::{Key, View};
use parking_lot::Mutex;

use self::backoff::Backoff;
pub(crate) use self::facts::finished;
use self::facts::{FINALIZER, manager};
use self::plan::{BATCH, Plan};
use self::tracking::News;
use crate::replicasets::claim;
use crate::replicasets::doubt::Doubts;
use crate::replicasets::keepers;
use crate::shared::Shared;

/// The name that events come from, as clusters know it.
pub const COMPONENT: &str = "job-controller";

const WORKERS: usize = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

struct Controller {
    shared: Shared,
    events: Recorder,
    queue: Arc<Queue<Key>>,
    doubts: Doubts,
    backoffs: Mutex<BTreeMap<Key, Backoff>>,
}

/// Why a Job has to be looked at again.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Call(#[from] call::Error),
    #[error(transparent)]
    Claim(#[from] claim::Error),
}

/// Keeps the Jobs of a cluster for as long as it is polled.
pub async fn run(shared: Shared, events: Recorder) -> Infallible {
    let queue = Arc::new(Queue::new(FIRST_PAUSE, LONGEST_PAUSE));
    listen(&shared, &queue);
    let orphans = Arc::new(Queue::new(FIRST_PAUSE, LONGEST_PAUSE));
    orphans::listen(&shared, &orphans);
    shared.pods.listed().await;
    shared.jobs.listed().await;
    let controller = Arc::new(Controller {
        shared,
        events,
        queue: queue.clone(),
        doubts: Doubts::default(),
        backoffs: Mutex::default(),
    });
    tokio::select! {
        biased;
        never = queue::work(&queue, WORKERS, |key| controller.clone().handle(key)) => never,
        never = queue::work(&orphans, WORKERS, |key| controller.clone().free(key)) => never,
    }
}

/// Has every Job looked at that a change may concern: at once if what it asks for changed, or else after a while
/// in which more may change.
fn listen(shared: &Shared, queue: &Arc<Queue<Key>>) {
    let wake = queue.clone();
    shared.jobs.on_change(move |before, after| {
        let Some(job) = after.or(before) else { return };
        let generation = |job: &Arc<Job>| job.metadata.generation;
        match (before, after) {
            (Some(before), Some(after)) if generation(before) == generation(after) => {
                wake.add_after(Key::of(&**job), BATCH);
            }
            _ => wake.add(Key::of(&**job)),
        }
    });
    let wake = queue.clone();
    keepers::follow(&shared.jobs, &shared.pods, selector, move |key| wake.add_after(key, BATCH));
}

fn selector(job: &Job) -> Option<kube::core::Selector> {
    claim::selector(job.spec.as_ref()?.selector.as_ref()?)
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
                tracing::debug!(%key, %error, "jobs: will try again");
                Next::Retry
            }
        }
    }

    /// Looks at one Job; says when to look again if nothing changes.
    async fn sync(&self, key: &Key) -> Result<Option<Duration>, Error> {
        let job = self.shared.jobs.get(key).filter(|job| manager(job).is_none());
        let Some(job) = job.filter(|job| finished(job).is_none()) else {
            self.doubts.clear(key);
            self.backoffs.lock().remove(key);
            return Ok(None);
        };
        let mode = job.spec.as_ref().and_then(|spec| spec.completion_mode.as_deref());
        if !matches!(mode, None | Some("NonIndexed" | "Indexed")) {
            let message = "Skipped Job sync because completion mode is unknown";
            self.events.tell(&*job, Weight::Warning, "UnknownCompletionMode", message);
            return Ok(None);
        }
        let Some(selector) = selector(&job) else { return Ok(None) };
        let uid = job.metadata.uid.as_deref().unwrap_or_default();
        self.doubts.resolve(&self.shared, key, uid, &selector).await?;
        let owned = &self.shared.owned_pods;
        let pods = || {
            let mut pods = owned.by(uid);
            pods.extend(owned.orphans(&key.namespace));
            claim::decide(&job.metadata, &selector, pods)
        };
        let mut claims = pods();
        if !(claims.adopt.is_empty() && claims.release.is_empty()) {
            let view: &View<Pod> = &self.shared.pods;
            claim::settle_held(&self.shared.client, &*job, &claims, view, Some(FINALIZER)).await?;
            // They are held now.
            claims = pods();
        }
        let remembered = self.backoffs.lock().get(key).cloned().unwrap_or_default();
        let Plan { draft, change, look_again } =
            plan::plan(self.shared.clock.now(), &job, claims.mine, &remembered);
        let backoff = draft.backoff.clone();
        let (outcome, failure) = self.change(key, &job, &change).await;
        let mut tracking = tracking::track(self.shared.clock.now(), draft, &change, &outcome);
        let written = self.write_status(&job, &tracking.status).await?;
        if !Arc::ptr_eq(&written, &job) {
            self.backoffs.lock().insert(key.clone(), backoff);
        }
        let (released, held) = self.let_go_all(&tracking.release).await;
        tracking.released(self.shared.clock.now(), &released);
        self.write_status(&written, &tracking.status).await?;
        for News { weight, reason, message } in tracking.news {
            self.events.tell(&*job, weight, &reason, message);
        }
        held.or(failure).map_or(Ok(look_again), |failure| Err(failure.into()))
    }
}
