//! StatefulSets: pods with names, numbers and volumes of their own.
//!
//! ```text
//! pods, StatefulSets ─change─► queue ─► claim ─► revisions ─► plan ─► make, mend or delete pods ─► status
//! ```
//!
//! It behaves as the controller of a stock cluster does, with the same names, labels, events and order of steps. What
//! is different on purpose:
//! - There are no expectations to wait for: every answer goes into the view at once. Pods have names of their own,
//!   so one that was made by a write whose answer was lost is not made twice.
//! - Claims are made with the owners that the retention policy gives them; a stock controller adds them right after.
//! - A claim that goes wakes the sets beside it. A stock controller that waits for a claim of an earlier pod of the
//!   same name may wait until something else happens.
//! - Conditions that somebody else wrote into the status stay there.
//! - While a set is being deleted no revision is made for it.
//! - `maxUnavailable` is obeyed where the server keeps it; stock servers of this release drop it by default.

mod act;
mod claims;
mod identity;
mod plan;
mod revision;
mod status;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use koinon_control::Key;
use koinon_control::call;
use koinon_control::events::Recorder;
use koinon_control::queue::{self, Next, Queue};
use kube::ResourceExt as _;
use kube::core::{Selector, SelectorExt as _};
use serde_json::json;

use self::plan::Look;
use self::revision::Target;
use crate::podcontrol::PodControl;
use crate::replicasets::claim;
use crate::replicasets::keepers;
use crate::replicasets::owned::Owned;
use crate::revisions::{self, Created, History};
use crate::shared::Shared;

/// The name that events come from, as clusters know it.
pub const COMPONENT: &str = "statefulset-controller";

const WORKERS: usize = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1000);

struct Controller {
    shared: Shared,
    events: Recorder,
    queue: Arc<Queue<Key>>,
    pods: PodControl,
    revisions: Arc<Owned<ControllerRevision>>,
    history: History,
}

/// Why a StatefulSet has to be looked at again.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Call(#[from] call::Error),
    #[error(transparent)]
    Adoption(#[from] claim::Error),
    #[error("{0}")]
    Claim(String),
}

/// Keeps the StatefulSets of a cluster for as long as it is polled.
pub async fn run(shared: Shared, events: Recorder) -> Infallible {
    let queue = Arc::new(Queue::new(FIRST_PAUSE, LONGEST_PAUSE));
    let revisions = Owned::of(&shared.revisions);
    listen(&shared, &queue);
    tokio::join!(
        shared.pods.listed(),
        shared.stateful_sets.listed(),
        shared.revisions.listed(),
        shared.claims.listed()
    );
    let controller = Arc::new(Controller {
        pods: PodControl::new(&shared, &events),
        history: History::new(&shared),
        shared,
        events,
        queue: queue.clone(),
        revisions,
    });
    queue::work(&queue, WORKERS, |key| controller.clone().handle(key)).await
}

fn listen(shared: &Shared, queue: &Arc<Queue<Key>>) {
    keepers::listen(&shared.stateful_sets, &shared.pods, queue, selector);
    let (wake, sets) = (queue.clone(), shared.stateful_sets.clone());
    shared.claims.on_change(move |before, after| {
        let (Some(claim), None) = (before, after) else { return };
        for set in sets.in_namespace(&claim.namespace().unwrap_or_default()) {
            wake.add(Key::of(&*set));
        }
    });
}

fn selector(set: &StatefulSet) -> Option<Selector> {
    claim::selector(&set.spec.as_ref()?.selector)
}

/// The revision that a set goes to, and how many names were taken before one was free.
struct Aim {
    update: Arc<ControllerRevision>,
    collisions: i32,
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
                tracing::debug!(%key, %error, "statefulsets: will try again");
                Next::Retry
            }
        }
    }

    /// Looks at one StatefulSet; says when to look again if nothing changes.
    async fn sync(&self, key: &Key) -> Result<Option<Duration>, Error> {
        let Some(set) = self.shared.stateful_sets.get(key) else { return Ok(None) };
        let Some(selector) = selector(&set) else { return Ok(None) };
        let revisions = self.revisions(key, &set, &selector).await?;
        let pods = self.claim_pods(key, &set, &selector).await?;
        let Some(aim) = self.aim(&set, &revisions).await? else { return Ok(None) };
        let current = revision::current(&set, &revisions, &aim.update);
        let find = |name: &str| self.shared.claims.get(&Key::new(&*key.namespace, name));
        let plan = plan::plan(&Look {
            now: self.shared.clock.now(),
            set: &set,
            current: &current,
            update: &aim.update,
            collisions: aim.collisions,
            pods: &pods,
            claim: &find,
        });
        let mut taken = Ok(());
        for stage in &plan.stages {
            taken = self.take(&set, stage).await;
            if taken.is_err() {
                break;
            }
        }
        if let Some(status) = &plan.status {
            self.write_status(&set, status).await?;
        }
        for expired in revision::expired(&set, &revisions, [&current, &aim.update], &pods) {
            self.history.delete(&expired).await?;
        }
        taken.map(|()| plan.look_again)
    }

    /// The revisions of a set, the oldest first, with those that it takes over.
    async fn revisions(
        &self,
        key: &Key,
        set: &StatefulSet,
        selector: &Selector,
    ) -> Result<Vec<Arc<ControllerRevision>>, Error> {
        let claims = || {
            let mut found = self.revisions.by(set.metadata.uid.as_deref().unwrap_or_default());
            found.extend(self.revisions.orphans(&key.namespace));
            let mut claims = claim::decide(&set.metadata, selector, found);
            // One that was labelled otherwise still belongs to the set, and is no longer part of its history.
            claims.release.clear();
            claims
        };
        let mut claimed = claims();
        if !claimed.adopt.is_empty() {
            claim::settle(&self.shared.client, set, &claimed, &self.shared.revisions).await?;
            claimed = claims();
        }
        revisions::sort(&mut claimed.mine);
        Ok(claimed.mine)
    }

    async fn claim_pods(
        &self,
        key: &Key,
        set: &StatefulSet,
        selector: &Selector,
    ) -> Result<Vec<Arc<Pod>>, Error> {
        let claims = || {
            let mut pods = self.shared.owned_pods.by(set.metadata.uid.as_deref().unwrap_or_default());
            pods.extend(self.shared.owned_pods.orphans(&key.namespace));
            let is_ours = |pod: &Pod| selector.matches(pod.labels()) && identity::is_member(set, pod);
            claim::decide_by(&set.metadata, is_ours, pods)
        };
        let claimed = claims();
        if claimed.adopt.is_empty() && claimed.release.is_empty() {
            return Ok(claimed.mine);
        }
        claim::settle(&self.shared.client, set, &claimed, &self.shared.pods).await?;
        // Their versions are others now.
        Ok(claims().mine)
    }

    /// Has the revision of the set's template be the newest one; none while the set is going and has no such.
    async fn aim(&self, set: &StatefulSet, known: &[Arc<ControllerRevision>]) -> Result<Option<Aim>, Error> {
        let mut collisions = set.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
        let target = revision::target(set, known);
        if set.metadata.deletion_timestamp.is_some() && !matches!(target, Target::Known(_)) {
            return Ok(None);
        }
        let update = match target {
            Target::Known(revision) => revision,
            Target::Renumber(revision, number) => {
                self.history.change(&revision, json!({"revision": number})).await?
            }
            Target::Create(number) => loop {
                match self.history.create(&revision::new(set, number, collisions)).await? {
                    Created::There(revision) => break revision,
                    Created::NameTaken => collisions += 1,
                }
            },
        };
        Ok(Some(Aim { update, collisions }))
    }
}
