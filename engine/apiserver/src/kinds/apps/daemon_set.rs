//! DaemonSets.

use serde_json::{Value, json};

use crate::field::{Error, Fault};
use crate::kinds::core::SPEC_AND_STATUS;
use crate::kinds::meta::annotation;
use crate::kinds::pods::{default_pod_template_spec, validate_label_selector, validate_pod_template};
use crate::kinds::walk::{At, Faults, map_mut, object_mut, same, set_absent, set_zero, text};
use crate::kinds::workloads::{
    Counts, is_usable, number_of, selects_nothing_in_particular, shown, validate_at_most_all,
    validate_collisions, validate_counts, validate_int_or_percent, validate_labels_are_selected,
    validate_runs_forever, validate_selector_is_kept,
};
use crate::kinds::{Strategy, internal, meta};

/// Counts changes of the template; a field once, and still told to clients.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(super) const DAEMON_SET: Strategy = Strategy {
    default: default_daemon_set,
    prepare_create: |set| {
        set_template_generation(set, template_generation(set).max(1));
        let status = object_mut(set, "status");
        for name in ["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"]
        {
            set_absent(status, name, 0);
        }
    },
    prepare_update: |new, old| {
        let changed = !same(&new["spec"]["template"], &old["spec"]["template"]);
        set_template_generation(new, template_generation(old) + i64::from(changed));
    },
    validate: |set| [meta::validate_builtin(set), validate_daemon_set(set)].concat(),
    validate_update: |new, old| {
        let mut faults = meta::validate_builtin_update(new, old);
        faults.extend(validate_selector_is_kept(new, old));
        faults.extend(validate_daemon_set(new));
        faults
    },
    validate_status: |new, old| {
        let mut faults = meta::validate_builtin_update(new, old);
        faults.extend(validate_counts(new, &COUNTS));
        faults.extend(validate_collisions(new, old));
        faults
    },
    ..SPEC_AND_STATUS
};

const COUNTS: Counts = Counts {
    non_negative: &[
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ],
    at_most_replicas: &[],
    available_at_most_ready: None,
};

fn default_daemon_set(set: &mut Value) {
    // Inside a stock server it is a field, so that every object has it before its fields get owners.
    set_template_generation(set, template_generation(set));
    let spec = object_mut(set, "spec");
    let strategy = object_mut(spec, "updateStrategy");
    set_zero(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = object_mut(strategy, "rollingUpdate");
        set_absent(rolling, "maxUnavailable", 1);
        set_absent(rolling, "maxSurge", 0);
    } else if strategy["rollingUpdate"].is_object() {
        // Inside a stock server these are plain fields, not pointers.
        let rolling = object_mut(strategy, "rollingUpdate");
        set_absent(rolling, "maxUnavailable", 0);
        set_absent(rolling, "maxSurge", 0);
    }
    set_absent(spec, "revisionHistoryLimit", 10);
    default_pod_template_spec(object_mut(spec, "template"));
}

fn template_generation(set: &Value) -> i64 {
    annotation(set, TEMPLATE_GENERATION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn set_template_generation(set: &mut Value, generation: i64) {
    let annotations = object_mut(object_mut(set, "metadata"), "annotations");
    map_mut(annotations).insert(TEMPLATE_GENERATION.into(), json!(generation.to_string()));
}

fn validate_daemon_set(set: &Value) -> Faults {
    let spec = At::top(set, "spec");
    let (selector, template) = (spec.child("selector"), spec.child("template"));
    let mut faults = validate_label_selector(selector.value, &selector.path);
    if is_usable(selector.value) {
        faults.extend(validate_labels_are_selected(&template, selector.value));
    }
    if selector.is_set() && selects_nothing_in_particular(selector.value) {
        faults.push(shown(&selector, "empty selector is invalid for daemonset"));
    }
    faults.extend(validate_pod_template(template.value, &template.path));
    faults.extend(validate_runs_forever(&template, "DaemonSet"));
    faults.extend(spec.child("minReadySeconds").non_negative());
    faults.extend(validate_strategy(&spec.child("updateStrategy")));
    faults.extend(spec.child("revisionHistoryLimit").non_negative());
    faults
}

fn validate_strategy(strategy: &At<'_>) -> Faults {
    let rolling = strategy.child("rollingUpdate");
    match strategy.text("type") {
        "OnDelete" => Faults::new(),
        "RollingUpdate" if !rolling.is_set() => vec![rolling.required("")],
        "RollingUpdate" => validate_rolling(&rolling),
        _ => {
            let shown = internal::show("DaemonSetUpdateStrategy", strategy.value);
            vec![Error {
                fault: Fault::NotSupported,
                path: strategy.path.clone(),
                value: None,
                detail: format!("{shown}: supported values: \"RollingUpdate\", \"OnDelete\""),
            }]
        }
    }
}

fn validate_rolling(rolling: &At<'_>) -> Faults {
    let (unavailable, surge) = (rolling.child("maxUnavailable"), rolling.child("maxSurge"));
    let mut faults = validate_int_or_percent(&unavailable);
    faults.extend(validate_int_or_percent(&surge));
    faults.extend(validate_at_most_all(&unavailable));
    faults.extend(validate_at_most_all(&surge));
    match (number_of(unavailable.value) != 0, number_of(surge.value) != 0) {
        (true, true) => faults.push(surge.invalid("may not be set when maxUnavailable is non-zero")),
        (false, false) => faults.push(unavailable.required("cannot be 0 when maxSurge is 0")),
        _ => {}
    }
    faults
}
