//! Volumes, claims and classes of attributes stay while they are used.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::{Resource, ResourceExt as _};

use super::matching;

pub(super) const VOLUME: &str = "kubernetes.io/pv-protection";
pub(super) const CLAIM: &str = "kubernetes.io/pvc-protection";
pub(super) const ATTRIBUTES: &str = "kubernetes.io/vac-protection";

/// What to do about the finalizer that protects an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    AsItShouldBe,
    Add,
    /// It is being deleted: once nobody uses it, the finalizer goes.
    RemoveIfUnused,
}

pub(super) fn guard(object: &impl Resource, finalizer: &str) -> Guard {
    let guarded = object.finalizers().iter().any(|one| one == finalizer);
    match (object.meta().deletion_timestamp.is_some(), guarded) {
        (true, true) => Guard::RemoveIfUnused,
        (false, false) => Guard::Add,
        (true, false) | (false, true) => Guard::AsItShouldBe,
    }
}

pub(super) fn is_volume_used(volume: &PersistentVolume) -> bool {
    matching::phase(volume) == "Bound"
}

/// Whether a pod holds a claim: one without a node does not, as its node would refuse a claim that is going.
pub(super) fn holds(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let on_a_node =
        pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_ref().is_some_and(|name| !name.is_empty()));
    on_a_node && uses(pod, claim)
}

/// Whether a pod names a claim among its volumes, or has it made for itself.
pub(super) fn uses(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    claim_names(pod).any(|name| name == claim.name_any())
}

/// The claims that a pod names, and those that are made for its ephemeral volumes.
pub(super) fn claim_names(pod: &Pod) -> impl Iterator<Item = String> + '_ {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| {
        let ephemeral = || volume.ephemeral.is_some().then(|| format!("{}-{}", pod.name_any(), volume.name));
        volume.persistent_volume_claim.as_ref().map(|source| source.claim_name.clone()).or_else(ephemeral)
    })
}

/// The classes of attributes that a claim has, had or is going to have.
pub(super) fn attributes_of_claim(claim: &PersistentVolumeClaim) -> Vec<String> {
    let status = claim.status.as_ref();
    let names = [
        claim.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.clone()),
        status.and_then(|status| status.current_volume_attributes_class_name.clone()),
        status.and_then(|status| {
            status.modify_volume_status.as_ref()?.target_volume_attributes_class_name.clone()
        }),
    ];
    names.into_iter().flatten().filter(|name| !name.is_empty()).collect()
}

pub(super) fn attributes_of_volume(volume: &PersistentVolume) -> Option<String> {
    volume.spec.as_ref()?.volume_attributes_class_name.clone().filter(|name| !name.is_empty())
}
