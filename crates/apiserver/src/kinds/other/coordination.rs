//! `coordination.k8s.io`: leases.

use serde_json::Value;

use super::look::{Faults, each_wrong, has, int, text};
use crate::field::{Error, Path};
use crate::kinds::Strategy;
use crate::names;

static LEASE: Strategy = Strategy {
    validate,
    validate_update: |new, _| validate(new),
    unconditional_update: false,
    create_on_update: true,
    ..Strategy::PLAIN
};

pub(super) fn strategy(kind: &str) -> Option<&'static Strategy> {
    (kind == "Lease").then_some(&LEASE)
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
    let strategy = text(spec, "strategy");
    if has(spec, "strategy") {
        // The real server names the field twice.
        let at = path.child("strategy").child("strategy");
        if strategy.contains('/') {
            faults.extend(each_wrong(&at, strategy, names::qualified_name(strategy)));
        } else if strategy != "OldestEmulationVersion" {
            faults.push(Error::not_supported(&at, strategy, &["OldestEmulationVersion"]));
        }
    }
    if !text(spec, "preferredHolder").is_empty() && strategy.is_empty() {
        let why = "may only be specified if `strategy` is defined";
        faults.push(Error::forbidden(&path.child("preferredHolder"), why));
    }
    faults
}
