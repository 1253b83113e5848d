//! ResourceQuota: how much a namespace may use, counted over what is there at the moment.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::usage::{self, Amounts};
use super::{Attributes, Lookup, Operation};
use crate::kinds::walk::{get, list, text};
use crate::quantity::Quantity;
use crate::status::Result;

pub(super) fn check(
    request: &Attributes<'_>,
    object: &Value,
    old: Option<&Value>,
    lookup: &dyn Lookup,
) -> Result<()> {
    if !is_asked(request, object, old) {
        return Ok(());
    }
    let quotas = lookup.list("", "resourcequotas", request.namespace);
    let delta = |quota: &Value| {
        let mut after = usage_of(request, object);
        if let Some(old) = old.filter(|old| in_scope(quota, old)) {
            subtract(&mut after, &usage_of(request, old));
        }
        after.retain(|_, amount| !amount.is_zero());
        after
    };
    for quota in quotas.iter().filter(|quota| in_scope(quota, object)) {
        let hard = usage::amounts(get(quota, &["spec", "hard"]));
        let name = text(&quota["metadata"], "name");
        if request.is("", "pods")
            && let Some(why) = missing(object, &hard)
        {
            return Err(request.forbidden(object, &format!("failed quota: {name}: {why}")));
        }
        let asked: Amounts =
            delta(quota).into_iter().filter(|(resource, _)| hard.contains_key(resource)).collect();
        if asked.is_empty() {
            continue;
        }
        let used = used(request, quota, &asked, lookup);
        let after = |resource: &str, more: &Quantity| {
            used.get(resource).map_or_else(|| more.clone(), |used| used.add(more))
        };
        let exceeded: Vec<&String> = asked
            .iter()
            .filter(|(resource, more)| after(resource, more) > hard[*resource])
            .map(|(resource, _)| resource)
            .collect();
        if !exceeded.is_empty() {
            let show = |amounts: &Amounts| {
                let of = |resource: &String| amounts.get(resource).cloned().unwrap_or_else(Quantity::zero);
                let parts: Vec<String> =
                    exceeded.iter().map(|resource| format!("{resource}={}", of(resource))).collect();
                parts.join(",")
            };
            let why = format!(
                "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
                show(&asked),
                show(&used),
                show(&hard)
            );
            return Err(request.forbidden(object, &why));
        }
    }
    Ok(())
}

/// Whether any quota has a say in this.
pub(super) fn is_asked(request: &Attributes<'_>, object: &Value, old: Option<&Value>) -> bool {
    !request.namespace.is_empty() && counts(request, object, old)
}

/// Whether a request can change how much is used.
fn counts(request: &Attributes<'_>, object: &Value, old: Option<&Value>) -> bool {
    match (request.group, request.resource, request.subresource, request.operation) {
        ("", "events", _, _) | ("events.k8s.io", _, _, _) => false,
        (_, _, "", Operation::Create) => true,
        ("", "pods", "", Operation::Update) => {
            old.is_some_and(|old| has_deadline(old) != has_deadline(object))
        }
        ("", "pods", "resize", Operation::Update) => true,
        ("", "services" | "persistentvolumeclaims", "", Operation::Update) => true,
        _ => false,
    }
}

fn has_deadline(pod: &Value) -> bool {
    get(pod, &["spec", "activeDeadlineSeconds"]).as_i64().is_some_and(|seconds| seconds >= 0)
}

fn subtract(from: &mut Amounts, less: &Amounts) {
    for (name, amount) in from.iter_mut() {
        if let Some(less) = less.get(name) {
            *amount = if *amount > *less { amount.subtract(less) } else { Quantity::zero() };
        }
    }
}

fn used(request: &Attributes<'_>, quota: &Value, asked: &Amounts, lookup: &dyn Lookup) -> Amounts {
    let mut used = Amounts::new();
    for object in lookup.list(request.group, request.resource, request.namespace) {
        if in_scope(quota, &object) {
            usage::add(&mut used, &usage_of(request, &object));
        }
    }
    used.retain(|resource, _| asked.contains_key(resource));
    used
}

// === what objects use ===

fn count_name(request: &Attributes<'_>) -> String {
    match request.group {
        "" => format!("count/{}", request.resource),
        group => format!("count/{}.{group}", request.resource),
    }
}

fn number(count: usize) -> Quantity {
    Quantity::parse(&count.to_string()).unwrap_or_else(|_| Quantity::zero())
}

fn usage_of(request: &Attributes<'_>, object: &Value) -> Amounts {
    let mut used = Amounts::from([(count_name(request), number(1))]);
    match (request.group, request.resource) {
        ("", "pods") => used.extend(pod_usage(object)),
        ("", "services") => used.extend(service_usage(object)),
        ("", "persistentvolumeclaims") => used.extend(claim_usage(object)),
        ("", "configmaps" | "resourcequotas" | "replicationcontrollers" | "secrets") => {
            used.insert(request.resource.to_owned(), number(1));
        }
        _ => {}
    }
    used
}

fn pod_usage(pod: &Value) -> Amounts {
    // A pod that is done uses nothing any more.
    if matches!(text(get(pod, &["status"]), "phase"), "Failed" | "Succeeded") {
        return Amounts::new();
    }
    let overhead = usage::amounts(get(pod, &["spec", "overhead"]));
    let mut requests = usage::of_pod(pod, "requests");
    let mut limits = usage::of_pod(pod, "limits");
    usage::add(&mut requests, &overhead);
    let overhead = overhead.into_iter().filter(|(name, _)| limits.contains_key(name)).collect();
    usage::add(&mut limits, &overhead);
    let mut used = compute_usage(&requests, &limits);
    used.insert("pods".to_owned(), number(1));
    used
}

/// Requests and limits under the names that quotas have for them.
fn compute_usage(requests: &Amounts, limits: &Amounts) -> Amounts {
    const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
    let mut used = Amounts::new();
    for (name, amount) in requests {
        if COMPUTE.contains(&name.as_str()) || name.starts_with("hugepages-") {
            used.insert(name.clone(), amount.clone());
            used.insert(format!("requests.{name}"), amount.clone());
        } else if name.contains('/') {
            used.insert(format!("requests.{name}"), amount.clone());
        }
    }
    for (name, amount) in limits.iter().filter(|(name, _)| COMPUTE.contains(&name.as_str())) {
        used.insert(format!("limits.{name}"), amount.clone());
    }
    used
}

fn service_usage(service: &Value) -> Amounts {
    let spec = get(service, &["spec"]);
    let ports = list(&spec["ports"]);
    let (node_ports, balancers) = match text(spec, "type") {
        "NodePort" => (ports.len(), 0),
        "LoadBalancer" if spec["allocateLoadBalancerNodePorts"].as_bool() == Some(false) => {
            (ports.iter().filter(|port| port["nodePort"].as_i64().is_some_and(|port| port != 0)).count(), 1)
        }
        "LoadBalancer" => (ports.len(), 1),
        _ => (0, 0),
    };
    let counted =
        [("services", 1), ("services.nodeports", node_ports), ("services.loadbalancers", balancers)];
    counted.into_iter().map(|(name, count)| (name.to_owned(), number(count))).collect()
}

fn claim_usage(claim: &Value) -> Amounts {
    let spec = get(claim, &["spec"]);
    let mut used = Amounts::from([("persistentvolumeclaims".to_owned(), number(1))]);
    if let Some(storage) = usage::amounts(get(spec, &["resources", "requests"])).remove("storage") {
        used.insert("requests.storage".to_owned(), storage);
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        let named = |name: &String| format!("{class}.storageclass.storage.k8s.io/{name}");
        let by_class: Amounts = used.iter().map(|(name, amount)| (named(name), amount.clone())).collect();
        used.extend(by_class);
    }
    used
}

/// What containers must say because a quota counts it.
fn missing(pod: &Value, hard: &Amounts) -> Option<String> {
    const REQUIRED: [&str; 6] =
        ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];
    if !get(pod, &["spec", "resources"]).is_null() {
        return None;
    }
    let mut silent: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in ["containers", "initContainers"].iter().flat_map(|key| list(get(pod, &["spec", key]))) {
        let of = |which: &str| usage::amounts(get(container, &["resources", which]));
        let said = compute_usage(&of("requests"), &of("limits"));
        for name in REQUIRED.into_iter().filter(|name| hard.contains_key(*name) && !said.contains_key(*name))
        {
            silent.entry(name).or_default().insert(text(container, "name"));
        }
    }
    if silent.is_empty() {
        return None;
    }
    let parts: Vec<String> = silent
        .into_iter()
        .map(|(name, containers)| {
            let containers: Vec<&str> = containers.into_iter().collect();
            format!("{name} for: {}", containers.join(","))
        })
        .collect();
    Some(format!("must specify {}", parts.join("; ")))
}

// === scopes ===

/// Whether a quota counts an object: all of its scopes must hold.
fn in_scope(quota: &Value, object: &Value) -> bool {
    let spec = get(quota, &["spec"]);
    let plain = list(&spec["scopes"])
        .iter()
        .filter_map(Value::as_str)
        .all(|scope| holds(scope, "Exists", &[], object));
    let selected = list(get(spec, &["scopeSelector", "matchExpressions"]))
        .iter()
        .all(|term| holds(text(term, "scopeName"), text(term, "operator"), list(&term["values"]), object));
    plain && selected
}

fn holds(scope: &str, operator: &str, values: &[Value], object: &Value) -> bool {
    let spec = get(object, &["spec"]);
    match scope {
        "Terminating" => has_deadline(object),
        "NotTerminating" => !has_deadline(object),
        "BestEffort" => usage::is_best_effort(spec),
        "NotBestEffort" => !usage::is_best_effort(spec),
        "PriorityClass" => matches(text(spec, "priorityClassName"), operator, values),
        "VolumeAttributesClass" => matches(text(spec, "volumeAttributesClassName"), operator, values),
        "CrossNamespacePodAffinity" => reaches_out(spec),
        _ => false,
    }
}

fn matches(name: &str, operator: &str, values: &[Value]) -> bool {
    let listed = !name.is_empty() && values.iter().any(|value| value == name);
    match operator {
        "In" => listed,
        "NotIn" => !listed,
        "DoesNotExist" => name.is_empty(),
        _ => !name.is_empty(),
    }
}

fn reaches_out(spec: &Value) -> bool {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let crosses =
        |term: &Value| !list(&term["namespaces"]).is_empty() || !term["namespaceSelector"].is_null();
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let affinity = get(spec, &["affinity", kind]);
        list(&affinity[REQUIRED]).iter().any(crosses)
            || list(&affinity[PREFERRED]).iter().any(|term| crosses(&term["podAffinityTerm"]))
    })
}
