//! Makes pods, deletes pods, writes the status.

use futures::future::join_all;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use koinon_control::Key;
use koinon_control::call::{self, within_deadline};
use koinon_control::events::Weight;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Status;
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::Controller;
use super::plan::{self, Change, Failure};
use crate::MANAGER;

impl Controller {
    /// Changes the number of pods; gives back what went wrong, if anything did.
    pub(super) async fn change(&self, key: &Key, set: &ReplicaSet, change: &Change) -> Option<Failure> {
        match change {
            Change::Nothing => None,
            Change::Create(count) => self.create(key, set, *count).await,
            Change::Delete(pods) => {
                let deletions = pods.iter().map(|pod| self.delete(key, set, pod));
                join_all(deletions).await.into_iter().flatten().next()
            }
        }
    }

    async fn create(&self, key: &Key, set: &ReplicaSet, count: usize) -> Option<Failure> {
        let pod = plan::pod(set);
        for size in plan::batches(count) {
            let made = join_all((0..size).map(|_| self.create_one(key, set, &pod))).await;
            if let Some(failure) = made.into_iter().flatten().next() {
                return Some(failure);
            }
        }
        None
    }

    async fn create_one(&self, key: &Key, set: &ReplicaSet, pod: &Pod) -> Option<Failure> {
        let api: Api<Pod> = Api::namespaced(self.shared.client.clone(), &key.namespace);
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        match within_deadline(api.create(&params, pod)).await {
            Ok(pod) => {
                let message = format!("Created pod: {}", pod.name_any());
                self.shared.pods.learn(pod);
                self.events.tell(set, Weight::Normal, "SuccessfulCreate", message);
                None
            }
            // Nothing can be made there any more, and the ReplicaSet goes soon.
            Err(error) if is_namespace_terminating(&error) => None,
            Err(error) => {
                self.doubts.note(key, &error);
                let message = format!("Error creating: {error}");
                self.events.tell(set, Weight::Warning, "FailedCreate", message);
                Some(Failure { reason: "FailedCreate", message: error.to_string() })
            }
        }
    }

    async fn delete(&self, key: &Key, set: &ReplicaSet, pod: &Pod) -> Option<Failure> {
        let api: Api<Pod> = Api::namespaced(self.shared.client.clone(), &key.namespace);
        let name = pod.name_any();
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: pod.uid(), resource_version: None }),
            ..DeleteParams::default()
        };
        match within_deadline(api.delete(&name, &params)).await {
            Ok(answer) => {
                self.learn_deletion(pod, answer.left());
                self.events.tell(set, Weight::Normal, "SuccessfulDelete", format!("Deleted pod: {name}"));
                None
            }
            Err(error) if error.is_object_absent() => {
                self.forget(pod);
                None
            }
            Err(error) => {
                self.doubts.note(key, &error);
                let message = format!("Error deleting: {error}");
                self.events.tell(set, Weight::Warning, "FailedDelete", message);
                Some(Failure { reason: "FailedDelete", message: format!("unable to delete pods: {error}") })
            }
        }
    }

    /// The pod counts no longer, whether the server let it go at once or waits for its node.
    fn learn_deletion(&self, pod: &Pod, answer: Option<Pod>) {
        if let Some(mut answer) = answer {
            // What was deleted at once is shown as it was before.
            answer.metadata.deletion_timestamp.get_or_insert_with(|| Time(self.shared.clock.now()));
            self.shared.pods.learn(answer);
        }
        let now = self.shared.pods.get(&Key::of(pod));
        if now.is_some_and(|now| now.uid() == pod.uid() && now.metadata.deletion_timestamp.is_none()) {
            self.forget(pod);
        }
    }

    pub(super) async fn write_status(
        &self,
        set: &ReplicaSet,
        status: &ReplicaSetStatus,
    ) -> Result<(), call::Error> {
        let api: Api<ReplicaSet> =
            Api::namespaced(self.shared.client.clone(), &set.namespace().unwrap_or_default());
        // A merge patch leaves out what it does not name, so what is none is named too.
        let patch = json!({
            "metadata": {"uid": set.metadata.uid, "resourceVersion": set.metadata.resource_version},
            "status": {
                "replicas": status.replicas,
                "fullyLabeledReplicas": status.fully_labeled_replicas,
                "readyReplicas": status.ready_replicas,
                "availableReplicas": status.available_replicas,
                "terminatingReplicas": status.terminating_replicas,
                "observedGeneration": status.observed_generation,
                "conditions": status.conditions,
            },
        });
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let written =
            within_deadline(api.patch_status(&set.name_any(), &params, &Patch::Merge(patch))).await?;
        self.shared.replica_sets.learn(written);
        Ok(())
    }
}

/// Says that the namespace is going, so that nothing can be made in it.
pub(crate) fn is_namespace_terminating(error: &call::Error) -> bool {
    let call::Error::Refused(status) = error else { return false };
    let Status { details: Some(details), .. } = &**status else { return false };
    details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
}
