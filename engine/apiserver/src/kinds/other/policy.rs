//! `policy`: disruption budgets.

use serde_json::Value;

use super::look::{Faults, has, not_negative, one_of, shown, text};
use super::rules;
use crate::field::Path;
use crate::kinds::{Generation, Strategy};

static DISRUPTION_BUDGET: Strategy = Strategy {
    validate,
    validate_update: |new, _| validate(new),
    validate_status,
    status: true,
    generation: Generation::Spec,
    unconditional_update: false,
    // It has no rule of its own for names.
    name: crate::names::path_segment,
    ..Strategy::PLAIN
};

pub(super) fn strategy(kind: &str) -> Option<&'static Strategy> {
    (kind == "PodDisruptionBudget").then_some(&DISRUPTION_BUDGET)
}

fn validate(budget: &Value) -> Faults {
    let spec = &budget["spec"];
    let path = Path::new("spec");
    let mut faults = Vec::new();
    if has(spec, "minAvailable") && has(spec, "maxUnavailable") {
        // The whole spec, with the names and the order that Go gives its fields inside the server.
        let value = format!(
            r#"{{"MinAvailable":{},"Selector":{},"MaxUnavailable":{},"UnhealthyPodEvictionPolicy":{}}}"#,
            spec["minAvailable"],
            crate::kinds::selectors::show(&spec["selector"]),
            spec["maxUnavailable"],
            spec["unhealthyPodEvictionPolicy"],
        );
        faults.push(shown(&path, &value, "minAvailable and maxUnavailable cannot be both set"));
    }
    for key in ["minAvailable", "maxUnavailable"] {
        if has(spec, key) {
            faults.extend(rules::share(&spec[key], &path.child(key)));
        }
    }
    faults.extend(super::selector(&spec["selector"], &path.child("selector")));
    if has(spec, "unhealthyPodEvictionPolicy") {
        let at = path.child("unhealthyPodEvictionPolicy");
        faults.extend(one_of(
            text(spec, "unhealthyPodEvictionPolicy"),
            &at,
            &["AlwaysAllow", "IfHealthyBudget"],
        ));
    }
    faults
}

fn validate_status(new: &Value, _old: &Value) -> Faults {
    let path = Path::new("status");
    let status = &new["status"];
    let mut faults = super::conditions::validate(status, &path.child("conditions"));
    for key in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        faults.extend(not_negative(status, key, &path));
    }
    faults
}
