//! What containers and pods ask for: which amounts are valid, what they default to, what they add up
//! to, and the class of service that follows.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::field::{Error, Fault, Path};
use crate::kinds::quantity::Quantity;
use crate::kinds::walk::{At, Faults, find_mut, get, is_empty, list, map_mut, object_mut, text};
use crate::names;

const NOT_AN_INTEGER: &str = "must be an integer";
const HUGE_PAGES: &str = "hugepages-";

/// Which resources may be named in a list of them.
#[derive(Clone, Copy)]
pub(crate) enum Level {
    Container,
    Pod,
}

type Amounts<'a> = BTreeMap<&'a str, Quantity>;

// === validation ===

/// What is wrong with `resources` of a container or of a pod; `claims` are the names of the pod's claims.
pub(crate) fn validate_requirements(resources: &At<'_>, claims: &BTreeSet<&str>, level: Level) -> Faults {
    let (limits, requests) = (resources.child("limits"), resources.child("requests"));
    let mut faults = validate_amounts(&limits, level);
    for (name, at) in requests.entries() {
        let amount = Quantity::of(at.value);
        faults.extend(validate_name(name, &at.path, level));
        faults.extend(validate_amount(name, &at));
        match limits.value.get(name).map(Quantity::of) {
            Some(limit) if amount != limit && !may_overcommit(name) => {
                let detail = format!("must be equal to {name} limit of {limit}");
                faults.push(Error::invalid(&requests.path, amount.to_string(), detail));
            }
            Some(limit) if amount > limit => {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                faults.push(Error::invalid(&requests.path, amount.to_string(), detail));
            }
            None if !may_overcommit(name) => {
                faults.push(limits.required("Limit must be set for non overcommitable resources"));
            }
            _ => {}
        }
        faults.extend(validate_huge_pages(name, &at));
    }
    let named =
        |wanted: fn(&str) -> bool| limits.entries().chain(requests.entries()).any(|(name, _)| wanted(name));
    if named(is_huge_pages) && !named(|name| name == "cpu" || name == "memory") {
        faults.push(resources.forbidden("HugePages require cpu or memory"));
    }
    faults.extend(validate_claims(&resources.child("claims"), claims));
    faults
}

/// What is wrong with a list that stands alone, as `limits` do: overhead.
pub(crate) fn validate_overhead(overhead: &At<'_>) -> Faults {
    // It is checked as the limits of a container that has nothing else.
    let mut faults =
        validate_amounts(&At::new(overhead.value, overhead.path.child("limits")), Level::Container);
    let named = |wanted: fn(&str) -> bool| overhead.entries().any(|(name, _)| wanted(name));
    if named(is_huge_pages) && !named(|name| name == "cpu" || name == "memory") {
        faults.push(overhead.forbidden("HugePages require cpu or memory"));
    }
    faults
}

fn validate_amounts(limits: &At<'_>, level: Level) -> Faults {
    let mut faults = Faults::new();
    for (name, at) in limits.entries() {
        faults.extend(validate_name(name, &at.path, level));
        faults.extend(validate_amount(name, &at));
        faults.extend(validate_huge_pages(name, &at));
    }
    faults
}

/// What is wrong with the amount of a resource.
pub(crate) fn validate_amount(name: &str, at: &At<'_>) -> Faults {
    let amount = Quantity::of(at.value);
    let mut faults = validate_non_negative(at);
    if is_integer(name) && amount.milli_value() % 1000 != 0 {
        faults.push(Error::invalid(&at.path, amount.to_string(), NOT_AN_INTEGER));
    }
    faults
}

/// One fault if an amount is below zero.
pub(crate) fn validate_non_negative(at: &At<'_>) -> Faults {
    let amount = Quantity::of(at.value);
    let wrong = amount.is_negative();
    wrong
        .then(|| Error::invalid(&at.path, amount.to_string(), crate::kinds::walk::NEGATIVE))
        .into_iter()
        .collect()
}

fn validate_huge_pages(name: &str, at: &At<'_>) -> Option<Error> {
    let size = Quantity::parse(name.strip_prefix(HUGE_PAGES)?);
    let amount = Quantity::of(at.value);
    let divisible = size.is_some_and(|size| size.value() > 0 && amount.value() % size.value() == 0);
    let detail = format!("{amount} is not positive integer multiple of {name}");
    (!divisible).then(|| Error::invalid(&at.path, amount.to_string(), detail))
}

fn validate_name(name: &str, path: &Path, level: Level) -> Faults {
    match level {
        Level::Container => validate_container_resource_name(name, path),
        Level::Pod => {
            let mut faults = validate_resource_name(name, path);
            if faults.is_empty() && !is_pod_level(name) {
                faults.push(Error::not_supported(path, name, &["cpu", HUGE_PAGES, "memory"]));
            }
            faults
        }
    }
}

/// What is wrong with the name of a resource that a container can have.
pub(crate) fn validate_container_resource_name(name: &str, path: &Path) -> Faults {
    let mut faults = validate_resource_name(name, path);
    let own = ["cpu", "memory", "ephemeral-storage"].contains(&name) || is_huge_pages(name);
    if !name.contains('/') && !own {
        faults.push(Error::invalid(path, name, "must be a standard resource for containers"));
    } else if !is_native(name) && !is_extended(name) {
        faults.push(Error::invalid(path, name, "doesn't follow extended resource name standard"));
    }
    faults
}

/// What is wrong with the name of a resource, wherever it stands.
pub(crate) fn validate_resource_name(name: &str, path: &Path) -> Faults {
    let wrong = names::qualified_name(name);
    if wrong.is_empty() && !name.contains('/') && !is_standard(name) {
        return vec![Error::invalid(path, name, "must be a standard resource type or fully qualified")];
    }
    wrong.into_iter().map(|why| Error::invalid(path, name, why)).collect()
}

fn validate_claims(claims: &At<'_>, known: &BTreeSet<&str>) -> Faults {
    let mut faults = Faults::new();
    let mut seen = BTreeSet::<String>::new();
    for claim in claims.items() {
        let (name, request) = (claim.text("name"), claim.child("request"));
        if name.is_empty() {
            faults.push(claim.required(""));
            continue;
        }
        let mut key = name.to_owned();
        if seen.contains(name) {
            faults.push(Error::duplicate(&claim.path, name));
        } else {
            if !request.str().is_empty() {
                faults.extend(request.obey(names::dns1123_label));
                key = format!("{name}/{}", request.str());
            }
            let part_of = |one: &String| one.split_once('/').is_some_and(|(whole, _)| whole == name);
            if seen.contains(&key) {
                faults.push(Error::duplicate(&claim.path, key.as_str()));
            } else if request.str().is_empty() {
                let parts = seen.iter().filter(|one| part_of(one)).count();
                faults.extend((0..parts).map(|_| Error::duplicate(&claim.path, name)));
            }
            seen.insert(key);
        }
        if !known.contains(name) {
            let all = known.iter().copied().collect::<Vec<_>>().join(", ");
            let tail = if known.is_empty() { " which is empty".to_owned() } else { format!(": {all}") };
            faults.push(Error {
                fault: Fault::NotFound,
                path: claim.path.clone(),
                value: Some(name.into()),
                detail: format!("must be one of the names in pod.spec.resourceClaims{tail}"),
            });
        }
    }
    faults
}

/// What is wrong with `resources` of a pod as a whole.
pub(crate) fn validate_pod_level(spec: &At<'_>, claims: &BTreeSet<&str>) -> Faults {
    let resources = spec.child("resources");
    if !resources.is_set() {
        return Faults::new();
    }
    if get(spec.value, &["os", "name"]) == "windows" {
        return vec![resources.forbidden("may not be set for a windows pod")];
    }
    let mut faults = Faults::new();
    if resources.has("claims") {
        let why = "claims may not be set for Resources at pod-level";
        faults.push(resources.child("claims").forbidden(why));
    }
    faults.extend(validate_requirements(&resources, claims, Level::Pod));
    let own = |kind: &str, name: &str| resources.child(kind).value.get(name).map(Quantity::of);
    for (name, sum) in total(spec.value, "requests") {
        if let Some(amount) = own("requests", name).filter(|amount| sum > *amount) {
            let path = resources.child("requests").path.key(name);
            let detail = format!("must be greater than or equal to aggregate container requests of {sum}");
            faults.push(Error::invalid(&path, amount.to_string(), detail));
        }
    }
    for (name, sum) in total(spec.value, "limits").into_iter().filter(|(name, _)| is_huge_pages(name)) {
        if let Some(amount) = own("limits", name).filter(|amount| sum > *amount) {
            let path = resources.child("limits").path.key(name);
            let detail = format!("must be greater than or equal to aggregate container limits of {sum}");
            faults.push(Error::invalid(&path, amount.to_string(), detail));
        }
    }
    for (index, container) in list(&spec.value["containers"]).iter().enumerate() {
        for (name, amount) in amounts(container, "limits") {
            if let Some(limit) = own("limits", name).filter(|limit| amount > *limit) {
                let path = resources.child("containers").path.index(index).key(name).child("limits");
                let detail = format!("must be less than or equal to pod limits of {limit}");
                faults.push(Error::invalid(&path, amount.to_string(), detail));
            }
        }
    }
    faults
}

// === defaults ===

/// A container that is limited but does not say what it needs, needs what it is limited to.
pub(super) fn request_what_is_limited(container: &mut Value) {
    let Some(resources) = find_mut(container, "resources") else { return };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    let requests = map_mut(object_mut(resources, "requests"));
    for (name, amount) in limits {
        requests.entry(name).or_insert(amount);
    }
}

/// The same for a pod: it needs what its containers need together, or else what it is limited to.
pub(super) fn default_pod_resources(spec: &mut Value) {
    let resources = get(spec, &["resources"]);
    if is_empty(&resources["limits"]) && is_empty(&resources["requests"]) {
        return;
    }
    let pages: Vec<(String, String)> = total(spec, "limits")
        .into_iter()
        .filter(|(name, _)| is_huge_pages(name) && resources["requests"].get(name).is_none())
        .map(|(name, amount)| (name.to_owned(), amount.to_string()))
        .collect();
    let sums: Vec<(String, String)> = total(spec, "requests")
        .into_iter()
        .filter(|(name, _)| is_pod_level(name) && may_overcommit(name))
        .map(|(name, amount)| (name.to_owned(), amount.to_string()))
        .collect();
    let resources = object_mut(spec, "resources");
    if !pages.is_empty() {
        let limits = map_mut(object_mut(resources, "limits"));
        for (name, amount) in pages {
            limits.entry(name).or_insert(amount.into());
        }
    }
    if is_empty(&resources["limits"]) {
        return;
    }
    let limits = resources["limits"].as_object().cloned().unwrap_or_default();
    let supported = limits.into_iter().filter(|(name, _)| is_pod_level(name));
    let requests = map_mut(object_mut(resources, "requests"));
    for (name, amount) in sums.into_iter().map(|(name, amount)| (name, amount.into())).chain(supported) {
        requests.entry(name).or_insert(amount);
    }
}

// === sums ===

/// The class of service that follows from what a pod asks for.
pub(crate) fn quality_of_service(spec: &Value) -> &'static str {
    let mut requests = Amounts::new();
    let mut limits = Amounts::new();
    let mut guaranteed = true;
    let mut count = |holder: &'_ Value, needs_limits: bool| {
        let wanted = |kind: &str| {
            let mut found = amounts_owned(holder, kind);
            found.retain(|(name, amount)| (*name == "cpu" || *name == "memory") && amount.is_positive());
            found
        };
        let limited = wanted("limits");
        if limited.len() < 2 && (needs_limits || !limited.is_empty()) {
            guaranteed = false;
        }
        for (name, amount) in wanted("requests") {
            add(&mut requests, name, &amount);
        }
        for (name, amount) in limited {
            add(&mut limits, name, &amount);
        }
    };
    if spec.get("resources").is_some_and(|resources| !resources.is_null()) {
        count(spec, !is_empty(get(spec, &["resources", "limits"])));
    } else {
        for kind in ["containers", "initContainers"] {
            list(&spec[kind]).iter().for_each(|container| count(container, true));
        }
    }
    if requests.is_empty() && limits.is_empty() {
        return "BestEffort";
    }
    if guaranteed && requests == limits { "Guaranteed" } else { "Burstable" }
}

/// Only these two count for the class of service, so their names can outlive the object.
fn amounts_owned(holder: &Value, kind: &str) -> Vec<(&'static str, Quantity)> {
    ["cpu", "memory"]
        .into_iter()
        .filter_map(|name| Some((name, Quantity::of(get(holder, &["resources", kind]).get(name)?))))
        .collect()
}

fn add<'a>(sums: &mut Amounts<'a>, name: &'a str, amount: &Quantity) {
    let sum = sums.entry(name).or_insert_with(Quantity::zero);
    *sum = sum.plus(amount);
}

fn amounts<'a>(container: &'a Value, kind: &str) -> impl Iterator<Item = (&'a str, Quantity)> + use<'a> {
    let map = get(container, &["resources", kind]).as_object();
    map.into_iter().flatten().map(|(name, amount)| (name.as_str(), Quantity::of(amount)))
}

/// What the containers of a pod need at the worst moment: all that run together, or one that runs
/// before them next to the sidecars that were started by then.
fn total<'a>(spec: &'a Value, kind: &str) -> Amounts<'a> {
    let mut sums = Amounts::new();
    for container in list(&spec["containers"]) {
        amounts(container, kind).for_each(|(name, amount)| add(&mut sums, name, &amount));
    }
    let mut sidecars = Amounts::new();
    let mut first = Amounts::new();
    for container in list(&spec["initContainers"]) {
        let mut now = sidecars.clone();
        amounts(container, kind).for_each(|(name, amount)| add(&mut now, name, &amount));
        if text(container, "restartPolicy") == "Always" {
            amounts(container, kind).for_each(|(name, amount)| add(&mut sums, name, &amount));
            sidecars = now.clone();
        }
        for (name, amount) in now {
            let most = first.entry(name).or_insert_with(Quantity::zero);
            *most = most.clone().max(amount);
        }
    }
    for (name, amount) in first {
        let most = sums.entry(name).or_insert_with(Quantity::zero);
        *most = most.clone().max(amount);
    }
    sums
}

// === names of resources ===

pub(crate) fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_pages(name)
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

pub(crate) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

pub(crate) fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

const COUNTS: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
const AMOUNTS: [&str; 10] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "requests.storage",
];

fn is_integer(name: &str) -> bool {
    COUNTS.contains(&name) || is_extended(name)
}

fn is_standard(name: &str) -> bool {
    name == "storage" || is_quota(name)
}

/// Whether a quota may be set on it without a prefix.
pub(crate) fn is_quota(name: &str) -> bool {
    COUNTS.contains(&name)
        || AMOUNTS.contains(&name)
        || is_huge_pages(name)
        || name.starts_with("requests.hugepages-")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn classes_of_service() {
        let container =
            |limits: &Value, requests: &Value| json!({"resources": {"limits": limits, "requests": requests}});
        let both = json!({"cpu": "1", "memory": "1Gi"});
        let cases = [
            (json!({"containers": [{}]}), "BestEffort"),
            (json!({"containers": [container(&both, &both)]}), "Guaranteed"),
            (json!({"containers": [container(&both, &both), {}]}), "Burstable"),
            (
                json!({"containers": [container(&both, &json!({"cpu": "500m", "memory": "1Gi"}))]}),
                "Burstable",
            ),
            (json!({"containers": [container(&json!({}), &json!({"cpu": "1"}))]}), "Burstable"),
            (json!({"containers": [{}], "resources": {"limits": both, "requests": both}}), "Guaranteed"),
            (json!({"containers": [container(&both, &both)], "resources": {}}), "BestEffort"),
        ];
        for (spec, class) in cases {
            assert_eq!(quality_of_service(&spec), class, "{spec}");
        }
    }

    #[test]
    fn containers_that_run_one_after_another_share_what_they_need() {
        let one = |cpu: &str, policy: Value| json!({"resources": {"requests": {"cpu": cpu}}, "restartPolicy": policy});
        let spec = json!({
            "containers": [one("1", Value::Null), one("500m", Value::Null)],
            "initContainers": [one("1", "Always".into()), one("2", Value::Null)],
        });
        assert_eq!(total(&spec, "requests")["cpu"].to_string(), "3");
    }
}
