//! Nodes.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use super::{META_ONLY, Strategy};
use crate::field::{Error, Fault, Path};
use crate::kinds::internal;
use crate::kinds::meta;
use crate::kinds::pods::resources::validate_amount;
use crate::kinds::pods::{round_resources, validate_taint_effect};
use crate::kinds::selectors::validate_label_name;
use crate::kinds::walk::{
    At, Faults, find_mut, get, is_empty, list, map_mut, object_mut, remove, same, text,
};
use crate::names;

const CIDR_KEPT: &str = "node updates may not change podCIDR except from \"\" to valid";

pub(super) const NODE: Strategy = Strategy {
    default: default_node,
    prepare_create: |node| {
        // Configuration from a ConfigMap was a feature once.
        remove(object_mut(node, "spec"), "configSource");
        if let Some(status) = find_mut(node, "status") {
            remove(status, "config");
        }
    },
    prepare_update: |new, old| {
        if is_empty(get(old, &["spec", "configSource"])) {
            remove(object_mut(new, "spec"), "configSource");
        }
    },
    validate: |node| [meta::validate_builtin(node), validate_node(node)].concat(),
    validate_update: |new, old| {
        let mut faults = meta::validate_builtin_again(new, false, names::dns1123_subdomain);
        faults.extend(validate_node(new));
        faults.extend(validate_update(new, old));
        faults
    },
    validate_status: validate_update,
    status: true,
    ..META_ONLY
};

fn default_node(node: &mut Value) {
    same_pod_cidrs(node);
    let Some(status) = find_mut(node, "status") else { return };
    if let Some(capacity) = find_mut(status, "capacity").cloned() {
        let status = map_mut(status);
        status.entry("allocatable").or_insert(capacity);
    }
    round_resources(status, &["capacity", "allocatable"]);
}

/// `podCIDR` is the first of `podCIDRs`; either fills the other.
fn same_pod_cidrs(node: &mut Value) {
    let Some(spec) = find_mut(node, "spec") else { return };
    let first = list(&spec["podCIDRs"]).first().cloned();
    match (text(spec, "podCIDR"), first) {
        ("", Some(first)) => drop(map_mut(spec).insert("podCIDR".into(), first)),
        ("", None) => {}
        (one, first) if first.as_ref().and_then(Value::as_str) != Some(one) => {
            let one = json!([one]);
            map_mut(spec).insert("podCIDRs".into(), one);
        }
        _ => {}
    }
}

fn validate_node(node: &Value) -> Faults {
    // Messages about taints say `metadata`, though they are part of the spec.
    let mut faults = validate_taints(node);
    faults.extend(validate_resources(node));
    let swap = At::top(node, "status").child("nodeInfo").child("swap").child("capacity");
    if let Some(bytes) = swap.value.as_i64().filter(|bytes| *bytes <= 0) {
        let path = Path::new("metadata").child("nodeSwapStatus").child("capacity");
        faults.push(Error::invalid(&path, bytes, "must be greater than zero"));
    }
    faults.extend(validate_features(node));
    let ranges = At::top(node, "spec").child("podCIDRs");
    faults.extend(ranges.items().flat_map(|range| range.obey(names::legacy_cidr)));
    let count = ranges.items().len();
    if count > 1 {
        let bad = ranges.items().enumerate().find(|(_, range)| names::parse_cidr(range.str()).is_none());
        if let Some((index, range)) = &bad {
            let why = format!(
                "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{index}]: <nil> (invalid CIDR address: {})",
                range.str()
            );
            faults.push(Error::internal(&ranges.path, why));
        }
        let six = ranges.items().filter(|range| range.str().contains(':')).count();
        if count > 2 || six != 1 || bad.is_some() {
            faults.push(ranges.invalid("may specify no more than one CIDR for each IP family"));
        }
    }
    faults
}

fn validate_taints(node: &Value) -> Faults {
    let taints = At::new(get(node, &["spec", "taints"]), Path::new("metadata").child("taints"));
    let mut faults = Faults::new();
    let mut seen = BTreeSet::new();
    for taint in taints.items() {
        faults.extend(validate_label_name(&taint.child("key")));
        let value = taint.text("value");
        let wrong = names::label_value(value);
        if !wrong.is_empty() {
            faults.push(Error::invalid(&taint.child("value").path, value, wrong.join(";")));
        }
        let effect = taint.child("effect");
        if effect.str().is_empty() {
            faults.push(effect.required(""));
        } else {
            faults.extend(validate_taint_effect(&effect));
        }
        if !seen.insert((effect.str(), taint.text("key"))) {
            let detail =
                internal::show("Taint", taint.value) + ": taints must be unique by key and effect pair";
            let fault = Fault::Duplicate;
            faults.push(Error { fault, path: taint.path.clone(), value: None, detail });
        }
    }
    faults
}

fn validate_resources(node: &Value) -> Faults {
    let status = At::top(node, "status");
    let lists = ["capacity", "allocatable"].map(|name| status.child(name));
    let amounts = lists.iter().flat_map(|list| {
        list.entries().map(|(name, at)| (name, At::new(at.value, list.path.child(name)))).collect::<Vec<_>>()
    });
    amounts.flat_map(|(name, at)| validate_amount(name, &at)).collect()
}

static FEATURE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*$").expect("a constant pattern"));

fn validate_features(node: &Value) -> Faults {
    let features: Vec<At<'_>> = At::top(node, "status").child("declaredFeatures").items().collect();
    let mut faults = Faults::new();
    for (index, feature) in features.iter().enumerate() {
        let name = feature.str();
        if name.len() > 253 {
            let detail = format!("invalid feature name {name:?}: must be no more than 253 characters");
            faults.push(feature.invalid(detail));
        } else if !FEATURE.is_match(name) {
            faults.push(feature.invalid(format!("invalid feature name {name:?}: must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes")));
        }
        match features.get(index + 1) {
            Some(next) if next.str() == name => faults.push(next.duplicate()),
            Some(next) if next.str() < name => {
                faults.push(next.invalid("list must be sorted alphabetically"));
            }
            _ => {}
        }
    }
    faults
}

fn validate_update(new: &Value, old: &Value) -> Faults {
    let mut faults = meta::validate_builtin_update(new, old);
    faults.extend(validate_resources(new));
    faults.extend(validate_features(new));
    let mut seen = BTreeSet::new();
    for address in At::top(new, "status").child("addresses").items() {
        if !seen.insert((address.text("type"), address.text("address"))) {
            let detail = internal::show("NodeAddress", address.value);
            let fault = Fault::Duplicate;
            faults.push(Error { fault, path: address.path.clone(), value: None, detail });
        }
    }
    let spec = |name: &str| (get(new, &["spec", name]), get(old, &["spec", name]));
    let path = |name: &str| Path::new("spec").child(name);
    let (ranges, old_ranges) = spec("podCIDRs");
    if !list(old_ranges).is_empty() && !same(ranges, old_ranges) {
        let changed = list(ranges).iter().zip(list(old_ranges)).filter(|(new, old)| new != old).count();
        let times = if list(ranges).len() == list(old_ranges).len() { changed } else { 1 };
        faults.extend((0..times).map(|_| Error::forbidden(&path("podCIDRs"), CIDR_KEPT)));
    }
    let (provider, old_provider) = spec("providerID");
    if old_provider.as_str().is_some_and(|id| !id.is_empty()) && provider != old_provider {
        let why = "node updates may not change providerID except from \"\" to valid";
        faults.push(Error::forbidden(&path("providerID"), why));
    }
    faults.extend(validate_taints(new));
    let (id, old_id) = spec("externalID");
    if id.as_str().unwrap_or_default() != old_id.as_str().unwrap_or_default() {
        faults.push(Error::forbidden(&path("externalID"), "may not be updated"));
    }
    faults
}
