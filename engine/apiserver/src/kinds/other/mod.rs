//! Every group but core and `apps`.

mod addresses;
mod admissionregistration;
mod apiregistration;
pub(crate) mod autoscaling;
mod batch;
pub mod certificates;
mod conditions;
mod coordination;
mod discovery;
mod events;
mod flowcontrol;
pub(crate) mod look;
pub(crate) mod metadata;
mod networking;
mod node;
mod policy;
mod rbac;
mod resource;
mod rules;
pub(crate) mod scheduling;
mod storage;
#[cfg(test)]
mod tests;

use base64::Engine as _;
use serde_json::{Value, json};

use super::quantity::Quantity;
use super::selectors::validate_label_selector as selector;
use super::walk::At;
use super::{Generation, Strategy, selectors};
use crate::field::Path;

/// A kind whose status is kept apart, and that has nothing else of its own.
static WITH_STATUS: Strategy = Strategy { status: true, generation: Generation::Spec, ..Strategy::PLAIN };

static PLAIN: Strategy = Strategy::PLAIN;

pub(super) fn strategy(group: &str, kind: &str) -> &'static Strategy {
    let found = match group {
        "admissionregistration.k8s.io" => admissionregistration::strategy(kind),
        "apiextensions.k8s.io" => Some(&WITH_STATUS),
        "apiregistration.k8s.io" => apiregistration::strategy(kind),
        "autoscaling" => autoscaling::strategy(kind),
        "batch" => batch::strategy(kind),
        "certificates.k8s.io" => certificates::strategy(kind),
        "coordination.k8s.io" => coordination::strategy(kind),
        "discovery.k8s.io" => discovery::strategy(kind),
        "events.k8s.io" => events::strategy(kind),
        "flowcontrol.apiserver.k8s.io" => flowcontrol::strategy(kind),
        "networking.k8s.io" => networking::strategy(kind),
        "node.k8s.io" => node::strategy(kind),
        "policy" => policy::strategy(kind),
        "rbac.authorization.k8s.io" => rbac::strategy(kind),
        "resource.k8s.io" => resource::strategy(kind),
        "scheduling.k8s.io" => scheduling::strategy(kind),
        "storage.k8s.io" => storage::strategy(kind),
        _ => None,
    };
    found.unwrap_or(&PLAIN)
}

/// Sets `metadata.generation`, for kinds that the generic rule does not fit.
fn set_generation(object: &mut Value, generation: i64) {
    if let Some(fields) = look::fields(object) {
        fields.entry("metadata").or_insert_with(|| json!({}))["generation"] = generation.into();
    }
}

/// Keeps the old generation, or raises it by one.
fn raise_generation(new: &mut Value, old: &Value, changed: bool) {
    let before = old["metadata"]["generation"].as_i64().unwrap_or_default();
    if changed {
        set_generation(new, before + 1);
    } else if before != 0 {
        set_generation(new, before);
    }
}

/// What is wrong with a map of labels.
fn labels(labels: &Value, path: &Path) -> look::Faults {
    selectors::validate_labels(&At::new(labels, path.clone()))
}

fn quantity_is_negative(value: &Value) -> bool {
    Quantity::of(value).is_negative()
}

fn quantity_is_positive(value: &Value) -> bool {
    let amount = Quantity::of(value);
    !amount.is_negative() && !amount.is_zero()
}

/// How many bytes a base64 text stands for.
fn decoded_length(encoded: &str) -> usize {
    base64::engine::general_purpose::STANDARD.decode(encoded).map_or(0, |bytes| bytes.len())
}
