//! Namespaces.

use serde_json::{Value, json};

use super::{META_ONLY, Strategy};
use crate::field::{Error, Path};
use crate::kinds::meta;
use crate::kinds::walk::{At, Faults, copy, list, map_mut, object_mut, set_zero, text};
use crate::names;

pub(super) const NAMESPACE: Strategy = Strategy {
    default: |namespace| {
        add_name_label(namespace);
        set_zero(object_mut(namespace, "status"), "phase", "Active");
    },
    prepare_create,
    prepare_update: |new, old| {
        copy(object_mut(new, "spec"), &old["spec"], "finalizers");
        add_name_label(new);
    },
    validate: |namespace| [meta::validate_builtin(namespace), validate_finalizers(namespace)].concat(),
    validate_update: |new, old| {
        let mut faults = meta::validate_builtin_again(new, false, names::dns1123_label);
        faults.extend(validate_finalizers(new));
        faults.extend(meta::validate_builtin_update(new, old));
        faults
    },
    validate_status,
    name: names::dns1123_label,
    status: true,
    ..META_ONLY
};

/// Selectors of namespaces can rely on a label with the name.
fn add_name_label(namespace: &mut Value) {
    let meta = object_mut(namespace, "metadata");
    let name = text(meta, "name").to_owned();
    if !name.is_empty() {
        map_mut(object_mut(meta, "labels")).insert("kubernetes.io/metadata.name".into(), name.into());
    }
}

fn prepare_create(namespace: &mut Value) {
    // A generated name was not there when defaults were set. A bad one gets its label only once it was
    // validated, which is never.
    let name = text(&namespace["metadata"], "name");
    if names::dns1123_label(name).is_empty() {
        add_name_label(namespace);
    }
    map_mut(namespace).insert("status".into(), json!({"phase": "Active"}));
    let spec = object_mut(namespace, "spec");
    let mut finalizers = list(&spec["finalizers"]).to_vec();
    if !finalizers.contains(&"kubernetes".into()) {
        finalizers.push("kubernetes".into());
    }
    map_mut(spec).insert("finalizers".into(), finalizers.into());
}

fn validate_finalizers(namespace: &Value) -> Faults {
    let finalizers = At::top(namespace, "spec").child("finalizers");
    let mut faults = Faults::new();
    for one in finalizers.items() {
        let at = At::new(one.value, finalizers.path.clone());
        faults.extend(at.obey(names::qualified_name));
        faults.extend(meta::validate_kube_finalizer(&at));
    }
    faults
}

fn validate_status(new: &Value, old: &Value) -> Faults {
    let mut faults = meta::validate_builtin_update(new, old);
    let phase = text(&new["status"], "phase");
    let leaving = !new["metadata"]["deletionTimestamp"].is_null();
    let (expected, why) = if leaving {
        ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty")
    } else {
        ("Active", "may only be 'Active' if `deletionTimestamp` is empty")
    };
    if phase != expected {
        faults.push(Error::invalid(&Path::new("status").child("Phase"), phase, why));
    }
    faults
}
