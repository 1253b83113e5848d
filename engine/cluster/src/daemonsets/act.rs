//! Makes and deletes pods and revisions, and writes the status.

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetStatus};
use k8s_openapi::api::core::v1::Pod;
use koinon_control::Key;
use koinon_control::call::{self, within_deadline};
use koinon_control::events::Weight;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::fit::{HASH, new_pod};
use super::history::{self, Sorted};
use super::plan::Plan;
use super::{Controller, Error};
use crate::MANAGER;
use crate::podcontrol::batches;
use crate::revisions::Created;

impl Controller {
    /// Has the template's revision be there, once, with the greatest number.
    pub(super) async fn current(
        &self,
        set: &DaemonSet,
        sorted: &Sorted,
        pods: &[Arc<Pod>],
    ) -> Result<Arc<ControllerRevision>, Error> {
        let number = sorted.number();
        let Some(keeper) = sorted.keeper() else { return self.snapshot(set, number).await };
        let mut current = keeper.clone();
        if history::hash(&current).is_empty() {
            let label = json!({"metadata": {"labels": {HASH: current.name_any()}}});
            current = self.history.change(&current, label).await?;
        }
        for copy in sorted.current.iter().filter(|one| one.metadata.name != current.metadata.name) {
            self.relabel(pods, history::hash(&current)).await?;
            self.history.delete(copy).await?;
        }
        if current.revision < number {
            current = self.history.change(&current, json!({"revision": number})).await?;
        }
        Ok(current)
    }

    /// Pods of a revision that has a twin belong to the twin that stays.
    async fn relabel(&self, pods: &[Arc<Pod>], hash: &str) -> Result<(), Error> {
        for pod in pods.iter().filter(|pod| pod.labels().get(HASH).is_none_or(|has| has != hash)) {
            let api: Api<Pod> =
                Api::namespaced(self.shared.client.clone(), &pod.namespace().unwrap_or_default());
            let patch = json!({"metadata": {"uid": pod.metadata.uid, "labels": {HASH: hash}}});
            let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
            match within_deadline(api.patch(&pod.name_any(), &params, &Patch::Merge(patch))).await {
                Ok(pod) => self.shared.pods.learn(pod),
                Err(error) if error.is_object_absent() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    async fn snapshot(&self, set: &DaemonSet, number: i64) -> Result<Arc<ControllerRevision>, Error> {
        match self.history.create(&history::new(set, number)).await? {
            Created::There(revision) => Ok(revision),
            Created::NameTaken => {
                let count = set.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
                self.patch_status(set, json!({"collisionCount": count.saturating_add(1)})).await?;
                Err(Error::Change(
                    "a revision of another template has the name; another hash is tried".into(),
                ))
            }
        }
    }

    /// Makes and deletes pods; the first failure counts.
    pub(super) async fn change(
        &self,
        key: &Key,
        set: &DaemonSet,
        hash: &str,
        plan: &Plan,
    ) -> Result<(), Error> {
        self.tell_of_ended(set, plan);
        let mut failure = None;
        let mut nodes = plan.create.iter();
        for size in batches(plan.create.len()) {
            let made = nodes
                .by_ref()
                .take(size)
                .map(|node| async move { self.pods.create(set, &new_pod(set, node, hash)).await });
            let failed = join_all(made).await.into_iter().filter_map(Result::err);
            if let Some(error) = self.doubt(key, failed) {
                failure = Some(error);
                break;
            }
        }
        let deleted = join_all(plan.delete.iter().map(|pod| self.pods.delete(set, pod))).await;
        let failure = self.doubt(key, deleted.into_iter().filter_map(Result::err)).or(failure);
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    fn doubt(&self, key: &Key, errors: impl Iterator<Item = call::Error>) -> Option<call::Error> {
        let errors: Vec<call::Error> = errors.collect();
        errors.iter().for_each(|error| self.doubts.note(key, error));
        errors.into_iter().next()
    }

    fn tell_of_ended(&self, set: &DaemonSet, plan: &Plan) {
        let generation = set.status.as_ref().and_then(|status| status.observed_generation).unwrap_or(0);
        for (pod, node) in &plan.ended {
            let pod_key = Key::of(&**pod);
            if crate::replicasets::pods::phase(pod) == "Failed" {
                self.backoff.note(set.metadata.uid.as_deref().unwrap_or_default(), generation, node);
                let message =
                    format!("Found failed daemon pod {pod_key} on node {node}, will try to kill it");
                self.events.tell(set, Weight::Warning, "FailedDaemonPod", message);
            } else {
                let message =
                    format!("Found succeeded daemon pod {pod_key} on node {node}, will try to delete it");
                self.events.tell(set, Weight::Normal, "SucceededDaemonPod", message);
            }
        }
    }

    pub(super) async fn write_status(&self, set: &DaemonSet, status: &DaemonSetStatus) -> Result<(), Error> {
        // A merge patch leaves out what it does not name, so what is none is named too. Conditions are others'.
        let status = json!({
            "observedGeneration": status.observed_generation,
            "desiredNumberScheduled": status.desired_number_scheduled,
            "currentNumberScheduled": status.current_number_scheduled,
            "numberMisscheduled": status.number_misscheduled,
            "numberReady": status.number_ready,
            "numberAvailable": status.number_available,
            "numberUnavailable": status.number_unavailable,
            "updatedNumberScheduled": status.updated_number_scheduled,
        });
        self.patch_status(set, status).await
    }

    async fn patch_status(&self, set: &DaemonSet, status: Value) -> Result<(), Error> {
        let api: Api<DaemonSet> =
            Api::namespaced(self.shared.client.clone(), &set.namespace().unwrap_or_default());
        let metadata = json!({"uid": set.metadata.uid, "resourceVersion": set.metadata.resource_version});
        let patch = json!({"metadata": metadata, "status": status});
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let written =
            within_deadline(api.patch_status(&set.name_any(), &params, &Patch::Merge(patch))).await?;
        self.shared.daemon_sets.learn(written);
        Ok(())
    }
}
