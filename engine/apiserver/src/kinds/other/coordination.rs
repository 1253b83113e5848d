//! `coordination.k8s.io`: leases.

use serde_json::Value;

use super::look::{Faults, int};
use crate::field::{Error, Path};
use crate::kinds::Strategy;

static LEASE: Strategy = Strategy {
    prepare_create: drop_disabled,
    prepare_update: |new, _| drop_disabled(new),
    validate,
    validate_update: |new, _| validate(new),
    unconditional_update: false,
    create_on_update: true,
    ..Strategy::PLAIN
};

pub(super) fn strategy(kind: &str) -> Option<&'static Strategy> {
    (kind == "Lease").then_some(&LEASE)
}

/// Coordinated leader election is off unless asked for, and so are its fields.
fn drop_disabled(lease: &mut Value) {
    if let Some(spec) = lease.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("strategy");
        spec.remove("preferredHolder");
    }
}

fn validate(lease: &Value) -> Faults {
    let spec = &lease["spec"];
    let path = Path::new("spec");
    let mut faults = Vec::new();
    if let Some(seconds) = int(spec, "leaseDurationSeconds")
        && seconds <= 0
    {
        faults.push(Error::invalid(&path.child("leaseDurationSeconds"), seconds, "must be greater than 0"));
    }
    if let Some(count) = int(spec, "leaseTransitions")
        && count < 0
    {
        let why = "must be greater than or equal to 0";
        faults.push(Error::invalid(&path.child("leaseTransitions"), count, why));
    }
    faults
}
