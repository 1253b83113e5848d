//! Makes, changes and deletes ReplicaSets, and writes the status.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};
use koinon_control::Key;
use koinon_control::call::{self, within_deadline};
use koinon_control::events::Weight;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::plan::{self, Step, Update};
use super::sets::REVISION;
use super::{Controller, Error, template};
use crate::MANAGER;
use crate::podcontrol::is_namespace_terminating;
use crate::replicasets::owned::controller_of;

/// Whether the rest of a plan still holds after a step.
#[derive(PartialEq)]
pub(super) enum Flow {
    Continue,
    /// Something else was found than expected; what was learned has the Deployment looked at again.
    Stop,
}

impl Controller {
    pub(super) async fn take(&self, deployment: &Deployment, step: &Step) -> Result<Flow, Error> {
        let flow = match step {
            Step::Create { set, .. } => self.create(deployment, set).await?,
            Step::Update(update) => {
                self.update(update).await?;
                Flow::Continue
            }
            Step::Delete { set, .. } => {
                self.delete(set).await?;
                Flow::Continue
            }
        };
        if flow == Flow::Continue
            && let Some(message) = step.message()
        {
            self.events.tell(deployment, Weight::Normal, "ScalingReplicaSet", message);
        }
        Ok(flow)
    }

    fn sets_of(&self, deployment: &Deployment) -> Api<ReplicaSet> {
        Api::namespaced(self.shared.client.clone(), &deployment.namespace().unwrap_or_default())
    }

    async fn create(&self, deployment: &Deployment, set: &ReplicaSet) -> Result<Flow, Error> {
        let api = self.sets_of(deployment);
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        match within_deadline(api.create(&params, set)).await {
            Ok(set) => {
                self.shared.replica_sets.learn(set);
                Ok(Flow::Continue)
            }
            Err(error) if error.is_conflict() => self.meet(deployment, set).await,
            // Nothing can be made there any more, and the Deployment goes soon.
            Err(error) if is_namespace_terminating(&error) => Ok(Flow::Stop),
            Err(error) => {
                let message = format!("Failed to create new replica set {:?}: {error}", set.name_any());
                if let Some(status) = plan::refused(self.shared.clock.now(), deployment, &message) {
                    // The refusal is the bigger trouble; the next attempt tells it again.
                    if let Err(error) = self.write_status(deployment, &status, None).await {
                        tracing::debug!(%error, "deployments: a refusal was not told");
                    }
                }
                self.events.tell(deployment, Weight::Warning, "ReplicaSetCreateError", message);
                Err(error.into())
            }
        }
    }

    /// The name is taken: by our own set, whose making went unanswered, or by another's.
    async fn meet(&self, deployment: &Deployment, set: &ReplicaSet) -> Result<Flow, Error> {
        let live = within_deadline(self.sets_of(deployment).get(&set.name_any())).await?;
        let wanted = deployment.spec.as_ref().map(|spec| &spec.template);
        let has = live.spec.as_ref().and_then(|spec| spec.template.as_ref());
        let ours = controller_of(&live).map(|owner| &owner.uid) == deployment.metadata.uid.as_ref()
            && matches!((wanted, has), (Some(wanted), Some(has)) if template::same(wanted, has));
        self.shared.replica_sets.learn(live);
        if !ours {
            self.write_status(deployment, &plan::collided(deployment), None).await?;
        }
        Ok(Flow::Stop)
    }

    async fn update(&self, update: &Update) -> Result<(), Error> {
        let set = &update.set;
        let api: Api<ReplicaSet> =
            Api::namespaced(self.shared.client.clone(), &set.namespace().unwrap_or_default());
        let mut patch = json!({
            "metadata": {"uid": set.metadata.uid, "resourceVersion": set.metadata.resource_version},
            "spec": {"minReadySeconds": update.min_ready_seconds},
        });
        if !update.annotations.is_empty() {
            patch["metadata"]["annotations"] = json!(update.annotations);
        }
        if let Some(replicas) = update.replicas {
            patch["spec"]["replicas"] = replicas.into();
        }
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let written = within_deadline(api.patch(&set.name_any(), &params, &Patch::Merge(patch))).await?;
        self.shared.replica_sets.learn(written);
        Ok(())
    }

    async fn delete(&self, set: &ReplicaSet) -> Result<(), Error> {
        let api: Api<ReplicaSet> =
            Api::namespaced(self.shared.client.clone(), &set.namespace().unwrap_or_default());
        // Of this very version: somebody may just have given it pods again.
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: set.uid(), resource_version: set.resource_version() }),
            ..DeleteParams::default()
        };
        let forget = || {
            self.shared.replica_sets.forget(&Key::of(set), set.metadata.uid.as_deref().unwrap_or_default());
        };
        match within_deadline(api.delete(&set.name_any(), &params)).await {
            Ok(answer) => match answer.left() {
                Some(leaving) if leaving.metadata.deletion_timestamp.is_some() => {
                    self.shared.replica_sets.learn(leaving);
                }
                _ => forget(),
            },
            Err(error) if error.is_object_absent() => forget(),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    pub(super) async fn write_status(
        &self,
        deployment: &Deployment,
        status: &DeploymentStatus,
        revision: Option<&str>,
    ) -> Result<(), call::Error> {
        let api: Api<Deployment> =
            Api::namespaced(self.shared.client.clone(), &deployment.namespace().unwrap_or_default());
        // A merge patch leaves out what it does not name, so what is none is named too.
        let mut patch = json!({
            "metadata": {
                "uid": deployment.metadata.uid,
                "resourceVersion": deployment.metadata.resource_version,
            },
            "status": {
                "observedGeneration": status.observed_generation,
                "replicas": status.replicas,
                "updatedReplicas": status.updated_replicas,
                "readyReplicas": status.ready_replicas,
                "availableReplicas": status.available_replicas,
                "unavailableReplicas": status.unavailable_replicas,
                "terminatingReplicas": status.terminating_replicas,
                "collisionCount": status.collision_count,
                "conditions": status.conditions,
            },
        });
        // Through the status, the annotation does not raise the generation.
        if let Some(revision) = revision {
            patch["metadata"]["annotations"] = json!({REVISION: revision});
        }
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let written =
            within_deadline(api.patch_status(&deployment.name_any(), &params, &Patch::Merge(patch))).await?;
        self.shared.deployments.learn(written);
        Ok(())
    }
}
