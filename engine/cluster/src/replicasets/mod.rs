//! ReplicaSets and ReplicationControllers: as many pods as they ask for.
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
pub(crate) mod doubt;
pub(crate) mod keepers;
pub(crate) mod kinds;
pub(crate) mod order;
pub(crate) mod owned;
mod plan;
pub(crate) mod pods;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use koinon_control::Key;
use koinon_control::call;
use koinon_control::events::Recorder;
use koinon_control::queue::{self, Next, Queue};
use kube::ResourceExt as _;
use kube::core::SelectorExt as _;

use self::doubt::Doubts;
use self::kinds::Replicating;
use self::owned::controller_of;
use crate::podcontrol::PodControl;
use crate::shared::Shared;

pub(crate) use self::plan::{next_of, pod_of, prefix, to_the_second, unless_zero};

/// The name that events come from, as clusters know it.
pub const COMPONENT: &str = "replicaset-controller";
/// The same for ReplicationControllers.
pub const CONTROLLERS_COMPONENT: &str = <ReplicationController as Replicating>::COMPONENT;

const WORKERS: usize = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1000);

struct Controller<K: Replicating> {
    shared: Shared,
    queue: Arc<Queue<Key>>,
    pods: PodControl,
    doubts: Doubts,
    kind: std::marker::PhantomData<fn() -> K>,
}

/// One object, and the ReplicaSet that is decided over in its place.
struct Seen<K> {
    object: Arc<K>,
    set: Arc<ReplicaSet>,
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
    run_kind::<ReplicaSet>(shared, events).await
}

/// Keeps the ReplicationControllers of a cluster for as long as it is polled.
pub async fn run_controllers(shared: Shared, events: Recorder) -> Infallible {
    run_kind::<ReplicationController>(shared, events).await
}

async fn run_kind<K: Replicating>(shared: Shared, events: Recorder) -> Infallible {
    let queue = Arc::new(Queue::new(FIRST_PAUSE, LONGEST_PAUSE));
    keepers::listen(K::view(&shared), &shared.pods, &queue, K::selector);
    shared.pods.listed().await;
    K::view(&shared).listed().await;
    let controller = Arc::new(Controller::<K> {
        pods: PodControl::new(&shared, &events),
        shared,
        queue: queue.clone(),
        doubts: Doubts::default(),
        kind: std::marker::PhantomData,
    });
    queue::work(&queue, WORKERS, |key| controller.clone().handle(key)).await
}

impl<K: Replicating> Controller<K> {
    async fn handle(self: Arc<Self>, key: Key) -> Next {
        match self.sync(&key).await {
            Ok(look_again) => {
                if let Some(pause) = look_again {
                    self.queue.add_after(key, pause);
                }
                Next::Done
            }
            Err(error) => {
                tracing::debug!(%key, %error, controller = K::COMPONENT, "will try again");
                Next::Retry
            }
        }
    }

    /// Looks at one object; says when to look again if nothing changes.
    async fn sync(&self, key: &Key) -> Result<Option<Duration>, Error> {
        let Some(object) = K::view(&self.shared).get(key) else {
            self.doubts.clear(key);
            return Ok(None);
        };
        let Some(selector) = object.selector() else { return Ok(None) };
        let seen = Seen { set: K::as_set(&object), object };
        let Seen { object, set } = &seen;
        let uid = set.metadata.uid.as_deref().unwrap_or_default();
        self.doubts.resolve(&self.shared, key, uid, &selector).await?;

        let owned = &self.shared.owned_pods;
        let mut pods = owned.by(uid);
        pods.extend(owned.orphans(&key.namespace));
        let plan = plan::plan(self.shared.clock.now(), set, &selector, pods, || self.related(key, set));
        claim::settle(&self.shared.client, &**object, &plan.claims, &self.shared.pods).await?;
        let failure = self.change(key, &seen, &plan.change).await;

        let (now, pods) = (self.shared.clock.now(), owned.by(uid));
        let status = plan::status(now, set, &selector, &pods, K::TERMINATING, failure.as_ref());
        if let Some(status) = status {
            self.write_status(object, &status).await?;
        }
        match failure {
            Some(failure) => Err(Error::Change(failure.message)),
            None => Ok(plan::next_availability(now, set, &pods)),
        }
    }

    /// The pods of all ReplicaSets that share an owner with this one.
    fn related(&self, key: &Key, set: &ReplicaSet) -> Vec<Arc<Pod>> {
        let Some(owner) = controller_of(set) else { return Vec::new() };
        let sets = K::view(&self.shared).in_namespace(&key.namespace);
        let selectors: Vec<_> = sets
            .iter()
            .filter(|other| controller_of(&***other).is_some_and(|other| other.uid == owner.uid))
            .filter_map(|other| other.selector())
            .collect();
        let mut pods = self.shared.pods.in_namespace(&key.namespace);
        pods.retain(|pod| selectors.iter().any(|selector| selector.matches(pod.labels())));
        pods
    }
}
