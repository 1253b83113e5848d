//! Deployments.

use serde_json::Value;

use crate::field::{Error, Fault};
use crate::kinds::core::SPEC_AND_STATUS;
use crate::kinds::pods::default_pod_template_spec;
use crate::kinds::walk::{At, Faults, object_mut, set_absent, set_zero, text};
use crate::kinds::workloads::{
    Counts, is_usable, number_of, shown, validate_at_most_all, validate_collisions, validate_counts,
    validate_int_or_percent, validate_selector, validate_selector_is_kept, validate_template,
};
use crate::kinds::{Generation, Strategy, internal, meta};

pub(super) const DEPLOYMENT: Strategy = Strategy {
    default: default_deployment,
    validate: |object| [meta::validate_builtin(object), validate_deployment(object)].concat(),
    validate_update: |new, old| {
        let mut faults = meta::validate_builtin_update(new, old);
        faults.extend(validate_deployment(new));
        faults.extend(validate_selector_is_kept(new, old));
        faults
    },
    validate_status: |new, old| {
        let mut faults = meta::validate_builtin_update(new, old);
        faults.extend(validate_counts(new, &COUNTS));
        faults.extend(validate_collisions(new, old));
        faults
    },
    generation: Generation::SpecAndAnnotations,
    ..SPEC_AND_STATUS
};

const COUNTS: Counts = Counts {
    non_negative: &[
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ],
    at_most_replicas: &["updatedReplicas", "readyReplicas", "availableReplicas"],
    available_at_most_ready: Some("cannot be greater than readyReplicas"),
};

fn default_deployment(deployment: &mut Value) {
    let spec = object_mut(deployment, "spec");
    set_absent(spec, "replicas", 1);
    let strategy = object_mut(spec, "strategy");
    set_zero(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = object_mut(strategy, "rollingUpdate");
        set_absent(rolling, "maxUnavailable", "25%");
        set_absent(rolling, "maxSurge", "25%");
    }
    set_absent(spec, "revisionHistoryLimit", 10);
    set_absent(spec, "progressDeadlineSeconds", 600);
    default_pod_template_spec(object_mut(spec, "template"));
}

fn validate_deployment(deployment: &Value) -> Faults {
    let spec = At::top(deployment, "spec");
    let selector = spec.child("selector");
    let mut faults: Faults = spec.child("replicas").non_negative().into_iter().collect();
    faults.extend(validate_selector(&selector, "deployment"));
    if is_usable(selector.value) {
        faults.extend(validate_template(&spec.child("template"), selector.value));
    } else {
        faults.push(shown(&selector, "invalid label selector"));
    }
    faults.extend(validate_strategy(&spec.child("strategy")));
    faults.extend(spec.child("minReadySeconds").non_negative());
    faults.extend(spec.child("revisionHistoryLimit").non_negative());
    let deadline = spec.child("progressDeadlineSeconds");
    if let Some(seconds) = deadline.value.as_i64() {
        faults.extend(deadline.non_negative());
        if seconds <= spec.int("minReadySeconds").unwrap_or(0) {
            faults.push(deadline.invalid("must be greater than minReadySeconds"));
        }
    }
    faults
}

fn validate_strategy(strategy: &At<'_>) -> Faults {
    let rolling = strategy.child("rollingUpdate");
    match strategy.text("type") {
        "Recreate" => {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            rolling.is_set().then(|| rolling.forbidden(why)).into_iter().collect()
        }
        "RollingUpdate" => validate_rolling(&rolling),
        _ => {
            let shown = internal::show("DeploymentStrategy", strategy.value);
            vec![Error {
                fault: Fault::NotSupported,
                path: strategy.path.clone(),
                value: None,
                detail: format!("{shown}: supported values: \"Recreate\", \"RollingUpdate\""),
            }]
        }
    }
}

fn validate_rolling(rolling: &At<'_>) -> Faults {
    let (unavailable, surge) = (rolling.child("maxUnavailable"), rolling.child("maxSurge"));
    let mut faults = validate_int_or_percent(&unavailable);
    faults.extend(validate_int_or_percent(&surge));
    if number_of(unavailable.value) == 0 && number_of(surge.value) == 0 {
        faults.push(unavailable.invalid("may not be 0 when `maxSurge` is 0"));
    }
    faults.extend(validate_at_most_all(&unavailable));
    faults
}
