//! Volumes, claims, and what provides them.

use jiff::Timestamp;
use serde_json::Value;

use super::read::{Read, age, joined, quantity};

const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) fn core(kind: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    Some(match kind {
        "PersistentVolume" => volume(object, now),
        "PersistentVolumeClaim" => claim(object, now),
        _ => return None,
    })
}

pub(super) fn cells(kind: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let name = object.text("metadata.name");
    let age = age(object, now);
    let flag_or = |path: &str, absent: bool| Value::Bool(object.at(path).as_bool().unwrap_or(absent));
    Some(match kind {
        "StorageClass" => {
            let default = [
                "storageclass.kubernetes.io/is-default-class",
                "storageclass.beta.kubernetes.io/is-default-class",
            ]
            .iter()
            .any(|key| object.annotation(key) == Some("true"));
            let suffix = if default { " (default)" } else { "" };
            vec![
                format!("{name}{suffix}").into(),
                object.text("provisioner").into(),
                object.at("reclaimPolicy").as_str().unwrap_or("Delete").into(),
                object.at("volumeBindingMode").as_str().unwrap_or("Immediate").into(),
                flag_or("allowVolumeExpansion", false),
                age.into(),
            ]
        }
        "VolumeAttributesClass" => vec![name.into(), object.text("driverName").into(), age.into()],
        "CSIDriver" => {
            let audiences = object.at("spec.tokenRequests").as_array().map(|requests| {
                requests.iter().map(|request| request.text("audience")).collect::<Vec<_>>().join(",")
            });
            let modes = joined(object.list("spec.volumeLifecycleModes"));
            vec![
                name.into(),
                flag_or("spec.attachRequired", true),
                flag_or("spec.podInfoOnMount", false),
                flag_or("spec.storageCapacity", false),
                audiences.unwrap_or_else(|| "<unset>".to_owned()).into(),
                flag_or("spec.requiresRepublish", false),
                if modes.is_empty() { "<none>".to_owned() } else { modes }.into(),
                age.into(),
            ]
        }
        "CSINode" => vec![name.into(), object.list("spec.drivers").len().into(), age.into()],
        "VolumeAttachment" => vec![
            name.into(),
            object.text("spec.attacher").into(),
            object.text("spec.source.persistentVolumeName").into(),
            object.text("spec.nodeName").into(),
            object.flag("status.attached").into(),
            age.into(),
        ],
        _ => return None,
    })
}

fn volume(object: &Value, now: Timestamp) -> Vec<Value> {
    let claim = object.at("spec.claimRef");
    let claim = match claim.is_null() {
        true => String::new(),
        false => format!("{}/{}", claim.text("namespace"), claim.text("name")),
    };
    vec![
        object.text("metadata.name").into(),
        quantity(object.at("spec.capacity.storage")).into(),
        access_modes(object.list("spec.accessModes")).into(),
        object.text("spec.persistentVolumeReclaimPolicy").into(),
        phase(object).into(),
        claim.into(),
        class(object).into(),
        object.at("spec.volumeAttributesClassName").as_str().unwrap_or("<unset>").into(),
        object.text("status.reason").into(),
        age(object, now).into(),
        object.at("spec.volumeMode").as_str().unwrap_or("<unset>").into(),
    ]
}

fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let volume = object.text("spec.volumeName");
    // What a claim has is known only once it is bound.
    let (capacity, modes) = match volume {
        "" => Default::default(),
        _ => {
            (quantity(object.at("status.capacity.storage")), access_modes(object.list("status.accessModes")))
        }
    };
    vec![
        object.text("metadata.name").into(),
        phase(object).into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        class(object).into(),
        object.at("spec.volumeAttributesClassName").as_str().unwrap_or("<unset>").into(),
        age(object, now).into(),
        object.at("spec.volumeMode").as_str().unwrap_or("<unset>").into(),
    ]
}

fn phase(object: &Value) -> &str {
    if object.has("metadata.deletionTimestamp") { "Terminating" } else { object.text("status.phase") }
}

fn class(object: &Value) -> &str {
    object.annotation(OLD_CLASS).unwrap_or_else(|| object.text("spec.storageClassName"))
}

/// Short names, always in the same order.
fn access_modes(modes: &[Value]) -> String {
    let known = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let present = known.iter().filter(|(mode, _)| modes.iter().any(|one| one == mode));
    present.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}
