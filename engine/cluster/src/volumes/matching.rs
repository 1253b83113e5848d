//! Which volume serves which claim.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt as _;
use kube::core::{Selector, SelectorExt as _};

use crate::amount::Amount;

/// The class of a claim or a volume in releases long gone.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// The class that a claim asks for; none where it says nothing, which is not the same as the empty one.
pub(super) fn asked_class(claim: &PersistentVolumeClaim) -> Option<&str> {
    let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_ref());
    claim.annotations().get(CLASS).or(class).map(String::as_str)
}

fn class(volume: &PersistentVolume) -> &str {
    let class = volume.spec.as_ref().and_then(|spec| spec.storage_class_name.as_ref());
    volume.annotations().get(CLASS).or(class).map(String::as_str).unwrap_or_default()
}

/// Whether a volume says that it is for this claim; one that was made for it by name counts.
pub(super) fn is_for(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let Some(reference) = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) else { return false };
    reference.name == claim.metadata.name
        && reference.namespace == claim.metadata.namespace
        && reference
            .uid
            .as_deref()
            .is_none_or(|uid| uid.is_empty() || Some(uid) == claim.metadata.uid.as_deref())
}

/// Why a volume that a claim names cannot serve it.
pub(super) fn mismatch(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<String> {
    if volume.metadata.deletion_timestamp.is_some() {
        return Some(format!("the volume is marked for deletion {:?}", volume.name_any()));
    }
    let why = if !is_large_enough(volume, claim) {
        "requested PV is too small"
    } else if class(volume) != asked_class(claim).unwrap_or_default() {
        "storageClassName does not match"
    } else if !same_attributes(volume, claim) {
        "volumeAttributesClassName does not match"
    } else if !same_mode(volume, claim) {
        "incompatible volumeMode"
    } else if !has_access_modes(volume, claim) {
        "incompatible accessMode"
    } else {
        return None;
    };
    Some(why.to_owned())
}

/// The volume that was made for a claim, or else the smallest free one that serves it. A claim that waits for its first
/// consumer gets no other than its own.
pub(super) fn best<'a>(
    claim: &PersistentVolumeClaim,
    volumes: &'a [Arc<PersistentVolume>],
    waits: bool,
) -> Option<&'a Arc<PersistentVolume>> {
    let selector = claim.spec.as_ref().and_then(|spec| spec.selector.clone());
    let selector = selector.map(Selector::try_from).transpose().ok()?;
    let serves = |volume: &&Arc<PersistentVolume>| {
        is_large_enough(volume, claim)
            && has_access_modes(volume, claim)
            && same_mode(volume, claim)
            && same_attributes(volume, claim)
            && volume.metadata.deletion_timestamp.is_none()
    };
    let mut serving: Vec<_> = volumes.iter().filter(serves).collect();
    if let Some(own) = serving.iter().find(|volume| is_for(volume, claim)) {
        return Some(own);
    }
    let free = |volume: &&Arc<PersistentVolume>| {
        volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_none())
            && phase(volume) == "Available"
            && selector.as_ref().is_none_or(|selector| selector.matches(volume.labels()))
            && class(volume) == asked_class(claim).unwrap_or_default()
    };
    serving.retain(|volume| !waits && free(volume));
    // The one with the fewest ways to be used first, and of those the smallest.
    let modes = |volume: &PersistentVolume| {
        volume.spec.as_ref().and_then(|spec| spec.access_modes.as_ref()).map_or(0, Vec::len)
    };
    serving.into_iter().min_by(|a, b| {
        modes(a)
            .cmp(&modes(b))
            .then_with(|| size(a).cmp(&size(b)))
            .then_with(|| a.name_any().cmp(&b.name_any()))
    })
}

pub(super) fn phase(volume: &PersistentVolume) -> &str {
    volume.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

pub(super) fn same_mode(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let of = |mode: Option<&String>| mode.map_or("Filesystem", String::as_str).to_owned();
    of(volume.spec.as_ref().and_then(|spec| spec.volume_mode.as_ref()))
        == of(claim.spec.as_ref().and_then(|spec| spec.volume_mode.as_ref()))
}

fn same_attributes(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let has = volume.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.as_deref());
    let wants = claim.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.as_deref());
    has.unwrap_or_default() == wants.unwrap_or_default()
}

fn has_access_modes(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let has = volume.spec.as_ref().and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default();
    let wants = claim.spec.as_ref().and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default();
    wants.iter().all(|mode| has.contains(mode))
}

/// In bytes.
fn size(volume: &PersistentVolume) -> i64 {
    bytes(volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref()?.get("storage")))
}

fn bytes(quantity: Option<&Quantity>) -> i64 {
    const ONE: i128 = 1_000_000_000;
    quantity.and_then(|quantity| Amount::parse(&quantity.0)).unwrap_or(Amount::ZERO).in_units_of(ONE)
}

fn is_large_enough(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let asked = resources.and_then(|resources| resources.requests.as_ref()?.get("storage"));
    size(volume) >= bytes(asked)
}
