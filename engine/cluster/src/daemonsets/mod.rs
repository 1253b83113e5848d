//! DaemonSets: one pod on each node that they belong on.
//!
//! ```text
//! nodes, pods, DaemonSets ─change─► queue ─► claim ─► revisions ─► plan ─► make or delete pods ─► status
//! ```
//!
//! It behaves as the controller of a stock cluster does: pods are aimed at their node by affinity and brought there by
//! the scheduler. What is different on purpose:
//! - There are no expectations to wait for: every answer goes into the view at once. Where an answer was lost, the
//!   server is asked before anything is made again.
//! - Nodes are gone through by name, so that the order of an update can be told beforehand.
//! - The hash of a template is taken over its JSON, as for Deployments: names of revisions have the same form as in a
//!   stock cluster, but not the same letters. A revision that a stock cluster made is found by its template.
//! - A node that goes is noticed at once, not with the next change of something else.

mod act;
mod backoff;
mod fit;
mod history;
mod limits;
mod plan;
mod rollout;
mod status;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use koinon_control::Key;
use koinon_control::call;
use koinon_control::events::{Recorder, Weight};
use koinon_control::queue::{self, Next, Queue};
use kube::core::Selector;
use kube::{Resource, ResourceExt as _};

use self::backoff::Backoff;
use self::history::Sorted;
use self::plan::Look;
use crate::podcontrol::PodControl;
use crate::replicasets::claim::{self, Claims};
use crate::replicasets::doubt::Doubts;
use crate::replicasets::keepers;
use crate::replicasets::owned::Owned;
use crate::revisions::History;
use crate::shared::Shared;

/// The name that events come from, as clusters know it.
pub const COMPONENT: &str = "daemonset-controller";

const WORKERS: usize = 2;
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1000);

struct Controller {
    shared: Shared,
    events: Recorder,
    queue: Arc<Queue<Key>>,
    pods: PodControl,
    doubts: Doubts,
    revisions: Arc<Owned<ControllerRevision>>,
    history: History,
    backoff: Backoff,
}

/// Why a DaemonSet has to be looked at again.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Call(#[from] call::Error),
    #[error(transparent)]
    Claim(#[from] claim::Error),
    #[error("{0}")]
    Change(String),
}

/// Keeps the DaemonSets of a cluster for as long as it is polled.
pub async fn run(shared: Shared, events: Recorder) -> Infallible {
    let queue = Arc::new(Queue::new(FIRST_PAUSE, LONGEST_PAUSE));
    let revisions = Owned::of(&shared.revisions);
    listen(&shared, &queue);
    tokio::join!(
        shared.pods.listed(),
        shared.nodes.listed(),
        shared.daemon_sets.listed(),
        shared.revisions.listed()
    );
    let controller = Arc::new(Controller {
        pods: PodControl::new(&shared, &events),
        history: History::new(&shared),
        shared,
        events,
        queue: queue.clone(),
        doubts: Doubts::default(),
        revisions,
        backoff: Backoff::default(),
    });
    queue::work(&queue, WORKERS, |key| controller.clone().handle(key)).await
}

fn listen(shared: &Shared, queue: &Arc<Queue<Key>>) {
    keepers::listen(&shared.daemon_sets, &shared.pods, queue, selector);
    keepers::listen(&shared.daemon_sets, &shared.revisions, queue, selector);
    let (wake, sets) = (queue.clone(), shared.daemon_sets.clone());
    shared.nodes.on_change(move |before, after| {
        if let (Some(before), Some(after)) = (before, after)
            && shows(before) == shows(after)
        {
            return;
        }
        sets.all().iter().for_each(|set| wake.add(Key::of(&**set)));
    });
}

/// What of a node decides who runs there.
fn shows(node: &Node) -> impl PartialEq + '_ {
    (node.labels(), node.spec.as_ref().and_then(|spec| spec.taints.as_ref()), &node.metadata.uid)
}

fn selector(set: &DaemonSet) -> Option<Selector> {
    claim::selector(&set.spec.as_ref()?.selector)
}

impl Controller {
    async fn handle(self: Arc<Self>, key: Key) -> Next {
        // Boxed: it is large, and workers are many.
        match Box::pin(self.sync(&key)).await {
            Ok(look_again) => {
                if let Some(pause) = look_again {
                    self.queue.add_after(key, pause);
                }
                Next::Done
            }
            Err(error) => {
                tracing::debug!(%key, %error, "daemonsets: will try again");
                Next::Retry
            }
        }
    }

    /// Looks at one DaemonSet; says when to look again if nothing changes.
    async fn sync(&self, key: &Key) -> Result<Option<Duration>, Error> {
        let Some(set) = self.shared.daemon_sets.get(key) else {
            self.doubts.clear(key);
            let known = self.shared.daemon_sets.all();
            self.backoff.keep(|uid| known.iter().any(|set| set.metadata.uid.as_deref() == Some(uid)));
            return Ok(None);
        };
        let Some(selector) = selector(&set) else {
            let message = "This daemon set is selecting all pods. A non-empty selector is required.";
            self.events.tell(&*set, Weight::Warning, "SelectingAll", message);
            return Ok(None);
        };
        // Its revisions may be gone or orphaned already: nothing of it can be told any more.
        if set.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let uid = set.metadata.uid.as_deref().unwrap_or_default();
        self.doubts.resolve(&self.shared, key, uid, &selector).await?;
        let mut pods = self.claimed_pods(key, &set, &selector).await?;
        let sorted = Sorted::of(&set, self.claimed_revisions(key, &set, &selector).await?);
        let current = self.current(&set, &sorted, &pods).await?;
        // Their labels may be others now.
        pods = self.pods_of(key, &set, &selector).mine;

        let generation = set.status.as_ref().and_then(|status| status.observed_generation).unwrap_or(0);
        let (resting, rest) = self.backoff.resting(uid, generation);
        let nodes = self.shared.nodes.all();
        let hash = history::hash(&current);
        let now = self.shared.clock.now();
        let plan = plan::plan(&Look { now, set: &set, hash, nodes: &nodes, pods: &pods, resting: &resting });
        let changed = self.change(key, &set, hash, &plan).await;
        if changed.is_ok() {
            for expired in history::expired(&set, sorted.old, &pods) {
                self.history.delete(&expired).await?;
            }
        }
        let pods = self.pods_of(key, &set, &selector).mine;
        let look = Look { now, set: &set, hash, nodes: &nodes, pods: &pods, resting: &resting };
        if let Some(status) = status::status(&look) {
            self.write_status(&set, &status).await?;
        }
        changed.map(|()| [status::look_again(&look), rest].into_iter().flatten().min())
    }

    fn pods_of(&self, key: &Key, set: &DaemonSet, selector: &Selector) -> Claims<Pod> {
        claims_on(&self.shared.owned_pods, key, set, selector)
    }

    async fn claimed_pods(
        &self,
        key: &Key,
        set: &DaemonSet,
        selector: &Selector,
    ) -> Result<Vec<Arc<Pod>>, Error> {
        let claims = self.pods_of(key, set, selector);
        claim::settle(&self.shared.client, set, &claims, &self.shared.pods).await?;
        // Their versions may be others now.
        Ok(self.pods_of(key, set, selector).mine)
    }

    async fn claimed_revisions(
        &self,
        key: &Key,
        set: &DaemonSet,
        selector: &Selector,
    ) -> Result<Vec<Arc<ControllerRevision>>, Error> {
        let claims = claims_on(&self.revisions, key, set, selector);
        claim::settle(&self.shared.client, set, &claims, &self.shared.revisions).await?;
        Ok(claims_on(&self.revisions, key, set, selector).mine)
    }
}

fn claims_on<K>(owned: &Owned<K>, key: &Key, set: &DaemonSet, selector: &Selector) -> Claims<K>
where
    K: Resource,
{
    let mut objects = owned.by(set.metadata.uid.as_deref().unwrap_or_default());
    objects.extend(owned.orphans(&key.namespace));
    claim::decide(&set.metadata, selector, objects)
}
