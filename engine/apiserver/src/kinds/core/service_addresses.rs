//! Addresses of Services: which a client may ask for, and that they stay.

use std::collections::BTreeSet;

use serde_json::Value;

use super::endpoints::validate_endpoint_ip;
use crate::field::{Error, Path};
use crate::kinds::walk::{At, Faults, get, list};
use crate::names;

/// Whether a Service was asked to have no address.
pub(super) fn is_headless(spec: &Value) -> bool {
    matches!(list(&spec["clusterIPs"]), [one] if one == "None")
}

/// What is wrong with the addresses of a Service and their families.
pub(super) fn validate(service: &Value, old: Option<&Value>) -> Faults {
    let spec = At::top(service, "spec");
    if spec.text("type") == "ExternalName" {
        return Faults::new();
    }
    let (all, families) = (spec.child("clusterIPs"), spec.child("ipFamilies"));
    let (first, count) = (list(all.value).first().and_then(Value::as_str), all.items().len());
    let mut faults = Faults::new();
    match (spec.text("clusterIP"), first) {
        ("", Some(_)) => faults.push(all.invalid("must be empty when `clusterIP` is not specified")),
        ("", None) => {}
        (_, None) => faults.push(all.required("")),
        (own, Some(first)) if own != first => faults.push(all.invalid("first value must match `clusterIP`")),
        _ => {}
    }
    let mut seen = BTreeSet::new();
    for family in families.items() {
        if !["IPv4", "IPv6"].contains(&family.str()) {
            faults.push(family.not_supported(&["IPv4", "IPv6"]));
        }
        if !seen.insert(family.str()) {
            faults.push(family.duplicate());
        }
    }
    let policy = spec.child("ipFamilyPolicy");
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    if policy.is_set() && !policies.contains(&policy.str()) {
        faults.push(policy.not_supported(&policies));
    }
    let before = faults.len();
    let known = old.map(|old| list(get(old, &["spec", "clusterIPs"]))).unwrap_or_default();
    for (index, ip) in all.items().enumerate() {
        if index == 0 && ip.str() == "None" {
            if count > 1 {
                faults.push(all.invalid("'None' must be the first and only value"));
            }
        } else if !known.contains(ip.value) {
            faults.extend(ip.obey(names::legacy_ip));
        }
    }
    let bad_ips = faults.len() > before;
    if count > 2 {
        faults.push(all.invalid("may only hold up to 2 values"));
    }
    if bad_ips {
        return faults;
    }
    let six = |ip: &At<'_>| names::is_ipv6(ip.str());
    if count > 1 && (all.items().all(|ip| six(&ip)) || !all.items().any(|ip| six(&ip))) {
        faults.push(all.invalid("may specify no more than one IP for each IP family"));
    }
    if !is_headless(spec.value) {
        for (index, (ip, family)) in all.items().zip(families.items()).enumerate() {
            let expected = family.str();
            if ["IPv4", "IPv6"].contains(&expected) && (expected == "IPv6") != six(&ip) {
                let why = format!("expected an {expected} value as indicated by `ipFamilies[{index}]`");
                faults.push(ip.invalid(why));
            }
        }
    }
    faults
}

/// What is wrong with the addresses of others that lead to a Service.
pub(super) fn validate_external(spec: &At<'_>, old: Option<&Value>) -> Faults {
    let known = old.map(|old| list(get(old, &["spec", "externalIPs"]))).unwrap_or_default();
    let mut faults = Faults::new();
    for ip in spec.child("externalIPs").items() {
        let wrong = if known.contains(ip.value) { Faults::new() } else { ip.obey(names::legacy_ip) };
        if wrong.is_empty() {
            faults.extend(validate_endpoint_ip(ip.str(), &ip.path));
        }
        faults.extend(wrong);
    }
    faults
}

const KEPT: &str = "may not change once set";

/// What is wrong with a change of addresses or families: one may be added or released, none replaced.
pub(super) fn validate_change(new: &Value, old: &Value) -> Faults {
    let external = |service: &Value| get(service, &["spec", "type"]) == "ExternalName";
    if external(new) || external(old) {
        return Faults::new();
    }
    let (headless, was_headless) = (is_headless(&new["spec"]), is_headless(&old["spec"]));
    let mut faults = Faults::new();
    if !(headless && was_headless) {
        faults.extend(validate_list_change(new, old, "clusterIPs"));
    }
    if !headless && !was_headless {
        faults.extend(validate_list_change(new, old, "ipFamilies"));
    }
    faults
}

fn validate_list_change(new: &Value, old: &Value, name: &str) -> Faults {
    let path = Path::new("spec").child(name);
    let all = get(new, &["spec", name]);
    let (items, old_items) = (list(all), list(get(old, &["spec", name])));
    let ips = get(new, &["spec", "clusterIPs"]);
    // For families the real server counts, and at times shows, the addresses instead.
    let (counted, singular) =
        if name == "clusterIPs" { (items, "clusterIP") } else { (list(ips), "ipFamily") };
    let mut faults = Faults::new();
    if items.len() == old_items.len() {
        for (index, (item, old_item)) in items.iter().zip(old_items).enumerate() {
            if item != old_item {
                let at = if name == "clusterIPs" { index } else { 0 };
                faults.push(Error::invalid(&path.index(at), all.clone(), KEPT));
            }
        }
        return faults;
    }
    let shrinks = old_items.len() > items.len();
    if shrinks && counted.is_empty() {
        let why = format!("primary {singular} can not be unset");
        faults.push(Error::invalid(&path.index(0), all.clone(), why));
    }
    if let (Some(first), Some(old_first)) = (items.first(), old_items.first())
        && first != old_first
    {
        faults.push(Error::invalid(&path.index(0), ips.clone(), KEPT));
    }
    if shrinks && items.len() == 1 {
        let policy = At::top(new, "spec").child("ipFamilyPolicy");
        if policy.str() != "SingleStack" {
            let why = format!("must be set to 'SingleStack' when releasing the secondary {singular}");
            faults.push(policy.invalid(why));
        }
    }
    faults
}
