//! Writes volumes, claims and what protects them.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use koinon_control::call::{Error, within_deadline};
use koinon_control::events::Weight;
use koinon_control::{Key, View};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Controller;
use super::claim::{BIND_COMPLETED, BOUND_BY_CONTROLLER, Notice};
use super::matching::is_for;
use super::provision::reference;
use super::volume::{Reclaim, is_bound_by_controller};
use crate::MANAGER;

/// Which part of an object a write is for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Part {
    Object,
    Status,
}

impl Controller {
    pub(super) fn volumes(&self) -> Api<PersistentVolume> {
        Api::all(self.shared.client.clone())
    }

    pub(super) fn claims<T>(&self, namespace: &str) -> Api<T>
    where
        T: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.shared.client.clone(), namespace)
    }

    /// Has volume and claim say that they belong together, in the order that lets a next attempt finish it.
    pub(super) async fn bind(
        &self,
        volume: &PersistentVolume,
        claim: &PersistentVolumeClaim,
    ) -> Result<(), Error> {
        let volume = self.give(volume, claim).await?;
        let volume = self.set_phase(&volume, "Bound").await?;
        let claim = self.take(claim, &volume).await?;
        self.tell_bound(&claim, &volume).await
    }

    async fn give(
        &self,
        volume: &PersistentVolume,
        claim: &PersistentVolumeClaim,
    ) -> Result<PersistentVolume, Error> {
        let uid = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()?.uid.as_ref());
        let was_for = is_for(volume, claim);
        if was_for && uid == claim.metadata.uid.as_ref() {
            return Ok(volume.clone());
        }
        let mut patch = json!({"spec": {"claimRef": reference(claim)}});
        if !was_for {
            patch["metadata"]["annotations"] = json!({BOUND_BY_CONTROLLER: "yes"});
        }
        self.write(&self.volumes(), &self.shared.volumes, volume, Part::Object, patch).await
    }

    /// Gives a volume a phase, unless it has it.
    pub(super) async fn set_phase(
        &self,
        volume: &PersistentVolume,
        phase: &str,
    ) -> Result<PersistentVolume, Error> {
        self.set_phase_because(volume, phase, None).await
    }

    async fn set_phase_because(
        &self,
        volume: &PersistentVolume,
        phase: &str,
        message: Option<&str>,
    ) -> Result<PersistentVolume, Error> {
        if super::matching::phase(volume) == phase {
            return Ok(volume.clone());
        }
        let patch = json!({"status": {"phase": phase, "message": message}});
        self.write(&self.volumes(), &self.shared.volumes, volume, Part::Status, patch).await
    }

    async fn take(
        &self,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
    ) -> Result<PersistentVolumeClaim, Error> {
        let mut patch = json!({});
        if super::claim::volume_name(claim) != volume.metadata.name.as_deref() {
            patch["spec"]["volumeName"] = json!(volume.metadata.name);
            patch["metadata"]["annotations"][BOUND_BY_CONTROLLER] = "yes".into();
        }
        if !claim.annotations().contains_key(BIND_COMPLETED) {
            patch["metadata"]["annotations"][BIND_COMPLETED] = "yes".into();
        }
        if patch == json!({}) {
            return Ok(claim.clone());
        }
        self.write_claim(claim, Part::Object, patch).await
    }

    async fn tell_bound(
        &self,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
    ) -> Result<(), Error> {
        let (spec, status) =
            (volume.spec.clone().unwrap_or_default(), claim.status.clone().unwrap_or_default());
        let mut change = json!({});
        if status.access_modes != spec.access_modes {
            change["accessModes"] = json!(spec.access_modes);
        }
        // A size that differs later may be on purpose: the file system is not as large as the device.
        if status.phase.as_deref() != Some("Bound") {
            change["phase"] = "Bound".into();
            change["capacity"] = json!(spec.capacity);
            change["currentVolumeAttributesClassName"] = json!(spec.volume_attributes_class_name);
        }
        if change != json!({}) {
            self.write_claim(claim, Part::Status, json!({"status": change})).await?;
        }
        Ok(())
    }

    /// Says of a claim that it has no volume, yet or any more.
    pub(super) async fn tell_unbound(
        &self,
        claim: &PersistentVolumeClaim,
        phase: &str,
        notice: Option<&Notice>,
    ) -> Result<(), Error> {
        let status = claim.status.clone().unwrap_or_default();
        let same = status.phase.as_deref() == Some(phase);
        let is_bare = status.access_modes.is_none() && status.capacity.is_none();
        if !same || (!is_bare && phase == "Pending") {
            let change = json!({"phase": phase, "accessModes": null, "capacity": null,
                "currentVolumeAttributesClassName": null});
            self.write_claim(claim, Part::Status, json!({"status": change})).await?;
        }
        // That it is lost is told once.
        if let Some(notice) = notice.filter(|_| !(same && phase == "Lost")) {
            self.events.tell(claim, notice.weight, notice.reason, notice.message.clone());
        }
        Ok(())
    }

    pub(super) async fn provision(
        &self,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
    ) -> Result<(), Error> {
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        match within_deadline(self.volumes().create(&params, volume)).await {
            Ok(made) => {
                let message = format!("Successfully provisioned volume {}", made.name_any());
                self.shared.volumes.learn(made);
                self.events.tell(claim, Weight::Normal, "ProvisioningSucceeded", message);
                Ok(())
            }
            // Made by an attempt whose answer was lost; the watch is about to show it.
            Err(error) if error.is_conflict() => Ok(()),
            Err(error) => {
                let message =
                    format!("Error creating provisioned PV object for claim {}: {error}", Key::of(claim));
                self.events.tell(claim, Weight::Warning, "ProvisioningFailed", message);
                Err(error)
            }
        }
    }

    /// Names the provisioner on a claim that waits for it.
    pub(super) async fn await_provisioner(
        &self,
        claim: &PersistentVolumeClaim,
        provisioner: &str,
    ) -> Result<(), Error> {
        let keys =
            ["volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner"];
        if keys.iter().any(|key| claim.annotations().get(*key).is_none_or(|value| value != provisioner)) {
            let annotations: serde_json::Map<String, Value> =
                keys.iter().map(|key| ((*key).to_owned(), provisioner.into())).collect();
            self.write_claim(claim, Part::Object, json!({"metadata": {"annotations": annotations}})).await?;
        }
        let message = format!(
            "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
        );
        self.events.tell(claim, Weight::Normal, "ExternalProvisioning", message);
        Ok(())
    }

    /// Does with a volume whose claim is gone what its policy says.
    pub(super) async fn reclaim(&self, volume: &PersistentVolume, how: &Reclaim) -> Result<(), Error> {
        let phase = super::matching::phase(volume);
        let volume = match phase {
            "Released" | "Failed" => volume.clone(),
            _ => self.set_phase(volume, "Released").await?,
        };
        match how {
            Reclaim::Retain | Reclaim::Await => Ok(()),
            Reclaim::Recycle => {
                self.unbind(&volume).await?;
                self.events.tell(&volume, Weight::Normal, "VolumeRecycled", "Volume recycled");
                Ok(())
            }
            Reclaim::Fail(why) => {
                if phase != "Failed" {
                    self.set_phase_because(&volume, "Failed", Some(why)).await?;
                    self.events.tell(&volume, Weight::Warning, "VolumeFailedDelete", why.clone());
                }
                Ok(())
            }
            Reclaim::Delete => {
                let params = DeleteParams {
                    preconditions: Some(Preconditions { uid: volume.uid(), resource_version: None }),
                    ..DeleteParams::default()
                };
                match within_deadline(self.volumes().delete(&volume.name_any(), &params)).await {
                    Ok(_) => Ok(()),
                    Err(error) if error.is_object_absent() => Ok(()),
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// Takes a volume back from a claim that has another.
    pub(super) async fn unbind(&self, volume: &PersistentVolume) -> Result<(), Error> {
        let patch = if is_bound_by_controller(volume) {
            json!({"spec": {"claimRef": null}, "metadata": {"annotations": {BOUND_BY_CONTROLLER: null}}})
        } else {
            json!({"spec": {"claimRef": {"uid": null, "resourceVersion": null}}})
        };
        let free = self.write(&self.volumes(), &self.shared.volumes, volume, Part::Object, patch).await?;
        self.set_phase(&free, "Available").await.map(drop)
    }

    /// Changes a claim.
    pub(super) async fn write_claim(
        &self,
        claim: &PersistentVolumeClaim,
        part: Part,
        patch: Value,
    ) -> Result<PersistentVolumeClaim, Error> {
        let api = self.claims(&claim.namespace().unwrap_or_default());
        self.write(&api, &self.shared.claims, claim, part, patch).await
    }

    /// Sets the finalizers of this very version of an object.
    pub(super) async fn set_finalizers<K>(
        &self,
        api: &Api<K>,
        view: &View<K>,
        object: &K,
        finalizers: Vec<String>,
    ) -> Result<(), Error>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let patch = json!({"metadata": {"finalizers": finalizers}});
        match self.write(api, view, object, Part::Object, patch).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_object_absent() => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn write<K>(
        &self,
        api: &Api<K>,
        view: &View<K>,
        object: &K,
        part: Part,
        mut patch: Value,
    ) -> Result<K, Error>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        patch["metadata"]["uid"] = json!(object.meta().uid);
        patch["metadata"]["resourceVersion"] = json!(object.meta().resource_version);
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let (name, patch) = (object.name_any(), Patch::Merge(patch));
        let written = match part {
            Part::Object => within_deadline(api.patch(&name, &params, &patch)).await?,
            Part::Status => within_deadline(api.patch_status(&name, &params, &patch)).await?,
        };
        if written.meta().deletion_timestamp.is_some() && written.finalizers().is_empty() {
            // The last finalizer went, and the object with it.
            view.forget(&Key::of(&written), written.meta().uid.as_deref().unwrap_or_default());
        } else {
            view.learn(written.clone());
        }
        Ok(written)
    }
}
