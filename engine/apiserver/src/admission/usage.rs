//! Adding up what pods ask for.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::kinds::walk::{get, list, text};
use crate::quantity::Quantity;

/// Amounts by the name of their resource.
pub(super) type Amounts = BTreeMap<String, Quantity>;

/// The amounts of a map such as `requests`.
pub(super) fn amounts(value: &Value) -> Amounts {
    let entries = value.as_object().into_iter().flatten();
    entries.map(|(name, amount)| (name.clone(), quantity(amount))).collect()
}

/// The amount that stands in an object; nothing if there is none.
pub(super) fn quantity(value: &Value) -> Quantity {
    value.as_str().and_then(|text| Quantity::parse(text).ok()).unwrap_or_else(Quantity::zero)
}

pub(super) fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = to.get(name).map_or_else(|| amount.clone(), |have| have.add(amount));
        to.insert(name.clone(), sum);
    }
}

fn raise(to: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        if to.get(name).is_none_or(|have| have < amount) {
            to.insert(name.clone(), amount.clone());
        }
    }
}

/// What a pod as a whole asks for: `requests` or `limits`. Its containers run together, those that
/// initialise it one after the other, and sidecars stay.
pub(super) fn of_pod(pod: &Value, which: &str) -> Amounts {
    let spec = get(pod, &["spec"]);
    let of = |container: &Value| amounts(get(container, &["resources", which]));
    let mut total = Amounts::new();
    for container in list(&spec["containers"]) {
        add(&mut total, &of(container));
    }
    let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
    for container in list(&spec["initContainers"]) {
        let mut here = of(container);
        if text(container, "restartPolicy") == "Always" {
            add(&mut total, &here);
            add(&mut sidecars, &here);
            here = sidecars.clone();
        } else {
            add(&mut here, &sidecars);
        }
        raise(&mut peak, &here);
    }
    raise(&mut total, &peak);
    for (name, amount) in amounts(get(spec, &["resources", which])) {
        if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
            total.insert(name, amount);
        }
    }
    total
}

/// Whether a pod asks for nothing at all, so that it runs on what others leave.
pub(super) fn is_best_effort(spec: &Value) -> bool {
    let asks = |holder: &Value| {
        ["requests", "limits"].iter().any(|which| {
            let amounts = amounts(get(holder, &["resources", which]));
            ["cpu", "memory"].iter().any(|name| amounts.get(*name).is_some_and(|amount| !amount.is_zero()))
        })
    };
    let containers = ["containers", "initContainers"].iter().flat_map(|key| list(get(spec, &[key])));
    !asks(spec) && !containers.into_iter().any(asks)
}
