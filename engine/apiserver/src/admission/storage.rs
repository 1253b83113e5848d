//! StorageObjectInUseProtection and PersistentVolumeClaimResize: volumes stay while they are used, and
//! grow only where they can.

use serde_json::{Value, json};

use super::usage::quantity;
use super::{Attributes, Lookup, Operation};
use crate::kinds::walk::{get, list, object_mut, set_absent, text};
use crate::status::Result;

pub(super) fn protect(request: &Attributes<'_>, object: &mut Value) {
    let finalizer = match (request.group, request.resource) {
        ("", "persistentvolumes") => "kubernetes.io/pv-protection",
        ("", "persistentvolumeclaims") => "kubernetes.io/pvc-protection",
        ("storage.k8s.io", "volumeattributesclasses") => "kubernetes.io/vac-protection",
        _ => return,
    };
    if !request.creates(request.group, request.resource) {
        return;
    }
    let meta = object_mut(object, "metadata");
    if !list(&meta["finalizers"]).iter().any(|one| one == finalizer) {
        set_absent(meta, "finalizers", json!([]));
        if let Some(finalizers) = meta["finalizers"].as_array_mut() {
            finalizers.push(finalizer.into());
        }
    }
}

pub(super) fn check_resize(
    request: &Attributes<'_>,
    claim: &Value,
    old: Option<&Value>,
    lookup: &dyn Lookup,
) -> Result<()> {
    let Some(old) = old else { return Ok(()) };
    if !request.writes("", "persistentvolumeclaims") || request.operation != Operation::Update {
        return Ok(());
    }
    let size = |claim: &Value| quantity(get(claim, &["spec", "resources", "requests", "storage"]));
    if size(claim) <= size(old) {
        return Ok(());
    }
    if text(get(old, &["status"]), "phase") != "Bound" {
        return Err(request.forbidden(claim, "Only bound persistent volume claims can be expanded"));
    }
    let class = |claim: &Value| text(get(claim, &["spec"]), "storageClassName").to_owned();
    let name = class(claim);
    let grows = !name.is_empty()
        && name == class(old)
        && lookup
            .get("storage.k8s.io", "storageclasses", "", &name)
            .is_some_and(|class| class["allowVolumeExpansion"].as_bool() == Some(true));
    if grows {
        return Ok(());
    }
    let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
    Err(request.forbidden(claim, why))
}
