//! What makes a pod the n-th of its StatefulSet: name, labels, host name and volumes.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume,
};
use kube::ResourceExt as _;

use crate::replicasets::claim::controller_reference;
use crate::replicasets::pod_of;

pub(super) const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
pub(super) const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
pub(super) const REVISION: &str = "controller-revision-hash";

/// The name of the set that a pod's name gives, and its ordinal there.
pub(super) fn parent(pod: &Pod) -> Option<(&str, i32)> {
    let (parent, digits) = pod.metadata.name.as_deref()?.rsplit_once('-')?;
    let well_formed = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    Some((parent, digits.parse().ok().filter(|_| well_formed)?))
}

pub(super) fn ordinal(pod: &Pod) -> Option<i32> {
    parent(pod).map(|(_, ordinal)| ordinal)
}

/// Whether a pod is of this set by its name.
pub(super) fn is_member(set: &StatefulSet, pod: &Pod) -> bool {
    parent(pod).is_some_and(|(parent, _)| Some(parent) == set.metadata.name.as_deref())
}

/// The first ordinal, and how many there are.
pub(super) fn ordinals(set: &StatefulSet) -> std::ops::Range<i32> {
    let spec = set.spec.as_ref();
    let ordinals = spec.and_then(|spec| spec.ordinals.as_ref());
    let start = ordinals.and_then(|ordinals| ordinals.start).unwrap_or(0);
    start..start.saturating_add(replicas(set))
}

pub(super) fn replicas(set: &StatefulSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

pub(super) fn is_in_range(set: &StatefulSet, pod: &Pod) -> bool {
    ordinal(pod).is_some_and(|ordinal| ordinals(set).contains(&ordinal))
}

pub(super) fn pod_name(set: &StatefulSet, ordinal: i32) -> String {
    format!("{}-{ordinal}", set.name_any())
}

pub(super) fn revision(pod: &Pod) -> &str {
    pod.labels().get(REVISION).map(String::as_str).unwrap_or_default()
}

/// Whether a pod is called as it should be, and says so.
pub(super) fn has_identity(set: &StatefulSet, pod: &Pod) -> bool {
    let Some(ordinal) = ordinal(pod) else { return false };
    pod.name_any() == pod_name(set, ordinal) && pod.labels().get(POD_NAME) == Some(&pod.name_any())
}

/// Whether a pod's volumes are the claims that are made for it.
pub(super) fn has_storage(set: &StatefulSet, pod: &Pod) -> bool {
    let Some(ordinal) = ordinal(pod) else { return false };
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    claim_templates(set).iter().all(|claim| {
        let volume = volumes.iter().find(|volume| Some(&volume.name) == claim.metadata.name.as_ref());
        let source = volume.and_then(|volume| volume.persistent_volume_claim.as_ref());
        source.is_some_and(|source| source.claim_name == claim_name(set, claim, ordinal))
    })
}

/// The pod of an ordinal, of this template and revision.
pub(super) fn new_pod(set: &StatefulSet, template: PodTemplateSpec, revision: &str, ordinal: i32) -> Pod {
    let mut pod = pod_of(template, &set.metadata, controller_reference(set));
    let name = pod_name(set, ordinal);
    pod.metadata.name = Some(name.clone());
    let service = set.spec.as_ref().and_then(|spec| spec.service_name.clone());
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(name);
    spec.subdomain = service.filter(|service| !service.is_empty());
    give_identity(&mut pod);
    give_storage(set, &mut pod);
    pod.labels_mut().insert(REVISION.into(), revision.into());
    pod
}

/// Labels a pod with what its name says.
pub(super) fn give_identity(pod: &mut Pod) {
    let (name, ordinal) = (pod.name_any(), ordinal(pod).unwrap_or_default());
    pod.labels_mut().insert(POD_NAME.into(), name);
    pod.labels_mut().insert(POD_INDEX.into(), ordinal.to_string());
}

/// Gives a pod the volumes of its claims, in place of others of the same names.
pub(super) fn give_storage(set: &StatefulSet, pod: &mut Pod) {
    let ordinal = ordinal(pod).unwrap_or_default();
    let templates = claim_templates(set);
    let volume = |claim: &PersistentVolumeClaim| Volume {
        name: claim.name_any(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claim_name(set, claim, ordinal),
            read_only: None,
        }),
        ..Volume::default()
    };
    let mut volumes: Vec<Volume> = templates.iter().map(volume).collect();
    let spec = pod.spec.get_or_insert_default();
    let others = spec.volumes.take().unwrap_or_default();
    volumes
        .extend(others.into_iter().filter(|one| !templates.iter().any(|claim| claim.name_any() == one.name)));
    spec.volumes = (!volumes.is_empty()).then_some(volumes);
}

pub(super) fn claim_templates(set: &StatefulSet) -> &[PersistentVolumeClaim] {
    set.spec.as_ref().and_then(|spec| spec.volume_claim_templates.as_deref()).unwrap_or_default()
}

/// The name of the claim that is made of a template for an ordinal.
pub(super) fn claim_name(set: &StatefulSet, template: &PersistentVolumeClaim, ordinal: i32) -> String {
    format!("{}-{}-{ordinal}", template.name_any(), set.name_any())
}

/// The claim that is made of a template for an ordinal.
pub(super) fn new_claim(
    set: &StatefulSet,
    template: &PersistentVolumeClaim,
    ordinal: i32,
) -> PersistentVolumeClaim {
    let mut claim = template.clone();
    claim.metadata.name = Some(claim_name(set, template, ordinal));
    claim.metadata.namespace = set.namespace();
    let selected = set.spec.as_ref().and_then(|spec| spec.selector.match_labels.clone()).unwrap_or_default();
    claim.labels_mut().extend(selected);
    claim.status = None;
    claim
}
