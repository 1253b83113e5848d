//! What to do with an object, given how its owners stand.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};

use super::graph::{Deletion, Dependent};
use super::names::Uid;

/// Holds an object until its blocking dependents are deleted.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// Holds an object until its dependents no longer name it.
pub(super) const ORPHAN: &str = "orphan";

/// How an owner stands, from its dependent's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It exists and keeps the dependent alive.
    Solid,
    /// It exists, but is being deleted and waits for its dependents.
    Waiting,
    /// It does not exist.
    Dangling,
}

/// How a deletion treats the dependents of what is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// What to do with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Keep,
    /// It stays, without the references to these owners.
    Release(Vec<String>),
    /// It goes; `unblock` first makes its own references block nobody, to break a circle.
    Delete {
        propagation: Propagation,
        unblock: bool,
    },
}

/// Decides over an object from the standing of each of its owners.
pub(super) fn decide(
    object: &ObjectMeta,
    standings: &[(String, Standing)],
    dependents: &[Dependent],
) -> Decision {
    let having = |wanted: Standing| standings.iter().filter(move |(_, standing)| *standing == wanted);
    if standings.is_empty() {
        return Decision::Keep;
    }
    if having(Standing::Solid).next().is_some() {
        // A waiting owner is released too: it would wait forever for a dependent that another one keeps.
        let released: Vec<String> =
            having(Standing::Dangling).chain(having(Standing::Waiting)).map(|(uid, _)| uid.clone()).collect();
        return if released.is_empty() { Decision::Keep } else { Decision::Release(released) };
    }
    if having(Standing::Waiting).next().is_some() && !dependents.is_empty() {
        let unblock = dependents.iter().any(|dependent| dependent.foreground);
        return Decision::Delete { propagation: Propagation::Foreground, unblock };
    }
    let propagation = if has_finalizer(object, ORPHAN) {
        Propagation::Orphan
    } else if has_finalizer(object, FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    Decision::Delete { propagation, unblock: false }
}

/// What an object that waits for its dependents does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Nobody blocks it.
    Over,
    /// These have to be looked at; those that are left out wait for dependents of their own.
    For(Vec<Uid>),
}

/// Decides over an object that is deleted in the foreground.
pub(super) fn wait(dependents: &[Dependent]) -> Wait {
    let mut blocking = dependents.iter().filter(|dependent| dependent.blocks).peekable();
    if blocking.peek().is_none() {
        return Wait::Over;
    }
    Wait::For(blocking.filter(|one| !one.foreground).map(|one| one.identity.uid.clone()).collect())
}

/// How an owner that exists stands.
pub(super) fn standing(owner: &ObjectMeta) -> Standing {
    if deletion(owner).foreground { Standing::Waiting } else { Standing::Solid }
}

/// How far the deletion of an object has come.
pub(super) fn deletion(object: &ObjectMeta) -> Deletion {
    let started = object.deletion_timestamp.is_some();
    Deletion {
        started,
        foreground: started && has_finalizer(object, FOREGROUND),
        orphan: started && has_finalizer(object, ORPHAN),
    }
}

fn has_finalizer(object: &ObjectMeta, wanted: &str) -> bool {
    object.finalizers.iter().flatten().any(|finalizer| finalizer == wanted)
}

/// Takes owners out of an object's references; the uid has it fail on another object of the same name.
pub(super) fn release_patch(uid: &str, owners: &[String]) -> Value {
    let deleted: Vec<Value> = owners.iter().map(|owner| json!({"$patch": "delete", "uid": owner})).collect();
    json!({"metadata": {"uid": uid, "ownerReferences": deleted}})
}

/// The same for servers that know no strategic merge for the kind: custom resources.
pub(super) fn release_merge_patch(object: &ObjectMeta, owners: &[String]) -> Value {
    let kept = references(object).filter(|owner| !owners.contains(&owner.uid)).cloned().collect();
    owners_merge_patch(object, kept)
}

/// Has an object's references block nobody.
pub(super) fn unblock_patch(object: &ObjectMeta) -> Value {
    let blocking = references(object).filter(|owner| owner.block_owner_deletion == Some(true));
    let unblocked: Vec<_> = blocking.cloned().map(without_blocking).collect();
    json!({"metadata": {"uid": object.uid, "ownerReferences": unblocked}})
}

/// The same for servers that know no strategic merge for the kind.
pub(super) fn unblock_merge_patch(object: &ObjectMeta) -> Value {
    owners_merge_patch(object, references(object).cloned().map(without_blocking).collect())
}

/// Takes a finalizer off an object, or nothing if it is not on it.
pub(super) fn finalizer_patch(object: &ObjectMeta, finalizer: &str) -> Option<Value> {
    if !has_finalizer(object, finalizer) {
        return None;
    }
    let kept: Vec<_> = object.finalizers.iter().flatten().filter(|other| *other != finalizer).collect();
    let kept = if kept.is_empty() { Value::Null } else { json!(kept) };
    Some(json!({"metadata": {"resourceVersion": object.resource_version, "finalizers": kept}}))
}

fn owners_merge_patch(object: &ObjectMeta, owners: Vec<OwnerReference>) -> Value {
    let owners = if owners.is_empty() { Value::Null } else { json!(owners) };
    json!({"metadata": {"resourceVersion": object.resource_version, "ownerReferences": owners}})
}

fn references(object: &ObjectMeta) -> impl Iterator<Item = &OwnerReference> {
    object.owner_references.iter().flatten()
}

fn without_blocking(owner: OwnerReference) -> OwnerReference {
    OwnerReference { block_owner_deletion: Some(false), ..owner }
}
