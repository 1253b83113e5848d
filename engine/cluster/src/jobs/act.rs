//! Makes pods, deletes pods, lets them go, writes the status.

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use koinon_control::Key;
use koinon_control::call::{self, within_deadline};
use koinon_control::events::Weight;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::Controller;
use super::facts::{FINALIZER, is_tracked, uid};
use super::plan::Change;
use super::tracking::Outcome;
use crate::MANAGER;
use crate::podcontrol::batches;

impl Controller {
    /// Changes the pods of a Job; gives what was done, and the first failure.
    pub(super) async fn change(
        &self,
        key: &Key,
        job: &Job,
        change: &Change,
    ) -> (Outcome, Option<call::Error>) {
        match change {
            Change::Nothing => (Outcome::default(), None),
            Change::Create(pods) => self.create(key, job, pods).await,
            Change::Delete(pods) => {
                collect(join_all(pods.iter().map(|pod| self.let_go_and_delete(key, job, pod))).await)
            }
            Change::End(pods) => collect(join_all(pods.iter().map(|pod| self.delete(key, job, pod))).await),
        }
    }

    async fn create(&self, key: &Key, job: &Job, pods: &[Pod]) -> (Outcome, Option<call::Error>) {
        let (mut outcome, mut rest) = (Outcome::default(), pods);
        for size in batches(pods.len()) {
            let (batch, later) = rest.split_at(size);
            rest = later;
            let mut failure = None;
            for made in join_all(batch.iter().map(|pod| self.create_one(key, job, pod))).await {
                match made {
                    Ok(()) => outcome.created += 1,
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
            if failure.is_some() {
                return (outcome, failure);
            }
        }
        (outcome, None)
    }

    async fn create_one(&self, key: &Key, job: &Job, pod: &Pod) -> Result<(), call::Error> {
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        match within_deadline(self.pods_in(key).create(&params, pod)).await {
            Ok(pod) => {
                let message = format!("Created pod: {}", pod.name_any());
                self.shared.pods.learn(pod);
                self.events.tell(job, Weight::Normal, "SuccessfulCreate", message);
                Ok(())
            }
            // Nothing can be made there any more, and the Job goes soon.
            Err(error) if error.is_namespace_ending() => Ok(()),
            Err(error) => {
                self.doubts.note(key, &error);
                self.events.tell(job, Weight::Warning, "FailedCreate", format!("Error creating: {error}"));
                Err(error)
            }
        }
    }

    async fn let_go_and_delete(&self, key: &Key, job: &Job, pod: &Arc<Pod>) -> Deleted {
        match self.let_go(pod).await {
            Ok(()) => self.delete(key, job, pod).await,
            Err(error) => Err(error),
        }
    }

    async fn delete(&self, key: &Key, job: &Job, pod: &Arc<Pod>) -> Deleted {
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: pod.uid(), resource_version: None }),
            ..DeleteParams::default()
        };
        match within_deadline(self.pods_in(key).delete(&pod.name_any(), &params)).await {
            Ok(answer) => {
                self.learn_deletion(pod, answer.left());
                let message = format!("Deleted pod: {}", pod.name_any());
                self.events.tell(job, Weight::Normal, "SuccessfulDelete", message);
                Ok(pod.clone())
            }
            Err(error) if error.is_object_absent() => {
                self.forget(pod);
                Ok(pod.clone())
            }
            Err(error) => {
                self.doubts.note(key, &error);
                self.events.tell(job, Weight::Warning, "FailedDelete", format!("Error deleting: {error}"));
                Err(error)
            }
        }
    }

    /// The pod counts as leaving, whether the server let it go at once or waits for its node.
    fn learn_deletion(&self, pod: &Pod, answer: Option<Pod>) {
        match answer {
            Some(leaving) if leaving.metadata.deletion_timestamp.is_some() => self.shared.pods.learn(leaving),
            // One that is held is still there; one that is not held went at once.
            Some(mut held) if is_tracked(&held) => {
                held.metadata.deletion_timestamp = Some(Time(self.shared.clock.now()));
                self.shared.pods.learn(held);
            }
            _ => self.forget(pod),
        }
    }

    fn forget(&self, pod: &Pod) {
        self.shared.pods.forget(&Key::of(pod), uid(pod));
    }

    /// Takes the finalizers off pods whose end is noted; gives the uids of those that are let go.
    pub(super) async fn let_go_all(&self, pods: &[Arc<Pod>]) -> (Vec<String>, Option<call::Error>) {
        let (mut released, mut failure) = (Vec::new(), None);
        let answers = join_all(pods.iter().map(|pod| self.let_go(pod))).await;
        for (pod, answer) in pods.iter().zip(answers) {
            match answer {
                Ok(()) => released.push(uid(pod).to_owned()),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        (released, failure)
    }

    /// Takes the finalizer off a pod.
    pub(super) async fn let_go(&self, pod: &Pod) -> Result<(), call::Error> {
        if !is_tracked(pod) {
            return Ok(());
        }
        let key = Key::of(pod);
        let patch = json!({"metadata": {
            "uid": pod.metadata.uid,
            "$deleteFromPrimitiveList/finalizers": [FINALIZER],
        }});
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        match within_deadline(self.pods_in(&key).patch(&key.name, &params, &Patch::Strategic(patch))).await {
            // It was only the finalizer that kept it.
            Ok(pod) if is_gone(&pod) => {
                self.forget(&pod);
                Ok(())
            }
            Ok(pod) => {
                self.shared.pods.learn(pod);
                Ok(())
            }
            Err(error) if error.is_object_absent() => {
                self.forget(pod);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn pods_in(&self, key: &Key) -> Api<Pod> {
        Api::namespaced(self.shared.client.clone(), &key.namespace)
    }

    /// Writes the status of a Job, unless it has it already; gives the Job as it is then.
    pub(super) async fn write_status(
        &self,
        job: &Arc<Job>,
        status: &JobStatus,
    ) -> Result<Arc<Job>, call::Error> {
        // A server may leave out what is empty.
        let mut before = job.status.clone().unwrap_or_default();
        before.uncounted_terminated_pods.get_or_insert_default();
        if before == *status {
            return Ok(job.clone());
        }
        let api: Api<Job> = Api::namespaced(self.shared.client.clone(), &job.namespace().unwrap_or_default());
        let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
        // A merge patch leaves out what it does not name, so what is none is named too.
        let patch = json!({
            "metadata": {"uid": job.metadata.uid, "resourceVersion": job.metadata.resource_version},
            "status": {
                "active": status.active,
                "ready": status.ready,
                "terminating": status.terminating,
                "succeeded": status.succeeded,
                "failed": status.failed,
                "completedIndexes": status.completed_indexes,
                "failedIndexes": status.failed_indexes,
                "startTime": status.start_time,
                "completionTime": status.completion_time,
                "conditions": status.conditions,
                "uncountedTerminatedPods": {
                    "succeeded": uncounted.succeeded,
                    "failed": uncounted.failed,
                },
            },
        });
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let written =
            within_deadline(api.patch_status(&job.name_any(), &params, &Patch::Merge(patch))).await?;
        self.shared.jobs.learn(written.clone());
        Ok(Arc::new(written))
    }
}

type Deleted = Result<Arc<Pod>, call::Error>;

fn collect(answers: Vec<Deleted>) -> (Outcome, Option<call::Error>) {
    let (mut outcome, mut failure) = (Outcome::default(), None);
    for answer in answers {
        match answer {
            Ok(pod) => outcome.deleted.push(pod),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    (outcome, failure)
}

/// Whether a pod that was told to go had nothing left that held it: the server answers with it one last time.
fn is_gone(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
        && pod.metadata.deletion_grace_period_seconds.unwrap_or(0) == 0
        && pod.finalizers().is_empty()
}
