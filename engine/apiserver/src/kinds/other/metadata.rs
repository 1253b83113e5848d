//! What the kinds of these groups ask of metadata, besides what is asked of every kind: most ask the same
//! again, and causes list it as often as it was asked.

use serde_json::Value;

use super::look::{Faults, text};
use crate::kinds::{meta, strategy};

/// One more look at metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// As if the object were new …
    New,
    /// … or at what changed.
    Change,
    /// The same two, but any finalizer will do.
    AnyFinalizerNew,
    AnyFinalizerChange,
}

/// The looks that an update of the whole object, and one of its status, take.
fn looks(group: &str, kind: &str) -> (&'static [Look], &'static [Look]) {
    use Look::{AnyFinalizerChange, AnyFinalizerNew, Change, New};
    match (group, kind) {
        ("admissionregistration.k8s.io", _) => (&[AnyFinalizerNew], &[]),
        ("autoscaling", "HorizontalPodAutoscaler") => (&[Change], &[Change]),
        // What changed is looked at in between, by its own rules.
        ("batch", "Job") => (&[New], &[Change]),
        ("batch", "CronJob") => (&[Change], &[]),
        ("certificates.k8s.io", _) => (&[New, Change], &[New, Change]),
        ("coordination.k8s.io" | "node.k8s.io", _) => (&[AnyFinalizerChange], &[]),
        ("discovery.k8s.io", _) => (&[New], &[]),
        ("events.k8s.io", _) => (&[Change], &[]),
        ("flowcontrol.apiserver.k8s.io", _) => (&[New], &[]),
        ("networking.k8s.io", "Ingress") => (&[Change, New], &[Change]),
        ("networking.k8s.io", "IngressClass") => (&[Change, New], &[]),
        ("networking.k8s.io", _) => (&[Change], &[Change]),
        // What changed is looked at by their own rules.
        ("rbac.authorization.k8s.io", _) => (&[New], &[]),
        ("resource.k8s.io", "ResourceSlice") => (&[Change], &[]),
        ("resource.k8s.io", _) => (&[New, Change], &[Change]),
        ("scheduling.k8s.io", _) => (&[Change], &[]),
        ("storage.k8s.io", "StorageClass" | "CSIStorageCapacity") => (&[New, Change], &[]),
        ("storage.k8s.io", "VolumeAttachment") => (&[New], &[New]),
        ("storage.k8s.io", "CSINode") => (&[New], &[]),
        ("storage.k8s.io", _) => (&[Change], &[]),
        _ => (&[], &[]),
    }
}

/// What the kind's own rules find wrong with the metadata of a new object.
pub(crate) fn validate_create(group: &str, kind: &str, object: &Value) -> Faults {
    let any = matches!(group, "admissionregistration.k8s.io" | "coordination.k8s.io" | "node.k8s.io")
        || looks(group, kind).0.is_empty();
    if any { Vec::new() } else { meta::validate_builtin(object) }
}

/// What the kind's own rules find wrong with the metadata of an update of the whole object.
pub(crate) fn validate_update(group: &str, kind: &str, new: &Value, old: &Value) -> Faults {
    looks(group, kind).0.iter().flat_map(|look| look.take(group, kind, new, old)).collect()
}

/// The same of an update through `/status`.
pub(crate) fn validate_status(group: &str, kind: &str, new: &Value, old: &Value) -> Faults {
    looks(group, kind).1.iter().flat_map(|look| look.take(group, kind, new, old)).collect()
}

impl Look {
    fn take(self, group: &str, kind: &str, new: &Value, old: &Value) -> Faults {
        let namespaced = !text(&old["metadata"], "namespace").is_empty();
        let name = strategy(group, kind).name;
        match self {
            Look::New => meta::validate_builtin_again(new, namespaced, name),
            Look::Change => meta::validate_builtin_update(new, old),
            Look::AnyFinalizerNew => meta::validate_meta(new, namespaced, name),
            Look::AnyFinalizerChange => meta::validate_change(new, old),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::field;

    #[test]
    fn what_is_wrong_is_told_as_often_as_it_is_looked_at() {
        let old = json!({"metadata": {"name": "a", "resourceVersion": "1"}});
        let new = json!({"metadata": {"name": "a", "resourceVersion": "1", "labels": {"a": "-"},
            "finalizers": ["x"]}});
        for (group, kind, labels, finalizers) in [
            ("scheduling.k8s.io", "PriorityClass", 1, 1),
            ("rbac.authorization.k8s.io", "ClusterRole", 1, 1),
            ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", 1, 0),
            ("node.k8s.io", "RuntimeClass", 1, 0),
            ("policy", "PodDisruptionBudget", 0, 0),
        ] {
            let faults = validate_update(group, kind, &new, &old);
            let told = |path: &str| {
                let at = field::Path::new(path);
                faults.iter().filter(|fault| fault.path == at).count()
            };
            assert_eq!(told("metadata.labels"), labels, "{kind}: {faults:?}");
            assert_eq!(told("metadata.finalizers[0]"), finalizers, "{kind}: {faults:?}");
        }
    }
}
