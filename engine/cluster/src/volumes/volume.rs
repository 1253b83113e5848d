//! What a volume needs next.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::ResourceExt as _;

use super::claim::{BOUND_BY_CONTROLLER, volume_name};
use super::matching::{phase, same_mode};
use super::provision::{PROVISIONED_BY, PROVISIONER};

/// The next step for a volume.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    Nothing,
    Phase(&'static str),
    /// Its claim is gone, which the server has to say before it counts.
    Release(Reclaim),
    /// It was given to a claim that got another: it is free again, or keeps waiting for that claim by name.
    Unbind,
    /// Its claim cannot use it.
    Mismatch,
    /// Its claim is about to be bound to it.
    LookAtClaim,
}

/// What becomes of a volume without a claim.
#[derive(Debug, PartialEq)]
pub(super) enum Reclaim {
    Retain,
    Delete,
    Recycle,
    /// Another provisioner deletes it.
    Await,
    /// Nobody can delete it, for this reason.
    Fail(String),
}

/// Decides over a volume and the claim of the name that it is for.
pub(super) fn plan(volume: &PersistentVolume, claim: Option<&PersistentVolumeClaim>) -> Step {
    let Some(reference) = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) else {
        return unless(volume, "Available");
    };
    let Some(uid) = reference.uid.as_deref().filter(|uid| !uid.is_empty()) else {
        return unless(volume, "Available");
    };
    let claim = claim.filter(|claim| claim.metadata.uid.as_deref() == Some(uid));
    let Some(claim) = claim else { return Step::Release(reclaim(volume)) };
    match volume_name(claim) {
        None if !same_mode(volume, claim) => Step::Mismatch,
        None => Step::LookAtClaim,
        Some(name) if Some(name) == volume.metadata.name.as_deref() => unless(volume, "Bound"),
        Some(_) => {
            let provisioned = volume.annotations().contains_key(PROVISIONED_BY);
            if provisioned && policy(volume) == "Delete" {
                Step::Release(reclaim(volume))
            } else {
                Step::Unbind
            }
        }
    }
}

fn unless(volume: &PersistentVolume, wanted: &'static str) -> Step {
    if phase(volume) == wanted { Step::Nothing } else { Step::Phase(wanted) }
}

fn policy(volume: &PersistentVolume) -> &str {
    let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    policy.unwrap_or("Retain")
}

fn reclaim(volume: &PersistentVolume) -> Reclaim {
    match policy(volume) {
        "Retain" => Reclaim::Retain,
        "Recycle" => Reclaim::Recycle,
        "Delete" => match volume.annotations().get(PROVISIONED_BY).map(String::as_str) {
            Some(PROVISIONER) => Reclaim::Delete,
            Some(other) if !other.starts_with("kubernetes.io/") => Reclaim::Await,
            _ => by_source(volume),
        },
        _ => Reclaim::Fail("Volume has unrecognized PersistentVolumeReclaimPolicy".into()),
    }
}

/// Of what was made by hand, a stock cluster deletes only folders below /tmp.
fn by_source(volume: &PersistentVolume) -> Reclaim {
    let path =
        volume.spec.as_ref().and_then(|spec| spec.host_path.as_ref()).map(|source| source.path.as_str());
    match path {
        Some(path) if path.strip_prefix("/tmp/").is_some_and(|rest| !rest.is_empty()) => Reclaim::Delete,
        Some(path) => {
            Reclaim::Fail(format!("host_path deleter only supports /tmp/.+ but received provided {path}"))
        }
        None => Reclaim::Fail(
            "error getting deleter volume plugin for volume: no deletable volume plugin matched".into(),
        ),
    }
}

/// Whether a volume was bound by a controller, not made for its claim by a user.
pub(super) fn is_bound_by_controller(volume: &PersistentVolume) -> bool {
    volume.annotations().contains_key(BOUND_BY_CONTROLLER)
}
