//! Deployments: one ReplicaSet for each template, and a rollout from the old ones to the new one.
//!
//! ```text
//! Deployments, ReplicaSets ─change─► queue ─► claim ─► plan ─► make, scale or delete sets ─► status
//! ```
//!
//! It behaves as the controller of a stock cluster does, with the same annotations, conditions, events and
//! order of steps. What is different on purpose:
//! - The hash of a template is taken over its JSON, not over a dump of Go's memory: the names of sets have
//!   the same form, but not the same letters. A set that a stock cluster named is found by its template.
//! - What a stock controller writes one after the other about one set or one status is written at once.
//! - The size that a Deployment was scaled to is always noted on its sets, also where none of them changes:
//!   one was scaled to it by hand, or there are several and the strategy became `Recreate` amid a rollout.
//!   A stock controller does not note it then, and from then on never rolls out.
//! - Available pods beyond the size of their set are on their way out, and no longer count when it is decided
//!   how many others may go. A stock controller counts them until their set has told that they are gone.
//! - A complete Deployment of which a pod fails later is not looked at over and over.
//! - Failures are tried again for as long as they last, not fifteen times.
//! - The annotation that stood for `rollbackTo` in API versions long gone is not obeyed.

mod act;
mod conditions;
mod draft;
mod limits;
mod plan;
mod revision;
mod rollout;
mod scaling;
mod sets;
mod status;
pub(crate) mod template;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use koinon_control::Key;
use koinon_control::call;
use koinon_control::events::Recorder;
use koinon_control::queue::{self, Next, Queue};

use self::act::Flow;
use self::limits::{Limits, Strategy};
use crate::replicasets::claim;
use crate::replicasets::keepers::{self, keeper};
use crate::replicasets::owned::{Owned, controller_of};
use crate::replicasets::pods::is_terminal;
use crate::shared::Shared;

/// The name that events come from, as clusters know it.
pub const COMPONENT: &str = "deployment-controller";

const WORKERS: usize = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1000);

struct Controller {
    shared: Shared,
    events: Recorder,
    queue: Arc<Queue<Key>>,
    sets: Arc<Owned<ReplicaSet>>,
}

/// Why a Deployment has to be looked at again.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Call(#[from] call::Error),
    #[error(transparent)]
    Claim(#[from] claim::Error),
}

/// Keeps the Deployments of a cluster for as long as it is polled.
pub async fn run(shared: Shared, events: Recorder) -> Infallible {
    let queue = Arc::new(Queue::new(FIRST_PAUSE, LONGEST_PAUSE));
    let sets = listen(&shared, &queue);
    shared.deployments.listed().await;
    shared.replica_sets.listed().await;
    shared.pods.listed().await;
    let controller = Arc::new(Controller { shared, events, queue: queue.clone(), sets });
    queue::work(&queue, WORKERS, |key| controller.clone().handle(key)).await
}

/// Has every Deployment looked at that a change may concern; gives which sets belong to whom.
fn listen(shared: &Shared, queue: &Arc<Queue<Key>>) -> Arc<Owned<ReplicaSet>> {
    let owned = Owned::of(&shared.replica_sets);
    keepers::listen(&shared.deployments, &shared.replica_sets, queue, selector);
    // What recreates its pods waits for the last one to go, which no ReplicaSet counts any more.
    let (wake, sets) = (queue.clone(), shared.replica_sets.clone());
    shared.pods.on_change(move |before, after| {
        let (Some(pod), None) = (before, after) else { return };
        let set = keeper::<ReplicaSet>(&**pod).and_then(|set| sets.get(&set));
        if let Some(key) = set.and_then(|set| keeper::<Deployment>(&*set)) {
            wake.add(key);
        }
    });
    owned
}

fn selector(deployment: &Deployment) -> Option<kube::core::Selector> {
    claim::selector(&deployment.spec.as_ref()?.selector)
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
                tracing::debug!(%key, %error, "deployments: will try again");
                Next::Retry
            }
        }
    }

    /// Looks at one Deployment; says when to look again if nothing changes.
    async fn sync(&self, key: &Key) -> Result<Option<Duration>, Error> {
        let Some(deployment) = self.shared.deployments.get(key) else { return Ok(None) };
        let Some(selector) = selector(&deployment) else { return Ok(None) };
        let sets = || {
            let uid = deployment.metadata.uid.as_deref().unwrap_or_default();
            let mut sets = self.sets.by(uid);
            sets.extend(self.sets.orphans(&key.namespace));
            claim::decide(&deployment.metadata, &selector, sets)
        };
        let mut claims = sets();
        if !(claims.adopt.is_empty() && claims.release.is_empty()) {
            claim::settle(&self.shared.client, &*deployment, &claims, &self.shared.replica_sets).await?;
            // Their versions are others now.
            claims = sets();
        }
        let running = self.running(key, &deployment);
        let plan = plan::plan(self.shared.clock.now(), &deployment, claims.mine, &running);
        for step in &plan.steps {
            tracing::debug!(%key, why = step.why(), "deployments: {}", step.message().unwrap_or_default());
            if self.take(&deployment, step).await? == Flow::Stop {
                return Ok(None);
            }
        }
        if plan.status.is_some() || plan.revision.is_some() {
            let status = plan.status.or_else(|| deployment.status.clone()).unwrap_or_default();
            self.write_status(&deployment, &status, plan.revision.as_deref()).await?;
        }
        Ok(plan.look_again)
    }

    /// Pods that have not ended, by the uid of their set; counted only for those who wait for them.
    fn running(&self, key: &Key, deployment: &Deployment) -> BTreeMap<String, usize> {
        let mut running = BTreeMap::new();
        if Limits::of(deployment).strategy == Strategy::Recreate {
            for pod in self.shared.pods.in_namespace(&key.namespace) {
                if let Some(owner) = controller_of(&*pod).filter(|_| !is_terminal(&pod)) {
                    *running.entry(owner.uid.clone()).or_default() += 1;
                }
            }
        }
        running
    }
}
