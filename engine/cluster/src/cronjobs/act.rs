//! Begins Jobs, removes Jobs, writes the status.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use koinon_control::Key;
use koinon_control::call::{self, within_deadline};
use koinon_control::events::Weight;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::{Controller, plan};
use crate::MANAGER;
use crate::replicasets::owned::controller_of;

impl Controller {
    fn jobs_in(&self, namespace: Option<String>) -> Api<Job> {
        Api::namespaced(self.shared.client.clone(), &namespace.unwrap_or_default())
    }

    /// Asks the server for a Job.
    pub(super) async fn find(&self, job: &ObjectReference) -> Result<Option<Job>, call::Error> {
        let name = job.name.as_deref().unwrap_or_default();
        match within_deadline(self.jobs_in(job.namespace.clone()).get(name)).await {
            Ok(job) => Ok(Some(job)),
            Err(error) if error.is_object_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes a Job with its pods.
    pub(super) async fn delete(&self, cron: &CronJob, job: &Job) -> Result<(), call::Error> {
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: job.uid(), resource_version: None }),
            ..DeleteParams::background()
        };
        match within_deadline(self.jobs_in(job.namespace()).delete(&job.name_any(), &params)).await {
            Ok(answer) => {
                match answer.left() {
                    Some(leaving) if leaving.metadata.deletion_timestamp.is_some() => {
                        self.shared.jobs.learn(leaving);
                    }
                    _ => self.forget(job),
                }
                let message = format!("Deleted job {}", job.name_any());
                self.events.tell(cron, Weight::Normal, "SuccessfulDelete", message);
                Ok(())
            }
            Err(error) if error.is_object_absent() => {
                self.forget(job);
                Ok(())
            }
            Err(error) => {
                self.events.tell(cron, Weight::Warning, "FailedDelete", format!("Deleted job: {error}"));
                Err(error)
            }
        }
    }

    fn forget(&self, job: &Job) {
        self.shared.jobs.forget(&Key::of(job), job.metadata.uid.as_deref().unwrap_or_default());
    }

    /// Removes a Job that still runs when the next one is due.
    pub(super) async fn replace(&self, cron: &CronJob, job: &ObjectReference) -> Result<(), call::Error> {
        match self.find(job).await {
            Ok(Some(job)) => self.delete(cron, &job).await,
            Ok(None) => Ok(()),
            Err(error) => {
                self.events.tell(cron, Weight::Warning, "FailedGet", format!("Get job: {error}"));
                Err(error)
            }
        }
    }

    /// Begins the Job of a time, and notes it in the status.
    pub(super) async fn start(
        &self,
        cron: &CronJob,
        time: Timestamp,
        status: &mut CronJobStatus,
    ) -> Result<(), call::Error> {
        let job = plan::job(cron, &cron.spec, time);
        let api = self.jobs_in(cron.namespace());
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        let job = match within_deadline(api.create(&params, &job)).await {
            Ok(job) => {
                let message = format!("Created job {}", job.name_any());
                self.events.tell(cron, Weight::Normal, "SuccessfulCreate", message);
                job
            }
            Err(error) if error.is_conflict() => {
                let live = within_deadline(api.get(&job.name_any())).await?;
                // Another's is left alone; our own was begun before its begin could be noted.
                if controller_of(&live).map(|owner| &owner.uid) != cron.metadata.uid.as_ref() {
                    return Ok(());
                }
                live
            }
            Err(error) if error.is_namespace_ending() => return Err(error),
            Err(error) => {
                let message = format!("Error creating job: {error}");
                self.events.tell(cron, Weight::Warning, "FailedCreate", message);
                return Err(error);
            }
        };
        plan::begun(status, &job, time);
        self.shared.jobs.learn(job);
        Ok(())
    }

    pub(super) async fn write_status(
        &self,
        cron: &CronJob,
        status: &CronJobStatus,
    ) -> Result<(), call::Error> {
        if cron.status.as_ref() == Some(status)
            || cron.status.is_none() && *status == CronJobStatus::default()
        {
            return Ok(());
        }
        let api: Api<CronJob> =
            Api::namespaced(self.shared.client.clone(), &cron.namespace().unwrap_or_default());
        // A merge patch leaves out what it does not name, so what is none is named too.
        let patch = json!({
            "metadata": {"uid": cron.metadata.uid, "resourceVersion": cron.metadata.resource_version},
            "status": {
                "active": status.active,
                "lastScheduleTime": status.last_schedule_time,
                "lastSuccessfulTime": status.last_successful_time,
            },
        });
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let written =
            within_deadline(api.patch_status(&cron.name_any(), &params, &Patch::Merge(patch))).await?;
        self.crons.learn(written);
        Ok(())
    }
}
