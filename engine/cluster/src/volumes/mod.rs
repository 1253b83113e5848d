//! Volumes: claims are bound to volumes, and neither goes while it is used.
//!
//! ```text
//! claims, volumes, classes, pods ─change─► queue ─┬► claim::plan  ─► bind, provision, wait
//!                                                 ├► volume::plan ─► free, release, reclaim
//!                                                 └► protection   ─► finalizers
//! ```
//!
//! Binding, reclaiming and protection are those of a stock cluster. What is different on purpose:
//! - A simulated cluster has a provisioner of its own, `sim.koinon.dev`, and offers a default class for it. Its volumes
//!   are there as soon as they are asked for, and hold nothing.
//! - A claim that waits for its first consumer is bound when a pod that uses it is on a node: the scheduler does not
//!   look at volumes.
//! - Nothing is looked at again every 15 seconds: a claim without a volume is looked at when a volume or a class comes.
//! - Recycling is over at once.

mod act;
mod claim;
mod matching;
mod protection;
mod provision;
#[cfg(test)]
mod tests;
mod volume;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttributesClass};
use koinon_control::Key;
use koinon_control::call::{Error, within_deadline};
use koinon_control::events::{Recorder, Weight};
use koinon_control::queue::{self, Next, Queue};
use kube::api::{ListParams, PostParams};
use kube::{Api, Resource, ResourceExt as _};
use serde_json::json;

use self::act::Part;
use self::protection::Guard;
use crate::MANAGER;
use crate::shared::Shared;

pub use self::provision::{CLASS, PROVISIONER};

/// The name that events come from, as clusters know it.
pub const COMPONENT: &str = "persistentvolume-controller";

const WORKERS: usize = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1000);

/// What is worked on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Claim(Key),
    Volume(String),
    Attributes(String),
}

struct Controller {
    shared: Shared,
    events: Recorder,
    queue: Arc<Queue<Subject>>,
}

/// Keeps the volumes of a cluster for as long as it is polled.
pub async fn run(shared: Shared, events: Recorder) -> Infallible {
    let queue = Arc::new(Queue::new(FIRST_PAUSE, LONGEST_PAUSE));
    let controller = Arc::new(Controller { shared, events, queue: queue.clone() });
    controller.listen();
    let shared = &controller.shared;
    // Classes of attributes are looked at only where there is one, which then wakes its own work.
    tokio::join!(
        shared.pods.listed(),
        shared.claims.listed(),
        shared.volumes.listed(),
        shared.storage_classes.listed()
    );
    queue::work(&queue, WORKERS, |subject| controller.clone().handle(subject)).await
}

/// Has the cluster offer the class of simulated volumes, as long as it takes.
pub async fn offer_class(shared: &Shared) {
    let api: Api<StorageClass> = Api::all(shared.client.clone());
    let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
    let mut pause = FIRST_PAUSE;
    loop {
        match within_deadline(api.create(&params, &provision::own_class())).await {
            Ok(_) => return,
            Err(error) if error.is_conflict() => return,
            Err(error) => tracing::debug!(%error, "volumes: the class is not there yet"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

impl Controller {
    fn listen(self: &Arc<Self>) {
        let wake = self.queue.clone();
        self.shared.claims.on_change(move |before, after| {
            let Some(claim) = after.or(before) else { return };
            wake.add(Subject::Claim(Key::of(&**claim)));
            if let Some(volume) = claim::volume_name(claim) {
                wake.add(Subject::Volume(volume.to_owned()));
            }
            if after.is_none() {
                // It may have been bound without knowing it.
                wake.add(Subject::Volume(provision::volume_name(claim)));
            }
            let names = before.into_iter().chain(after).flat_map(|one| protection::attributes_of_claim(one));
            names.for_each(|name| wake.add(Subject::Attributes(name)));
        });
        let (wake, claims) = (self.queue.clone(), self.shared.claims.clone());
        self.shared.volumes.on_change(move |before, after| {
            let Some(volume) = after.or(before) else { return };
            wake.add(Subject::Volume(volume.name_any()));
            let named =
                before.into_iter().chain(after).filter_map(|one| protection::attributes_of_volume(one));
            named.for_each(|name| wake.add(Subject::Attributes(name)));
            wake_unbound(&wake, &claims.all(), Some(volume));
        });
        let (wake, claims) = (self.queue.clone(), self.shared.claims.clone());
        self.shared.storage_classes.on_change(move |_, _| wake_unbound(&wake, &claims.all(), None));
        let wake = self.queue.clone();
        self.shared.attributes_classes.on_change(move |before, after| {
            if let Some(class) = after.or(before) {
                wake.add(Subject::Attributes(class.name_any()));
            }
        });
        // A pod that came to its node, or went, may be what a claim waits for.
        let wake = self.queue.clone();
        self.shared.pods.on_change(move |before, after| {
            let node = |pod: &Arc<Pod>| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            if before.and_then(node) == after.and_then(node) && before.is_some() && after.is_some() {
                return;
            }
            let Some(pod) = after.or(before) else { return };
            let namespace = pod.namespace().unwrap_or_default();
            for name in protection::claim_names(pod) {
                wake.add(Subject::Claim(Key::new(&*namespace, &*name)));
            }
        });
    }

    async fn handle(self: Arc<Self>, subject: Subject) -> Next {
        // Boxed: they are large, and workers are many.
        let done = match &subject {
            Subject::Claim(key) => Box::pin(self.look_at_claim(key)).await,
            Subject::Volume(name) => Box::pin(self.look_at_volume(name)).await,
            Subject::Attributes(name) => Box::pin(self.look_at_attributes(name)).await,
        };
        match done {
            Ok(()) => Next::Done,
            Err(error) if error.is_object_absent() => Next::Done,
            Err(error) => {
                tracing::debug!(?subject, %error, "volumes: will try again");
                Next::Retry
            }
        }
    }

    async fn look_at_claim(&self, key: &Key) -> Result<(), Error> {
        let Some(claim) = self.shared.claims.get(key) else { return Ok(()) };
        match protection::guard(&*claim, protection::CLAIM) {
            Guard::AsItShouldBe => {}
            Guard::Add => {
                let api = self.claims(&key.namespace);
                let finalizers = with(&*claim, protection::CLAIM);
                return self.set_finalizers(&api, &self.shared.claims, &claim, finalizers).await;
            }
            Guard::RemoveIfUnused => {
                if !self.is_held(&claim).await? {
                    let api = self.claims(&key.namespace);
                    let finalizers = without(&*claim, protection::CLAIM);
                    return self.set_finalizers(&api, &self.shared.claims, &claim, finalizers).await;
                }
            }
        }
        let pods: Vec<Arc<Pod>> = self.shared.pods.in_namespace(&key.namespace);
        let users = pods.iter().filter(|pod| protection::uses(pod, &claim));
        let (placed, waiting): (Vec<_>, Vec<_>) =
            users.partition(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()));
        let (volumes, classes) = (self.shared.volumes.all(), self.shared.storage_classes.all());
        let step = claim::plan(&claim::Look {
            claim: &claim,
            volumes: &volumes,
            classes: &classes,
            node: placed.first().and_then(|pod| pod.spec.as_ref()?.node_name.clone()),
            waiting: waiting.iter().map(|pod| pod.name_any()).collect(),
        });
        Box::pin(self.take_for_claim(&claim, step)).await
    }

    async fn take_for_claim(&self, claim: &PersistentVolumeClaim, step: claim::Step) -> Result<(), Error> {
        use claim::Step;
        match step {
            Step::Bind(volume) => Box::pin(self.bind(&volume, claim)).await,
            Step::Pending(notice) => self.tell_unbound(claim, "Pending", notice.as_ref()).await,
            Step::Lost(notice) => {
                // What the view does not show may be there all the same.
                if let Some(name) = claim::volume_name(claim)
                    && let Some(volume) = absent_is_none(within_deadline(self.volumes().get(name)).await)?
                    && volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()?.uid.as_ref())
                        == claim.metadata.uid.as_ref()
                {
                    self.shared.volumes.learn(volume);
                    return Ok(());
                }
                self.tell_unbound(claim, "Lost", Some(&notice)).await
            }
            Step::SetClass(class) => {
                let patch = json!({"spec": {"storageClassName": class}});
                self.write_claim(claim, Part::Object, patch).await.map(drop)
            }
            Step::SelectNode(node) => {
                let patch = json!({"metadata": {"annotations": {claim::SELECTED_NODE: node}}});
                self.write_claim(claim, Part::Object, patch).await.map(drop)
            }
            Step::Provision(volume) => self.provision(claim, &volume).await,
            Step::Await { provisioner } => self.await_provisioner(claim, &provisioner).await,
        }
    }

    async fn look_at_volume(&self, name: &str) -> Result<(), Error> {
        use volume::Step;
        let Some(volume) = self.shared.volumes.get(&Key::new("", name)) else { return Ok(()) };
        match protection::guard(&*volume, protection::VOLUME) {
            Guard::AsItShouldBe => {}
            Guard::Add => {
                let finalizers = with(&*volume, protection::VOLUME);
                return self.set_finalizers(&self.volumes(), &self.shared.volumes, &volume, finalizers).await;
            }
            Guard::RemoveIfUnused if !protection::is_volume_used(&volume) => {
                let finalizers = without(&*volume, protection::VOLUME);
                return self.set_finalizers(&self.volumes(), &self.shared.volumes, &volume, finalizers).await;
            }
            Guard::RemoveIfUnused => {}
        }
        let key = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()).map(|reference| {
            Key::new(
                reference.namespace.as_deref().unwrap_or_default(),
                reference.name.as_deref().unwrap_or_default(),
            )
        });
        let mut claim = key.as_ref().and_then(|key| self.shared.claims.get(key));
        if let (Step::Release(_), Some(key)) = (volume::plan(&volume, claim.as_deref()), &key) {
            // A claim that is not in the view may be there all the same: the volume would be lost.
            let api = self.claims::<PersistentVolumeClaim>(&key.namespace);
            claim = absent_is_none(within_deadline(api.get(&key.name)).await)?.map(Arc::new);
        }
        match volume::plan(&volume, claim.as_deref()) {
            Step::Nothing => Ok(()),
            Step::Phase(phase) => self.set_phase(&volume, phase).await.map(drop),
            Step::Release(how) => self.reclaim(&volume, &how).await,
            Step::Unbind => self.unbind(&volume).await,
            Step::LookAtClaim => {
                key.into_iter().for_each(|key| self.queue.add(Subject::Claim(key)));
                Ok(())
            }
            Step::Mismatch => {
                self.tell_mismatch(&volume, claim.as_deref());
                Ok(())
            }
        }
    }

    fn tell_mismatch(&self, volume: &PersistentVolume, claim: Option<&PersistentVolumeClaim>) {
        let Some(claim) = claim else { return };
        let message = format!(
            "Cannot bind PersistentVolume to requested PersistentVolumeClaim {:?} due to incompatible volumeMode.",
            claim.name_any()
        );
        self.events.tell(volume, Weight::Warning, "VolumeMismatch", message);
        let message = format!(
            "Cannot bind PersistentVolume {:?} to requested PersistentVolumeClaim due to incompatible volumeMode.",
            volume.name_any()
        );
        self.events.tell(claim, Weight::Warning, "VolumeMismatch", message);
    }

    async fn look_at_attributes(&self, name: &str) -> Result<(), Error> {
        let Some(class) = self.shared.attributes_classes.get(&Key::new("", name)) else { return Ok(()) };
        let api: Api<VolumeAttributesClass> = Api::all(self.shared.client.clone());
        let view = &self.shared.attributes_classes;
        match protection::guard(&*class, protection::ATTRIBUTES) {
            Guard::AsItShouldBe => Ok(()),
            Guard::Add => {
                self.set_finalizers(&api, view, &class, with(&*class, protection::ATTRIBUTES)).await
            }
            Guard::RemoveIfUnused => {
                let names = |claim: &Arc<PersistentVolumeClaim>| protection::attributes_of_claim(claim);
                let mut claims = self.shared.claims.all();
                claims.retain(|claim| names(claim).iter().any(|one| one == name));
                let mut volumes = self.shared.volumes.all();
                volumes.retain(|volume| protection::attributes_of_volume(volume).as_deref() == Some(name));
                if !claims.is_empty() || !volumes.is_empty() {
                    return Ok(());
                }
                self.set_finalizers(&api, view, &class, without(&*class, protection::ATTRIBUTES)).await
            }
        }
    }

    /// Whether a pod holds a claim. A pod that the view does not show yet may hold it too, so the server is asked.
    async fn is_held(&self, claim: &PersistentVolumeClaim) -> Result<bool, Error> {
        let namespace = claim.namespace().unwrap_or_default();
        if self.shared.pods.in_namespace(&namespace).iter().any(|pod| protection::holds(pod, claim)) {
            return Ok(true);
        }
        let live = within_deadline(self.claims::<Pod>(&namespace).list(&ListParams::default())).await?;
        Ok(live.items.iter().any(|pod| protection::holds(pod, claim)))
    }
}

/// Has the claims looked at that wait for a volume, and the one that `volume` is for.
fn wake_unbound(
    queue: &Queue<Subject>,
    claims: &[Arc<PersistentVolumeClaim>],
    volume: Option<&Arc<PersistentVolume>>,
) {
    for claim in claims {
        let name = claim::volume_name(claim);
        let concerned = volume
            .is_some_and(|volume| name == volume.metadata.name.as_deref() || matching::is_for(volume, claim));
        if concerned || !claim::is_bound(claim) {
            queue.add(Subject::Claim(Key::of(&**claim)));
        }
    }
}

fn absent_is_none<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_object_absent() => Ok(None),
        Err(error) => Err(error),
    }
}

fn with(object: &impl Resource, finalizer: &str) -> Vec<String> {
    let mut finalizers = object.finalizers().to_vec();
    finalizers.push(finalizer.to_owned());
    finalizers
}

fn without(object: &impl Resource, finalizer: &str) -> Vec<String> {
    let mut finalizers = object.finalizers().to_vec();
    finalizers.retain(|one| one != finalizer);
    finalizers
}
