//! ReplicationControllers and PodTemplates.

use serde_json::Value;

use super::{Generation, SPEC_AND_STATUS, Strategy};
use crate::field::Error;
use crate::kinds::meta;
use crate::kinds::pods::{default_pod_template_spec, validate_pod_template};
use crate::kinds::walk::{At, Faults, find_path_mut, get, is_empty, map_mut, object_mut, set_absent};
use crate::kinds::workloads::{Counts, validate_counts};

pub(super) const REPLICATION_CONTROLLER: Strategy = Strategy {
    default: default_controller,
    prepare_create: |controller| set_absent(object_mut(controller, "status"), "replicas", 0),
    validate: |controller| [meta::validate_builtin(controller), validate_controller(controller)].concat(),
    validate_update: |new, old| [meta::validate_builtin_update(new, old), validate_controller(new)].concat(),
    validate_status: |new, old| {
        [meta::validate_builtin_update(new, old), validate_counts(new, &COUNTS)].concat()
    },
    ..SPEC_AND_STATUS
};

pub(super) const POD_TEMPLATE: Strategy = Strategy {
    default: |object| default_pod_template_spec(object_mut(object, "template")),
    validate: |object| [meta::validate_builtin(object), validate_template(object)].concat(),
    validate_update: |new, old| [meta::validate_builtin_update(new, old), validate_template(new)].concat(),
    generation: Generation::Spec,
    ..Strategy::PLAIN
};

const COUNTS: Counts = Counts {
    non_negative: &[
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
    ],
    at_most_replicas: &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
    available_at_most_ready: Some("cannot be greater than readyReplicas"),
};

fn default_controller(controller: &mut Value) {
    let labels = get(controller, &["spec", "template", "metadata", "labels"]).clone();
    if labels.is_object() {
        if is_empty(get(controller, &["spec", "selector"])) {
            map_mut(object_mut(controller, "spec")).insert("selector".into(), labels.clone());
        }
        if is_empty(get(controller, &["metadata", "labels"])) {
            map_mut(object_mut(controller, "metadata")).insert("labels".into(), labels);
        }
    }
    set_absent(object_mut(controller, "spec"), "replicas", 1);
    if let Some(template) = find_path_mut(controller, &["spec", "template"]) {
        default_pod_template_spec(template);
    }
}

fn validate_controller(controller: &Value) -> Faults {
    let spec = At::top(controller, "spec");
    let (selector, template) = (spec.child("selector"), spec.child("template"));
    let mut faults: Faults = spec.child("minReadySeconds").non_negative().into_iter().collect();
    if is_empty(selector.value) {
        faults.push(selector.required(""));
    }
    faults.extend(spec.child("replicas").non_negative());
    if !template.is_set() {
        faults.push(template.required(""));
        return faults;
    }
    let labels = template.child("metadata").child("labels");
    if selector.entries().any(|(key, value)| labels.value.get(key) != Some(value.value)) {
        faults.push(labels.invalid("`selector` does not match template `labels`"));
    }
    faults.extend(validate_pod_template(template.value, &template.path));
    let policy = template.child("spec").child("restartPolicy");
    if policy.str() != "Always" {
        faults.push(Error::not_supported(&policy.path, policy.str(), &["Always"]));
    }
    let deadline = template.child("spec").child("activeDeadlineSeconds");
    if deadline.is_set() {
        faults.push(deadline.forbidden("activeDeadlineSeconds in ReplicationController is not Supported"));
    }
    faults
}

fn validate_template(object: &Value) -> Faults {
    let template = At::top(object, "template");
    validate_pod_template(template.value, &template.path)
}
