//! Pods that nobody counts any more: without a Job, or with one that is over. They must not be held.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use koinon_control::Key;
use koinon_control::call::{self, within_deadline};
use koinon_control::queue::{Next, Queue};
use kube::core::SelectorExt as _;
use kube::{Api, Resource as _, ResourceExt as _};

use super::facts::{finished, is_tracked, manager};
use super::{Controller, selector};
use crate::replicasets::keepers::keeper;
use crate::replicasets::owned::controller_of;
use crate::shared::Shared;

/// Has every pod looked at that may be held in vain.
pub(super) fn listen(shared: &Shared, queue: &Arc<Queue<Key>>) {
    let (wake, jobs) = (queue.clone(), shared.jobs.clone());
    shared.pods.on_change(move |_, after| {
        let Some(pod) = after.filter(|pod| is_tracked(pod)) else { return };
        let counts = match controller_of(&**pod) {
            None => false,
            Some(_) if pod.metadata.deletion_timestamp.is_none() => true,
            Some(_) => {
                let job = keeper::<Job>(&**pod).and_then(|job| jobs.get(&job));
                job.is_some_and(|job| finished(&job).is_none())
            }
        };
        if !counts {
            wake.add(Key::of(&**pod));
        }
    });
    let (wake, pods) = (queue.clone(), shared.pods.clone());
    shared.jobs.on_change(move |before, after| {
        let over = after.is_none_or(|job| finished(job).is_some());
        let Some(job) = after.or(before).filter(|_| over) else { return };
        let Some(selector) = selector(job) else { return };
        for pod in pods.in_namespace(&job.namespace().unwrap_or_default()) {
            if is_tracked(&pod) && selector.matches(pod.labels()) {
                wake.add(Key::of(&*pod));
            }
        }
    });
}

impl Controller {
    /// Lets a pod go that nobody counts.
    pub(super) async fn free(self: Arc<Self>, key: Key) -> Next {
        let Some(pod) = self.shared.pods.get(&key).filter(|pod| is_tracked(pod)) else { return Next::Done };
        let freed = match self.is_counted(&pod).await {
            Ok(true) => return Next::Done,
            Ok(false) => self.let_go(&pod).await,
            Err(error) => Err(error),
        };
        match freed {
            Ok(()) => Next::Done,
            Err(error) => {
                tracing::debug!(%key, %error, "jobs: a pod is still held");
                Next::Retry
            }
        }
    }

    /// Whether somebody may still have to count this pod: a Job that is not over, or another controller.
    async fn is_counted(&self, pod: &Pod) -> Result<bool, call::Error> {
        let Some(owner) = controller_of(pod) else { return Ok(false) };
        if owner.kind != Job::kind(&()) || owner.api_version != Job::api_version(&()) {
            return Ok(true);
        }
        let key = Key::new(pod.namespace().unwrap_or_default(), &owner.name);
        let counts = |job: &Job| {
            job.uid().as_deref() == Some(&owner.uid) && (manager(job).is_some() || finished(job).is_none())
        };
        if let Some(job) = self.shared.jobs.get(&key) {
            return Ok(counts(&job));
        }
        // What the view does not show may be there: only the server knows.
        let api: Api<Job> = Api::namespaced(self.shared.client.clone(), &key.namespace);
        match within_deadline(api.get(&key.name)).await {
            Ok(job) => Ok(counts(&job)),
            Err(error) if error.is_object_absent() => Ok(false),
            Err(error) => Err(error),
        }
    }
}
