//! Something of ours that each federated object owns, so that its deletion in the foreground waits until we know of it.
//!
//! A garbage collector takes the finalizer of a foreground deletion off as soon as nothing that the object owns blocks it, and
//! then nobody can tell any more that members' objects were to go too: not a role that was not running, and not one whose watch
//! was broken. An anchor blocks it: it has a finalizer that only we take off, once what is meant is written down.
//!
//! No other deletion of a federated object ever waits for us. Without the role, an anchor outlives its object and waits alone.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use koinon_api::names::{MANAGED_BY, MANAGER};
use kube::api::ObjectMeta;

use crate::members::Kind;

/// Keeps an anchor until we have seen why it goes.
const FINALIZER: &str = "koinon.dev/anchor";

/// The anchor of a federated object.
pub(super) fn anchor(kind: Kind, of: &ObjectMeta) -> ControllerRevision {
    let uid = of.uid.clone().unwrap_or_default();
    let owner = OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: kind.as_str().to_owned(),
        name: of.name.clone().unwrap_or_default(),
        uid: uid.clone(),
        block_owner_deletion: Some(true),
        controller: None,
    };
    let metadata = ObjectMeta {
        name: Some(name(&uid)),
        namespace: of.namespace.clone(),
        labels: Some([(MANAGED_BY.to_owned(), MANAGER.to_owned())].into()),
        finalizers: Some(vec![FINALIZER.to_owned()]),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    // Revisions must say something, and this one has nothing to say.
    let data = RawExtension(serde_json::Value::Object(serde_json::Map::new()));
    ControllerRevision { metadata, revision: 1, data: Some(data) }
}

/// The name of the anchor of whoever has this UID.
pub(super) fn name(uid: &str) -> String {
    format!("koinon-{uid}")
}

/// Whether this is an anchor that waits for us.
pub(super) fn is_anchor(metadata: &ObjectMeta) -> bool {
    metadata.finalizers.iter().flatten().any(|one| one == FINALIZER)
}

/// The finalizers that are left without ours.
pub(super) fn released(metadata: &ObjectMeta) -> Vec<String> {
    metadata.finalizers.iter().flatten().filter(|one| *one != FINALIZER).cloned().collect()
}

/// Whose anchor it is, if it is still anybody's.
pub(super) fn owner(metadata: &ObjectMeta) -> Option<(Kind, &OwnerReference)> {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.find_map(|owner| {
        let kind =
            [Kind::ReplicaSet, Kind::Deployment].into_iter().find(|kind| kind.as_str() == owner.kind)?;
        (metadata.name.as_deref() == Some(&name(&owner.uid))).then_some((kind, owner))
    })
}

/// Nothing of what it says is ever read.
pub(super) fn slim(anchor: &mut ControllerRevision) {
    anchor.data = None;
    anchor.metadata.annotations = None::<BTreeMap<_, _>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anchor_blocks_its_owner_and_knows_it() {
        let of = ObjectMeta {
            name: Some("web".into()),
            namespace: Some("default".into()),
            uid: Some("1".into()),
            ..ObjectMeta::default()
        };
        let mut metadata = anchor(Kind::Deployment, &of).metadata;
        assert!(is_anchor(&metadata));
        let (kind, reference) = owner(&metadata).unwrap();
        assert_eq!(
            (kind, reference.name.as_str(), reference.block_owner_deletion),
            (Kind::Deployment, "web", Some(true))
        );
        assert_eq!(released(&metadata), [""; 0]);
        // Copied by somebody to another name, or orphaned.
        metadata.name = Some("copy".into());
        assert!(owner(&metadata).is_none());
        metadata.owner_references = None;
        assert!(owner(&metadata).is_none());
    }
}
