//! Claims of a StatefulSet's pods: which have to be made, and whose they are.
//!
//! `persistentVolumeClaimRetentionPolicy` is kept by owner references alone: a claim that shall go with its set is
//! owned by the set, one that shall go when the set is scaled down by its pod once that is beyond the range. The
//! garbage collector does the rest.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt as _};

use super::identity::{claim_name, claim_templates, is_in_range, new_claim, ordinal};
use crate::replicasets::claim::controller_reference;

/// Finds a claim of the set's namespace by its name.
pub(super) type Find<'a> = &'a dyn Fn(&str) -> Option<Arc<PersistentVolumeClaim>>;

/// What has to be done about the claims of one pod.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Work {
    pub(super) create: Vec<PersistentVolumeClaim>,
    pub(super) own: Vec<Owners>,
    /// Claims that are needed and are going: nothing can be done until they are gone.
    pub(super) leaving: Vec<String>,
    /// Claims that another controller has, so that the policy does not hold for them.
    pub(super) conflicting: Vec<String>,
}

/// A claim and the owners that it shall have.
#[derive(Debug, PartialEq)]
pub(super) struct Owners {
    pub(super) claim: Arc<PersistentVolumeClaim>,
    pub(super) references: Vec<OwnerReference>,
}

impl Work {
    pub(super) fn is_nothing(&self) -> bool {
        *self == Work::default()
    }
}

/// What becomes of claims.
#[derive(Clone, Copy, PartialEq)]
enum Policy {
    Retain,
    Delete,
}

struct Policies {
    scaled: Policy,
    deleted: Policy,
}

impl Policies {
    fn of(set: &StatefulSet) -> Policies {
        let policy =
            set.spec.as_ref().and_then(|spec| spec.persistent_volume_claim_retention_policy.as_ref());
        let read = |text: Option<&String>| match text.map(String::as_str) {
            Some("Delete") => Policy::Delete,
            _ => Policy::Retain,
        };
        Policies {
            scaled: read(policy.and_then(|policy| policy.when_scaled.as_ref())),
            deleted: read(policy.and_then(|policy| policy.when_deleted.as_ref())),
        }
    }
}

/// The claims that a pod lacks. They are made with the owners that they shall have.
pub(super) fn missing(set: &StatefulSet, pod: &Pod, find: Find<'_>) -> Work {
    let mut work = Work::default();
    let Some(ordinal) = ordinal(pod) else { return work };
    for template in claim_templates(set) {
        match find(&claim_name(set, template, ordinal)) {
            None => {
                let mut claim = new_claim(set, template, ordinal);
                let owners = wanted(&claim, set, pod);
                claim.metadata.owner_references = (!owners.is_empty()).then_some(owners);
                work.create.push(claim);
            }
            Some(claim) if claim.metadata.deletion_timestamp.is_some() => work.leaving.push(claim.name_any()),
            Some(_) => {}
        }
    }
    work
}

/// The claims of a pod whose owners are not as the policy wants them.
pub(super) fn misowned(set: &StatefulSet, pod: &Pod, find: Find<'_>) -> Work {
    let mut work = Work::default();
    let Some(ordinal) = ordinal(pod) else { return work };
    for template in claim_templates(set) {
        let Some(claim) = find(&claim_name(set, template, ordinal)) else { continue };
        if !is_owned_rightly(&claim, set, pod) {
            if has_unexpected_controller(&claim, set, pod) {
                work.conflicting.push(claim.name_any());
            }
            work.own.push(Owners { references: wanted(&claim, set, pod), claim });
        }
    }
    work
}

/// Whether a claim of a pod that is yet to be made still belongs to an earlier pod of that name. It goes with that one,
/// so the new pod waits for it.
pub(super) fn is_stale(set: &StatefulSet, pod: &Pod, find: Find<'_>) -> bool {
    let ordinal = ordinal(pod).unwrap_or_default();
    Policies::of(set).scaled == Policy::Delete
        && claim_templates(set)
            .iter()
            .filter_map(|template| find(&claim_name(set, template, ordinal)))
            .any(|claim| has_stale_reference(&claim, pod))
}

fn is_owned_rightly(claim: &PersistentVolumeClaim, set: &StatefulSet, pod: &Pod) -> bool {
    // Of an earlier set or pod of the same name: nobody knows what it is for, so it is left alone.
    if has_stale_reference(claim, set) || has_stale_reference(claim, pod) {
        return true;
    }
    if has_unexpected_controller(claim, set, pod) {
        return !(is_owned_by(claim, set) || is_owned_by(claim, pod));
    }
    let ours = |one: &&OwnerReference| {
        Some(&one.uid) == set.meta().uid.as_ref() || Some(&one.uid) == pod.meta().uid.as_ref()
    };
    if claim.owner_references().iter().filter(ours).any(|one| one.controller != Some(true)) {
        return false;
    }
    let by = owner(set, pod);
    is_owned_by(claim, set) == (by == Owner::Set) && is_owned_by(claim, pod) == (by == Owner::Pod)
}

/// The owners that a claim shall have: others' stay, ours are as the policy says.
fn wanted(claim: &PersistentVolumeClaim, set: &StatefulSet, pod: &Pod) -> Vec<OwnerReference> {
    let unexpected = has_unexpected_controller(claim, set, pod);
    let mut references = claim.owner_references().to_vec();
    references.retain(|one| !(names(one, set) || names(one, pod)));
    match owner(set, pod) {
        _ if unexpected => {}
        Owner::Nobody => {}
        Owner::Set => references.push(controller_reference(set)),
        Owner::Pod => references.push(controller_reference(pod)),
    }
    references
}

#[derive(PartialEq)]
enum Owner {
    Nobody,
    Set,
    Pod,
}

/// With whom a pod's claims shall go.
fn owner(set: &StatefulSet, pod: &Pod) -> Owner {
    let Policies { scaled, deleted } = Policies::of(set);
    if scaled == Policy::Delete && !is_in_range(set, pod) {
        return Owner::Pod;
    }
    if deleted == Policy::Delete { Owner::Set } else { Owner::Nobody }
}

/// Whether a reference is for an object by its kind and name, whichever it was.
fn names<O: Resource<DynamicType = ()>>(reference: &OwnerReference, object: &O) -> bool {
    reference.api_version == O::api_version(&())
        && reference.kind == O::kind(&())
        && reference.name == object.name_any()
}

fn is_owned_by(claim: &PersistentVolumeClaim, object: &impl Resource) -> bool {
    let uid = object.meta().uid.as_ref();
    uid.is_some() && claim.owner_references().iter().any(|one| Some(&one.uid) == uid)
}

fn has_stale_reference<O: Resource<DynamicType = ()>>(claim: &PersistentVolumeClaim, object: &O) -> bool {
    let named = claim.owner_references().iter().find(|one| names(one, object));
    named.is_some_and(|one| Some(&one.uid) != object.meta().uid.as_ref())
}

/// Whether somebody else controls a claim that the policy is about.
fn has_unexpected_controller(claim: &PersistentVolumeClaim, set: &StatefulSet, pod: &Pod) -> bool {
    let Policies { scaled, deleted } = Policies::of(set);
    if scaled == Policy::Retain && deleted == Policy::Retain {
        return false;
    }
    claim.owner_references().iter().any(|one| {
        if names(one, set) {
            Some(&one.uid) != set.meta().uid.as_ref()
        } else if names(one, pod) {
            Some(&one.uid) != pod.meta().uid.as_ref()
        } else {
            one.controller == Some(true)
        }
    })
}
