//! ReplicaSets: as many pods as they ask for.
//!
//! ```text
//! pods, ReplicaSets ─change─► queue ─► claim ─► plan ─► make or delete pods ─► status
//! ```
//!
//! It behaves as the controller of a stock cluster does, with the same events, conditions and order of
//! deletion. What is different on purpose:
//! - There are no expectations to wait for: every answer goes into the view at once. Where an answer was
//!   lost, the server is asked before anything is made again (`doubt`).
//! - A status that changed under us is tried again from the start, not written over what is there now.
//! - Pods are deleted only as the very ones that were seen, by uid.

mod act;
pub(crate) mod claim;
mod doubt;
pub(crate) mod keepers;
mod order;
pub(crate) mod owned;
mod plan;
pub(crate) mod pods;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use koinon_control::Key;
use koinon_control::call;
use koinon_control::events::Recorder;
use koinon_control::queue::{self, Next, Queue};
use kube::ResourceExt as _;
use kube::core::SelectorExt as _;

use self::doubt::Doubts;
use self::owned::{Owned, controller_of};
use crate::shared::Shared;

pub(crate) use self::act::is_namespace_terminating;
pub(crate) use self::plan::{to_the_second, unless_zero};

/// The name that events come from, as clusters know it.
pub const COMPONENT: &str = "replicaset-controller";

const WORKERS: usize = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1000);

struct Controller {
    shared: Shared,
    events: Recorder,
    queue: Arc<Queue<Key>>,
    pods: Arc<Owned<Pod>>,
    doubts: Doubts,
}

/// Why a ReplicaSet has to be looked at again.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Call(#[from] call::Error),
    #[error(transparent)]
    Claim(#[from] claim::Error),
    #[error("{0}")]
    Change(String),
}

/// Keeps the ReplicaSets of a cluster for as long as it is polled.
pub async fn run(shared: Shared, events: Recorder) -> Infallible {
    let queue = Arc::new(Queue::new(FIRST_PAUSE, LONGEST_PAUSE));
    let pods = keepers::listen(&shared.replica_sets, &shared.pods, &queue, selector);
    shared.pods.listed().await;
    shared.replica_sets.listed().await;
    let controller =
        Arc::new(Controller { shared, events, queue: queue.clone(), pods, doubts: Doubts::default() });
    queue::work(&queue, WORKERS, |key| controller.clone().handle(key)).await
}

fn selector(set: &ReplicaSet) -> Option<kube::core::Selector> {
    claim::selector(&set.spec.as_ref()?.selector)
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
                tracing::debug!(%key, %error, "replicasets: will try again");
                Next::Retry
            }
        }
    }

    /// Looks at one ReplicaSet; says when to look again if nothing changes.
    async fn sync(&self, key: &Key) -> Result<Option<Duration>, Error> {
        let Some(set) = self.shared.replica_sets.get(key) else {
            self.doubts.clear(key);
            return Ok(None);
        };
        let Some(selector) = selector(&set) else { return Ok(None) };
        let uid = set.metadata.uid.as_deref().unwrap_or_default();
        self.resolve(key, &set, &selector).await?;

        let mut pods = self.pods.by(uid);
        pods.extend(self.pods.orphans(&key.namespace));
        let plan = plan::plan(self.shared.clock.now(), &set, &selector, pods, || self.related(key, &set));
        claim::settle(&self.shared.client, &*set, &plan.claims, &self.shared.pods).await?;
        let failure = self.change(key, &set, &plan.change).await;

        let (now, pods) = (self.shared.clock.now(), self.pods.by(uid));
        if let Some(status) = plan::status(now, &set, &selector, &pods, failure.as_ref()) {
            self.write_status(&set, &status).await?;
        }
        match failure {
            Some(failure) => Err(Error::Change(failure.message)),
            None => Ok(plan::next_availability(now, &set, &pods)),
        }
    }

    /// The pods of all ReplicaSets that share an owner with this one.
    fn related(&self, key: &Key, set: &ReplicaSet) -> Vec<Arc<Pod>> {
        let Some(owner) = controller_of(set) else { return Vec::new() };
        let sets = self.shared.replica_sets.in_namespace(&key.namespace);
        let selectors: Vec<_> = sets
            .iter()
            .filter(|other| controller_of(&***other).is_some_and(|other| other.uid == owner.uid))
            .filter_map(|other| selector(other))
            .collect();
        let mut pods = self.shared.pods.in_namespace(&key.namespace);
        pods.retain(|pod| selectors.iter().any(|selector| selector.matches(pod.labels())));
        pods
    }
}
