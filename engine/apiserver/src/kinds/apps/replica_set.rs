//! ReplicaSets.

use serde_json::Value;

use crate::kinds::core::SPEC_AND_STATUS;
use crate::kinds::pods::default_pod_template_spec;
use crate::kinds::walk::{At, Faults, object_mut, set_absent};
use crate::kinds::workloads::{
    Counts, is_usable, shown, validate_counts, validate_selector, validate_selector_is_kept,
    validate_template,
};
use crate::kinds::{Strategy, meta};

pub(super) const REPLICA_SET: Strategy = Strategy {
    default: |set| {
        let spec = object_mut(set, "spec");
        set_absent(spec, "replicas", 1);
        default_pod_template_spec(object_mut(spec, "template"));
    },
    prepare_create: |set| set_absent(object_mut(set, "status"), "replicas", 0),
    validate: |set| [meta::validate_builtin(set), validate_replica_set(set)].concat(),
    validate_update: |new, old| {
        let mut faults = meta::validate_builtin_update(new, old);
        faults.extend(validate_replica_set(new));
        faults.extend(validate_selector_is_kept(new, old));
        faults
    },
    validate_status: |new, old| {
        [meta::validate_builtin_update(new, old), validate_counts(new, &COUNTS)].concat()
    },
    ..SPEC_AND_STATUS
};

const COUNTS: Counts = Counts {
    non_negative: &[
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ],
    at_most_replicas: &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
    available_at_most_ready: Some("cannot be greater than readyReplicas"),
};

fn validate_replica_set(set: &Value) -> Faults {
    let spec = At::top(set, "spec");
    let selector = spec.child("selector");
    let mut faults: Faults = spec.child("replicas").non_negative().into_iter().collect();
    faults.extend(spec.child("minReadySeconds").non_negative());
    // The real server says so of ReplicaSets, too.
    faults.extend(validate_selector(&selector, "deployment"));
    if is_usable(selector.value) {
        faults.extend(validate_template(&spec.child("template"), selector.value));
    } else {
        faults.push(shown(&selector, "invalid label selector"));
    }
    faults
}
