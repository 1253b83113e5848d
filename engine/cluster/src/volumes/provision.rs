//! Simulated volumes: made for a claim of a class whose provisioner is ours.

use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec,
};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt as _;
use kube::api::ObjectMeta;

/// The provisioner of simulated volumes.
pub const PROVISIONER: &str = "sim.koinon.dev";
/// The class that claims get which name none.
pub const CLASS: &str = "standard";
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

/// The class that a simulated cluster offers.
pub(super) fn own_class() -> StorageClass {
    StorageClass {
        metadata: ObjectMeta {
            name: Some(CLASS.into()),
            annotations: Some([(IS_DEFAULT.to_owned(), "true".to_owned())].into()),
            ..ObjectMeta::default()
        },
        provisioner: PROVISIONER.into(),
        reclaim_policy: Some("Delete".into()),
        volume_binding_mode: Some("Immediate".into()),
        allow_volume_expansion: Some(true),
        ..StorageClass::default()
    }
}

/// The class for claims that name none: the youngest of those that say so.
pub(super) fn default_class<'a>(
    classes: impl IntoIterator<Item = &'a std::sync::Arc<StorageClass>>,
) -> Option<&'a str> {
    let defaults = classes
        .into_iter()
        .filter(|class| class.annotations().get(IS_DEFAULT).is_some_and(|value| value == "true"));
    let newest = defaults.max_by_key(|class| {
        let created = class.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (created, std::cmp::Reverse(class.name_any()))
    });
    newest.and_then(|class| class.metadata.name.as_deref())
}

/// The name of the volume that is made for a claim.
pub(super) fn volume_name(claim: &PersistentVolumeClaim) -> String {
    format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or_default())
}

/// The volume that is made for a claim, bound to it from the start.
pub(super) fn volume(claim: &PersistentVolumeClaim, class: &StorageClass) -> PersistentVolume {
    let name = volume_name(claim);
    let spec = claim.spec.clone().unwrap_or_default();
    let requests = spec.resources.and_then(|resources| resources.requests).unwrap_or_default();
    let capacity = requests.into_iter().filter(|(name, _)| name == "storage").collect();
    PersistentVolume {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            annotations: Some([(PROVISIONED_BY.to_owned(), PROVISIONER.to_owned())].into()),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            capacity: Some(capacity),
            access_modes: spec.access_modes,
            volume_mode: spec.volume_mode,
            volume_attributes_class_name: spec.volume_attributes_class_name,
            storage_class_name: class.metadata.name.clone(),
            persistent_volume_reclaim_policy: class.reclaim_policy.clone(),
            mount_options: class.mount_options.clone(),
            claim_ref: Some(reference(claim)),
            csi: Some(CSIPersistentVolumeSource {
                driver: PROVISIONER.into(),
                volume_handle: name,
                ..CSIPersistentVolumeSource::default()
            }),
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }
}

/// A reference to a claim, as volumes carry it.
pub(super) fn reference(claim: &PersistentVolumeClaim) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("PersistentVolumeClaim".into()),
        namespace: claim.metadata.namespace.clone(),
        name: claim.metadata.name.clone(),
        uid: claim.metadata.uid.clone(),
        resource_version: claim.metadata.resource_version.clone(),
        field_path: None,
    }
}
