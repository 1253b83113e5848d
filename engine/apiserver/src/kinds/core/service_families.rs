//! Address families of Services, on a cluster that has IPv4 alone.

use serde_json::{Value, json};

use super::service_addresses;
use crate::field::{Error, Path};
use crate::kinds::walk::{Faults, get, list, map_mut, remove, text};
use crate::names;

const DEFAULT: &str = "IPv4";

/// Fills in the families of a Service and how many it wants, or says what is wrong with them and with its
/// addresses. Whoever gives addresses out asks this first: nothing else of the Service is looked at if it
/// finds something.
pub fn init(service: &mut Value, old: Option<&Value>) -> Faults {
    if get(service, &["spec", "type"]) == "ExternalName" || is_left_as_it_was(service, old) {
        return Faults::new();
    }
    let selects = get(service, &["spec", "selector"]).as_object().is_some_and(|labels| !labels.is_empty());
    let unattached = get(service, &["spec", "clusterIP"]) == "None" && !selects;
    if policy(service).is_empty() && get(service, &["spec", "ipFamilyPolicy"]).is_null() {
        let kept = old.map(policy).filter(|policy| !policy.is_empty());
        let fallback = if unattached { "RequireDualStack" } else { "SingleStack" };
        service["spec"]["ipFamilyPolicy"] = kept.unwrap_or(fallback).into();
    }
    let faults = service_addresses::validate(service, old);
    if !faults.is_empty() {
        return faults;
    }
    let mut faults = old.map(|old| validate_release(service, old)).unwrap_or_default();
    faults.extend(validate_count(service));
    faults.extend(infer_from_addresses(service));
    if !faults.is_empty() {
        return faults;
    }
    if unattached {
        // Its endpoints may be anything, whatever the cluster has.
        fill_both(service);
        return Faults::new();
    }
    let faults = validate_configured(service);
    if faults.is_empty() && families(service).is_empty() {
        service["spec"]["ipFamilies"] = json!([DEFAULT]);
    }
    faults
}

fn policy(service: &Value) -> &str {
    text(&service["spec"], "ipFamilyPolicy")
}

fn addresses(service: &Value) -> &[Value] {
    list(get(service, &["spec", "clusterIPs"]))
}

fn families(service: &Value) -> &[Value] {
    list(get(service, &["spec", "ipFamilies"]))
}

/// A Service that takes two families where it can is not changed when the cluster gets a second one.
fn is_left_as_it_was(service: &Value, old: Option<&Value>) -> bool {
    let Some(old) = old else { return false };
    let kind = |service: &Value| text(&service["spec"], "type").to_owned();
    kind(service) == kind(old)
        && ["ClusterIP", "NodePort", "LoadBalancer"].contains(&kind(service).as_str())
        && policy(service) == "PreferDualStack"
        && ["", "PreferDualStack"].contains(&policy(old))
        && addresses(service) == addresses(old)
        && families(service) == families(old)
}

fn wrong_policy(service: &Value, why: &str) -> Error {
    Error::invalid(&Path::new("spec.ipFamilyPolicy"), policy(service), why)
}

/// Asking for a single family is intent enough to give up the second; leaving it out of a list is not.
fn validate_release(service: &mut Value, old: &Value) -> Faults {
    if policy(service) == "SingleStack" {
        for (name, same) in [
            ("clusterIPs", addresses(service) == addresses(old)),
            ("ipFamilies", families(service) == families(old)),
        ] {
            if same && let Some(items) = service["spec"].get_mut(name).and_then(Value::as_array_mut) {
                items.truncate(1);
            }
        }
        return Faults::new();
    }
    let reduced = |new: &[Value], old: &[Value]| !new.is_empty() && new.len() < old.len();
    let mut faults = Faults::new();
    if reduced(addresses(service), addresses(old)) {
        faults.push(wrong_policy(service, "must be 'SingleStack' to release the secondary cluster IP"));
    }
    if reduced(families(service), families(old)) {
        faults.push(wrong_policy(service, "must be 'SingleStack' to release the secondary IP family"));
    }
    faults
}

fn validate_count(service: &Value) -> Faults {
    let mut faults = Faults::new();
    for (items, what) in [(addresses(service), "cluster IPs"), (families(service), "IP families")] {
        if policy(service) == "SingleStack" && items.len() == 2 {
            let why =
                format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
            faults.push(wrong_policy(service, &why));
        }
    }
    faults
}

/// An address tells its family; the cluster must have it.
fn infer_from_addresses(service: &mut Value) -> Faults {
    let mut faults = Faults::new();
    let mut inferred = families(service).to_vec();
    let all = get(service, &["spec", "clusterIPs"]).clone();
    let given = list(&all).iter().map(|ip| ip.as_str().unwrap_or_default());
    for (index, ip) in given.enumerate().take_while(|(_, ip)| *ip != "None") {
        if index < inferred.len() {
            continue;
        }
        if names::is_ipv6(ip) {
            let path = Path::new("spec.clusterIPs").index(index);
            faults.push(Error::invalid(&path, all.clone(), "IPv6 is not configured on this cluster"));
        } else {
            inferred.push(DEFAULT.into());
        }
    }
    if inferred.is_empty() {
        remove(&mut service["spec"], "ipFamilies");
    } else {
        map_mut(&mut service["spec"]).insert("ipFamilies".into(), inferred.into());
    }
    faults
}

fn fill_both(service: &mut Value) {
    let mut filled = families(service).to_vec();
    if filled.is_empty() {
        filled.push(DEFAULT.into());
    }
    if filled.len() < 2 && policy(service) != "SingleStack" {
        filled.push(if filled[0] == "IPv4" { "IPv6" } else { "IPv4" }.into());
    }
    service["spec"]["ipFamilies"] = filled.into();
}

fn validate_configured(service: &Value) -> Faults {
    let mut faults = Faults::new();
    if policy(service) == "RequireDualStack" {
        faults.push(wrong_policy(service, "this cluster is not configured for dual-stack services"));
    }
    for (index, family) in families(service).iter().enumerate().filter(|(_, family)| *family != DEFAULT) {
        let path = Path::new("spec.ipFamilies").index(index);
        faults.push(Error::invalid(&path, family.clone(), "not configured on this cluster"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field;

    #[track_caller]
    fn check(spec: Value, old: Option<Value>, expected: Result<Value, &str>) {
        let mut service = json!({"spec": spec});
        let old = old.map(|spec| json!({"spec": spec}));
        let faults = init(&mut service, old.as_ref());
        match expected {
            Ok(expected) => {
                assert_eq!(field::aggregate(&faults), "[]");
                let found = json!([service["spec"]["ipFamilyPolicy"], service["spec"]["ipFamilies"]]);
                assert_eq!(found, expected);
            }
            Err(expected) => assert_eq!(field::aggregate(&faults), expected),
        }
    }

    #[test]
    fn families_of_a_cluster_with_one() {
        check(json!({"type": "ClusterIP"}), None, Ok(json!(["SingleStack", ["IPv4"]])));
        check(json!({"type": "ExternalName"}), None, Ok(json!([null, null])));
        let headless = json!({"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"]});
        check(headless, None, Ok(json!(["RequireDualStack", ["IPv4", "IPv6"]])));
        let prefers = json!({"type": "ClusterIP", "ipFamilyPolicy": "PreferDualStack"});
        check(prefers, None, Ok(json!(["PreferDualStack", ["IPv4"]])));
        let requires = json!({"type": "ClusterIP", "ipFamilyPolicy": "RequireDualStack"});
        check(
            requires,
            None,
            Err(
                "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
            ),
        );
        check(
            json!({"type": "ClusterIP", "ipFamilies": ["IPv6"]}),
            None,
            Err("spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster"),
        );
        check(
            json!({"type": "ClusterIP", "ipFamilies": ["IPv4", "IPv6"]}),
            None,
            Err(
                "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
            ),
        );
        check(
            json!({"type": "ClusterIP", "clusterIP": "fd00::1", "clusterIPs": ["fd00::1"]}),
            None,
            Err("spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster"),
        );
    }

    #[test]
    fn an_update_keeps_what_was_wanted() {
        let old = json!({"type": "ClusterIP", "ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4"],
            "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]});
        let new = json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]});
        check(new, Some(old), Ok(json!(["PreferDualStack", ["IPv4"]])));
        let old = json!({"type": "ClusterIP", "ipFamilyPolicy": "RequireDualStack",
            "ipFamilies": ["IPv4", "IPv6"], "clusterIP": "None", "clusterIPs": ["None"]});
        let mut new = old.clone();
        new["ipFamilyPolicy"] = "SingleStack".into();
        check(new, Some(old), Ok(json!(["SingleStack", ["IPv4"]])));
    }
}
