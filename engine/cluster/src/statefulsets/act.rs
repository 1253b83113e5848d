//! Makes, mends and deletes pods and their claims, and writes the status.

use futures::future::join_all;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use koinon_control::call::{self, within_deadline};
use koinon_control::events::Weight;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::claims::{Owners, Work};
use super::plan::{Pace, Stage, Step};
use super::{Controller, Error};
use crate::MANAGER;
use crate::podcontrol::{batches, is_namespace_terminating};

impl Controller {
    /// Takes the steps of a stage; ends with the first that fails.
    pub(super) async fn take(&self, set: &StatefulSet, stage: &Stage) -> Result<(), Error> {
        if stage.pace == Pace::OneByOne {
            for step in &stage.steps {
                self.step(set, step).await?;
            }
            return Ok(());
        }
        let mut steps = stage.steps.iter();
        for size in batches(stage.steps.len()) {
            let batch = steps.by_ref().take(size).map(|step| self.step(set, step));
            join_all(batch).await.into_iter().collect::<Result<(), Error>>()?;
        }
        Ok(())
    }

    async fn step(&self, set: &StatefulSet, step: &Step) -> Result<(), Error> {
        match step {
            Step::Create { pod, claims } => {
                if let Err(error) = self.settle(set, pod, claims).await {
                    return Err(self.told(set, "Create", pod, error));
                }
                match self.pods.make(pod).await {
                    Ok(_) => self.tell(set, "Create", pod),
                    // It is there already; the watch is about to show it.
                    Err(error) if error.is_conflict() => return Err(error.into()),
                    // Nothing can be made there any more, and the set goes soon.
                    Err(error) if is_namespace_terminating(&error) => {}
                    Err(error) => return Err(self.told(set, "Create", pod, error.into())),
                }
            }
            Step::Claims { pod, claims } => self.settle(set, pod, claims).await?,
            Step::Update { pod, to, claims } => {
                let done = async {
                    self.settle(set, pod, claims).await?;
                    self.mend(pod, to).await
                };
                match done.await {
                    Ok(()) => self.tell(set, "Update", pod),
                    Err(error) => return Err(self.told(set, "Update", pod, error)),
                }
            }
            Step::Delete { pod, why } => {
                tracing::debug!(pod = pod.name_any(), why, "statefulsets: deleting");
                match self.pods.remove(pod).await {
                    Ok(_) => self.tell(set, "Delete", pod),
                    Err(error) => return Err(self.told(set, "Delete", pod, error.into())),
                }
            }
        }
        Ok(())
    }

    fn tell(&self, set: &StatefulSet, verb: &str, pod: &Pod) {
        let message = format!("{verb} Pod {} in StatefulSet {} successful", pod.name_any(), set.name_any());
        self.events.tell(set, Weight::Normal, &format!("Successful{verb}"), message);
    }

    fn told(&self, set: &StatefulSet, verb: &str, pod: &Pod, error: Error) -> Error {
        let (pod, name) = (pod.name_any(), set.name_any());
        let message = format!("{verb} Pod {pod} in StatefulSet {name} failed error: {error}");
        self.events.tell(set, Weight::Warning, &format!("Failed{verb}"), message);
        error
    }

    /// Makes the claims of a pod that are missing, and has each owned as the policy wants it.
    async fn settle(&self, set: &StatefulSet, pod: &Pod, work: &Work) -> Result<(), Error> {
        for claim in &work.create {
            self.create_claim(set, pod, claim).await?;
        }
        if let Some(leaving) = work.leaving.first() {
            return Err(Error::Claim(format!("pvc {leaving} is being deleted")));
        }
        for claim in &work.conflicting {
            let message = format!(
                "PersistentVolumeClaim {claim} has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim"
            );
            self.events.tell(set, Weight::Warning, "ConflictingController", message);
        }
        for owners in &work.own {
            self.own(owners).await?;
        }
        Ok(())
    }

    async fn create_claim(
        &self,
        set: &StatefulSet,
        pod: &Pod,
        claim: &PersistentVolumeClaim,
    ) -> Result<(), Error> {
        let api: Api<PersistentVolumeClaim> =
            Api::namespaced(self.shared.client.clone(), &set.namespace().unwrap_or_default());
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        let (name, pod, owner) = (claim.name_any(), pod.name_any(), set.name_any());
        match within_deadline(api.create(&params, claim)).await {
            Ok(made) => {
                self.shared.claims.learn(made);
                let message = format!("Create Claim {name} Pod {pod} in StatefulSet {owner} success");
                self.events.tell(set, Weight::Normal, "SuccessfulCreate", message);
                Ok(())
            }
            Err(error) => {
                if !error.is_conflict() {
                    let message = format!(
                        "Create Claim {name} for Pod {pod} in StatefulSet {owner} failed error: {error}"
                    );
                    self.events.tell(set, Weight::Warning, "FailedCreate", message);
                }
                Err(Error::Claim(format!("failed to create PVC {name}: {error}")))
            }
        }
    }

    async fn own(&self, owners: &Owners) -> Result<(), Error> {
        let claim = &owners.claim;
        let api: Api<PersistentVolumeClaim> =
            Api::namespaced(self.shared.client.clone(), &claim.namespace().unwrap_or_default());
        let patch = json!({"metadata": {
            "uid": claim.metadata.uid,
            "resourceVersion": claim.metadata.resource_version,
            "ownerReferences": owners.references,
        }});
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let name = claim.name_any();
        match within_deadline(api.patch(&name, &params, &Patch::Merge(patch))).await {
            Ok(owned) => {
                self.shared.claims.learn(owned);
                Ok(())
            }
            Err(error) => Err(Error::Claim(format!(
                "could not update claim {name} for delete policy ownerRefs: {error}"
            ))),
        }
    }

    /// Writes what changed about a pod: its labels, and its volumes if the server lets them be changed.
    async fn mend(&self, pod: &Pod, to: &Pod) -> Result<(), Error> {
        if pod == to {
            return Ok(());
        }
        let api: Api<Pod> = Api::namespaced(self.shared.client.clone(), &pod.namespace().unwrap_or_default());
        let volumes = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.volumes.clone());
        let mut patch = json!({"metadata": {
            "uid": pod.metadata.uid,
            "resourceVersion": pod.metadata.resource_version,
            "labels": to.metadata.labels,
        }});
        if volumes(pod) != volumes(to) {
            patch["spec"] = json!({"volumes": volumes(to)});
        }
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let mended = within_deadline(api.patch(&pod.name_any(), &params, &Patch::Merge(patch))).await?;
        self.shared.pods.learn(mended);
        Ok(())
    }

    pub(super) async fn write_status(
        &self,
        set: &StatefulSet,
        status: &StatefulSetStatus,
    ) -> Result<(), call::Error> {
        let api: Api<StatefulSet> =
            Api::namespaced(self.shared.client.clone(), &set.namespace().unwrap_or_default());
        // A merge patch leaves out what it does not name, so what is none is named too. Conditions are others'.
        let patch = json!({
            "metadata": {"uid": set.metadata.uid, "resourceVersion": set.metadata.resource_version},
            "status": {
                "observedGeneration": status.observed_generation,
                "replicas": status.replicas,
                "readyReplicas": status.ready_replicas,
                "availableReplicas": status.available_replicas,
                "currentReplicas": status.current_replicas,
                "updatedReplicas": status.updated_replicas,
                "currentRevision": status.current_revision,
                "updateRevision": status.update_revision,
                "collisionCount": status.collision_count,
            },
        });
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let written =
            within_deadline(api.patch_status(&set.name_any(), &params, &Patch::Merge(patch))).await?;
        self.shared.stateful_sets.learn(written);
        Ok(())
    }
}
