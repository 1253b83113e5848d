//! Makes pods, deletes pods, writes the status.

use futures::future::join_all;
use k8s_openapi::api::apps::v1::ReplicaSetStatus;
use k8s_openapi::api::core::v1::Pod;
use koinon_control::Key;
use koinon_control::call::{self, within_deadline};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::claim::controller_reference;
use super::kinds::Replicating;
use super::plan::{self, Change, Failure, Terminating};
use super::{Controller, Seen};
use crate::MANAGER;
use crate::podcontrol::batches;

impl<K: Replicating> Controller<K> {
    /// Changes the number of pods; gives back what went wrong, if anything did.
    pub(super) async fn change(&self, key: &Key, seen: &Seen<K>, change: &Change) -> Option<Failure> {
        match change {
            Change::Nothing => None,
            Change::Create(count) => self.create(key, seen, *count).await,
            Change::Delete(pods) => {
                let deletions = pods.iter().map(|pod| self.delete(key, seen, pod));
                join_all(deletions).await.into_iter().flatten().next()
            }
        }
    }

    async fn create(&self, key: &Key, seen: &Seen<K>, count: usize) -> Option<Failure> {
        let pod = plan::pod(&seen.set, controller_reference(&*seen.object));
        for size in batches(count) {
            let made = join_all((0..size).map(|_| self.create_one(key, seen, &pod))).await;
            if let Some(failure) = made.into_iter().flatten().next() {
                return Some(failure);
            }
        }
        None
    }

    async fn create_one(&self, key: &Key, seen: &Seen<K>, pod: &Pod) -> Option<Failure> {
        let error = self.pods.create(&*seen.object, pod).await.err()?;
        self.doubts.note(key, &error);
        Some(Failure { reason: "FailedCreate", message: error.to_string() })
    }

    async fn delete(&self, key: &Key, seen: &Seen<K>, pod: &Pod) -> Option<Failure> {
        let error = self.pods.delete(&*seen.object, pod).await.err()?;
        self.doubts.note(key, &error);
        Some(Failure { reason: "FailedDelete", message: format!("unable to delete pods: {error}") })
    }

    pub(super) async fn write_status(
        &self,
        object: &K,
        status: &ReplicaSetStatus,
    ) -> Result<(), call::Error> {
        let api: Api<K> =
            Api::namespaced(self.shared.client.clone(), &object.namespace().unwrap_or_default());
        // A merge patch leaves out what it does not name, so what is none is named too.
        let mut patch = json!({
            "metadata": {"uid": object.meta().uid, "resourceVersion": object.meta().resource_version},
            "status": {
                "replicas": status.replicas,
                "fullyLabeledReplicas": status.fully_labeled_replicas,
                "readyReplicas": status.ready_replicas,
                "availableReplicas": status.available_replicas,
                "observedGeneration": status.observed_generation,
                "conditions": status.conditions,
            },
        });
        if K::TERMINATING == Terminating::Counted {
            patch["status"]["terminatingReplicas"] = json!(status.terminating_replicas);
        }
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let written =
            within_deadline(api.patch_status(&object.name_any(), &params, &Patch::Merge(patch))).await?;
        K::view(&self.shared).learn(written);
        Ok(())
    }
}
