//! What a claim needs next.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use koinon_control::events::Weight;
use kube::ResourceExt as _;

use super::matching::{asked_class, best, is_for, mismatch};
use super::provision::{self, PROVISIONER};

pub(super) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
pub(super) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// What is known of one claim.
pub(super) struct Look<'a> {
    pub(super) claim: &'a PersistentVolumeClaim,
    pub(super) volumes: &'a [Arc<PersistentVolume>],
    pub(super) classes: &'a [Arc<StorageClass>],
    /// The node of a pod that uses it, and the pods that use it and have none yet.
    pub(super) node: Option<String>,
    pub(super) waiting: Vec<String>,
}

/// The next step for a claim.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Both say that they belong together, and both are `Bound`.
    Bind(Arc<PersistentVolume>),
    /// It has no volume yet.
    Pending(Option<Notice>),
    /// It had one, which is gone or another's. The server has to be asked before that is told.
    Lost(Notice),
    /// It named no class and gets the default one.
    SetClass(String),
    /// It waited for its first consumer, which is on this node.
    SelectNode(String),
    Provision(Box<PersistentVolume>),
    /// Another provisioner has to make the volume.
    Await {
        provisioner: String,
    },
}

/// What users are told.
#[derive(Debug, PartialEq)]
pub(super) struct Notice {
    pub(super) weight: Weight,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

fn notice(weight: Weight, reason: &'static str, message: impl Into<String>) -> Notice {
    Notice { weight, reason, message: message.into() }
}

pub(super) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.annotations().contains_key(BIND_COMPLETED)
}

pub(super) fn volume_name(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.spec.as_ref()?.volume_name.as_deref().filter(|name| !name.is_empty())
}

pub(super) fn plan(look: &Look<'_>) -> Step {
    let claim = look.claim;
    let named = volume_name(claim);
    let volume = named
        .and_then(|name| look.volumes.iter().find(|volume| volume.metadata.name.as_deref() == Some(name)));
    let claimed = volume.and_then(|volume| volume.spec.as_ref()?.claim_ref.as_ref());
    if is_bound(claim) {
        return match (named, volume, claimed) {
            (None, ..) => Step::Lost(notice(
                Weight::Warning,
                "ClaimLost",
                "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
            )),
            (Some(_), None, _) => Step::Lost(notice(
                Weight::Warning,
                "ClaimLost",
                "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
            )),
            (Some(_), Some(volume), None) => Step::Bind(volume.clone()),
            (Some(_), Some(volume), Some(by)) if by.uid == claim.metadata.uid => Step::Bind(volume.clone()),
            (Some(_), Some(_), Some(_)) => Step::Lost(notice(
                Weight::Warning,
                "ClaimMisbound",
                "Two claims are bound to the same volume, this one is bound incorrectly",
            )),
        };
    }
    match (named, volume, claimed) {
        (None, ..) => find(look),
        (Some(_), None, _) => Step::Pending(None),
        (Some(name), Some(volume), None) => match mismatch(volume, claim) {
            None => Step::Bind(volume.clone()),
            Some(why) => {
                let message = format!("Cannot bind to requested volume {name:?}: {why}");
                Step::Pending(Some(notice(Weight::Warning, "VolumeMismatch", message)))
            }
        },
        (Some(_), Some(volume), Some(_)) if is_for(volume, claim) => Step::Bind(volume.clone()),
        (Some(name), Some(_), Some(_)) => {
            let message = format!("volume {name:?} already bound to a different claim.");
            Step::Pending(Some(notice(Weight::Warning, "FailedBinding", message)))
        }
    }
}

/// For a claim that leaves it open which volume it gets.
fn find(look: &Look<'_>) -> Step {
    let claim = look.claim;
    let asked = asked_class(claim);
    let class =
        asked.and_then(|name| look.classes.iter().find(|class| class.metadata.name.as_deref() == Some(name)));
    let waits = class.and_then(|class| class.volume_binding_mode.as_deref()) == Some("WaitForFirstConsumer");
    let selected = claim.annotations().contains_key(SELECTED_NODE);
    if let Some(volume) = best(claim, look.volumes, waits && !selected) {
        return Step::Bind(volume.clone());
    }
    let Some(name) = asked else {
        return match provision::default_class(look.classes) {
            Some(class) => Step::SetClass(class.to_owned()),
            None => unbound(),
        };
    };
    if waits && !selected {
        return match &look.node {
            Some(node) => Step::SelectNode(node.clone()),
            None => Step::Pending(Some(consumer(&look.waiting))),
        };
    }
    match class {
        _ if name.is_empty() => unbound(),
        None => {
            let message = format!("storageclass.storage.k8s.io {name:?} not found");
            Step::Pending(Some(notice(Weight::Warning, "ProvisioningFailed", message)))
        }
        Some(class) if class.provisioner == PROVISIONER => {
            Step::Provision(Box::new(provision::volume(claim, class)))
        }
        Some(class) if class.provisioner == "kubernetes.io/no-provisioner" => Step::Pending(None),
        Some(class) => Step::Await { provisioner: class.provisioner.clone() },
    }
}

fn unbound() -> Step {
    let message = "no persistent volumes available for this claim and no storage class is set";
    Step::Pending(Some(notice(Weight::Normal, "FailedBinding", message)))
}

fn consumer(waiting: &[String]) -> Notice {
    let (reason, message) = match waiting {
        [] => ("WaitForFirstConsumer", "waiting for first consumer to be created before binding".to_owned()),
        [pod] => ("WaitForPodScheduled", format!("waiting for pod {pod} to be scheduled")),
        pods => ("WaitForPodScheduled", format!("waiting for pods {} to be scheduled", pods.join(","))),
    };
    notice(Weight::Normal, reason, message)
}
