//! Volumes, claims, and what provides them.

use serde_json::Value;

use super::super::walk::{At, list, same};
use super::nodes::{self, Values};
use super::{annotation, at, fraction};
use crate::field::Path;

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const CLASS_DEPRECATED: &str = r#"deprecated since v1.8; use "storageClassName" attribute instead"#;
const MOUNT_ANNOTATION: &str = "volume.beta.kubernetes.io/mount-options";
const MOUNT_DEPRECATED: &str = r#"deprecated since v1.31; use "mountOptions" attribute instead"#;

/// Since when a volume plugin is deprecated and without function.
pub(super) fn removed_plugin(name: &str) -> Option<&'static str> {
    Some(match name {
        "photonPersistentDisk" => "deprecated in v1.11, non-functional in v1.16+",
        "gitRepo" => "deprecated in v1.11, and disabled by default in v1.33+",
        "scaleIO" => "deprecated in v1.16, non-functional in v1.22+",
        "flocker" | "storageos" | "quobyte" => "deprecated in v1.22, non-functional in v1.25+",
        "glusterfs" => "deprecated in v1.25, non-functional in v1.26+",
        "cephfs" | "rbd" => "deprecated in v1.28, non-functional in v1.31+",
        _ => return None,
    })
}

/// A warning if a volume or a persistent volume uses a plugin that is gone.
pub(super) fn plugin(volume: &At<'_>, name: &str) -> Option<String> {
    let why = removed_plugin(name).filter(|_| volume.has(name))?;
    // The real server's spelling differs from the field's here.
    let shown = if name == "storageos" { "storageOS" } else { name };
    Some(at(&volume.path.child(shown), why))
}

pub(super) fn volume(volume: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let annotations = Path::new("metadata.annotations");
    for (key, why) in [(CLASS_ANNOTATION, CLASS_DEPRECATED), (MOUNT_ANNOTATION, MOUNT_DEPRECATED)] {
        warnings.extend(annotation(volume, key).map(|_| at(&annotations.key(key), why)));
    }
    let spec = At::top(volume, "spec");
    let policy = spec.child("persistentVolumeReclaimPolicy");
    if policy.str() == "Recycle" {
        warnings.push(at(
            &policy.path,
            "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.",
        ));
    }
    let terms = spec.child("nodeAffinity").child("required").child("nodeSelectorTerms");
    warnings.extend(terms.items().flat_map(|term| nodes::selector_term(&term, Values::Checked)));
    let plugins = ["cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd"];
    warnings.extend(plugins.into_iter().filter_map(|name| plugin(&spec, name)));
    warnings
}

pub(super) fn claim(claim: &Value) -> Vec<String> {
    let key = Path::new("metadata.annotations").key(CLASS_ANNOTATION);
    let mut warnings: Vec<String> =
        annotation(claim, CLASS_ANNOTATION).map(|_| at(&key, CLASS_DEPRECATED)).into_iter().collect();
    warnings.extend(claim_spec(&At::top(claim, "spec")));
    warnings
}

/// Warnings about the spec of a claim, wherever it is.
pub(super) fn claim_spec(spec: &At<'_>) -> Vec<String> {
    let resources = spec.child("resources");
    ["requests", "limits"].iter().filter_map(|kind| fraction(&resources.child(kind), "storage")).collect()
}

pub(super) fn class(class: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for topology in At::top(class, "allowedTopologies").items() {
        for expression in topology.child("matchLabelExpressions").items() {
            let key = expression.child("key");
            warnings.extend(nodes::deprecated_label(key.str()).map(|why| at(&key.path, why)));
        }
    }
    warnings
}

pub(super) fn capacity(capacity: &Value) -> Vec<String> {
    nodes::label_selector(&At::top(capacity, "nodeTopology"))
}

pub(super) fn driver(new: &Value, old: Option<&Value>) -> Vec<String> {
    let requests = &new["spec"]["tokenRequests"];
    let changed = old.is_none_or(|old| !same(requests, &old["spec"]["tokenRequests"]));
    let decided = !new["spec"]["serviceAccountTokenInSecrets"].is_null();
    if list(requests).is_empty() || !changed || decided {
        return Vec::new();
    }
    vec![
        "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"
            .to_owned(),
    ]
}
