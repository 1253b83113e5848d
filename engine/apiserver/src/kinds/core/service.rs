//! Services. Their addresses and node ports are given out elsewhere, before they are validated.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::service_addresses::{self as addresses, is_headless};
use super::{META_ONLY, Strategy};
use crate::field::{Error, Fault, Path};
use crate::kinds::internal;
use crate::kinds::meta::{self, annotation};
use crate::kinds::pods::{enumerated, validate_port, validate_protocol};
use crate::kinds::selectors::validate_labels;
use crate::kinds::walk::{
    At, Faults, copy, find_mut, find_path_mut, get, is_empty, items_mut, list, map_mut, object_mut, remove,
    set_absent, set_zero, text,
};
use crate::names;

const ONLY_LOAD_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";

pub(super) const SERVICE: Strategy = Strategy {
    default: default_service,
    prepare_create: |service| {
        set_absent(object_mut(service, "status"), "loadBalancer", json!({}));
        hide_policy(service);
    },
    prepare_update: drop_what_the_type_no_longer_needs,
    validate: |service| [meta::validate_builtin(service), validate_service(service, None)].concat(),
    validate_update: |new, old| {
        let mut faults = meta::validate_builtin_update(new, old);
        faults.extend(addresses::validate_change(new, old));
        faults.extend(validate_class(new, Some(old)));
        if needs_health_check(new)
            && needs_health_check(old)
            && spec_of(new, "healthCheckNodePort") != spec_of(old, "healthCheckNodePort")
        {
            let path = Path::new("spec").child("healthCheckNodePort");
            faults.push(Error::forbidden(&path, "field is immutable"));
        }
        faults.extend(validate_service(new, Some(old)));
        faults
    },
    validate_status: |new, old| {
        [meta::validate_builtin_update(new, old), validate_balancer(new, old)].concat()
    },
    name: names::dns1123_label,
    status: true,
    create_on_update: true,
    ..META_ONLY
};

/// What has no endpoints in the cluster shows no policy for them, whatever was written.
fn hide_policy(service: &mut Value) {
    let known =
        ["Cluster", "Local"].contains(&spec_of(service, "internalTrafficPolicy").as_str().unwrap_or(""));
    if known && kind_of(service) == "ExternalName" {
        remove(object_mut(service, "spec"), "internalTrafficPolicy");
    }
}

fn spec_of<'a>(service: &'a Value, name: &str) -> &'a Value {
    get(service, &["spec", name])
}

fn kind_of(service: &Value) -> &str {
    spec_of(service, "type").as_str().unwrap_or_default()
}

fn default_service(service: &mut Value) {
    let spec = object_mut(service, "spec");
    set_zero(spec, "sessionAffinity", "None");
    match text(spec, "sessionAffinity") {
        "None" => remove(spec, "sessionAffinityConfig"),
        "ClientIP" if get(spec, &["sessionAffinityConfig", "clientIP", "timeoutSeconds"]).is_null() => {
            let config = json!({"clientIP": {"timeoutSeconds": 10800}});
            map_mut(spec).insert("sessionAffinityConfig".into(), config);
        }
        _ => {}
    }
    set_zero(spec, "type", "ClusterIP");
    for port in items_mut(spec, "ports") {
        set_zero(port, "protocol", "TCP");
        let own = port["port"].clone();
        set_zero(port, "targetPort", own);
    }
    let kind = text(spec, "type").to_owned();
    if is_external(spec) {
        set_zero(spec, "externalTrafficPolicy", "Cluster");
    }
    if ["NodePort", "LoadBalancer", "ClusterIP"].contains(&kind.as_str()) {
        set_absent(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set_absent(spec, "allocateLoadBalancerNodePorts", true);
        if let Some(balancer) = find_path_mut(service, &["status", "loadBalancer"]) {
            for ingress in items_mut(balancer, "ingress").filter(|ingress| !text(ingress, "ip").is_empty()) {
                set_absent(ingress, "ipMode", "VIP");
            }
        }
    }
}

/// Whether traffic from outside the cluster can reach it.
fn is_external(spec: &Value) -> bool {
    match text(spec, "type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !is_empty(get(spec, &["externalIPs"])),
        _ => false,
    }
}

fn needs_health_check(service: &Value) -> bool {
    kind_of(service) == "LoadBalancer" && spec_of(service, "externalTrafficPolicy") == "Local"
}

/// A client that changes only the type sends back what the old type had; it is dropped for them.
fn drop_what_the_type_no_longer_needs(new: &mut Value, old: &Value) {
    let (kind, old_kind) = (kind_of(new).to_owned(), kind_of(old).to_owned());
    let unchanged = |new: &Value, name: &str| spec_of(new, name) == spec_of(old, name);
    if old_kind != "ExternalName" && kind == "ExternalName" {
        if unchanged(new, "clusterIP") && unchanged(new, "clusterIPs") {
            remove(object_mut(new, "spec"), "clusterIP");
            remove(object_mut(new, "spec"), "clusterIPs");
        }
        for name in ["ipFamilies", "ipFamilyPolicy"] {
            if unchanged(new, name) {
                remove(object_mut(new, "spec"), name);
            }
        }
    }
    let has_node_ports = |kind: &str| ["NodePort", "LoadBalancer"].contains(&kind);
    if has_node_ports(&old_kind) && !has_node_ports(&kind) {
        let known = node_ports(old);
        if node_ports(new).is_subset(&known) {
            items_mut(object_mut(new, "spec"), "ports").for_each(|port| remove(port, "nodePort"));
        }
    }
    if needs_health_check(old) && !needs_health_check(new) && unchanged(new, "healthCheckNodePort") {
        remove(object_mut(new, "spec"), "healthCheckNodePort");
    }
    if old_kind == "LoadBalancer" && kind != "LoadBalancer" {
        for name in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if unchanged(new, name) {
                remove(object_mut(new, "spec"), name);
            }
        }
    }
    if is_external(&old["spec"]) && !is_external(&new["spec"]) && unchanged(new, "externalTrafficPolicy") {
        remove(object_mut(new, "spec"), "externalTrafficPolicy");
    }
    hide_policy(new);
    copy(new, old, "status");
    if kind != "LoadBalancer"
        && let Some(status) = find_mut(new, "status")
    {
        map_mut(status).insert("loadBalancer".into(), json!({}));
    }
}

fn node_ports(service: &Value) -> BTreeSet<i64> {
    list(spec_of(service, "ports"))
        .iter()
        .filter_map(|port| port["nodePort"].as_i64())
        .filter(|port| *port != 0)
        .collect()
}

// === validation ===

fn validate_service(service: &Value, old: Option<&Value>) -> Faults {
    let spec = At::top(service, "spec");
    let mut faults: Faults = validate_topology(service).into_iter().collect();
    faults.extend(validate_kind(&spec));
    faults.extend(validate_ports(&spec));
    faults.extend(validate_labels(&spec.child("selector")));
    faults.extend(validate_affinity(&spec));
    faults.extend(addresses::validate(service, old));
    faults.extend(addresses::validate_external(&spec, old));
    faults
        .extend(enumerated(&spec.child("type"), &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]));
    faults.extend(validate_port_numbers(&spec));
    faults.extend(validate_source_ranges(service, old));
    let balancer = spec.text("type") == "LoadBalancer";
    let allocate = spec.child("allocateLoadBalancerNodePorts");
    if allocate.is_set() && !balancer {
        faults.push(allocate.forbidden(ONLY_LOAD_BALANCER));
    }
    if balancer && !allocate.is_set() {
        faults.push(Error::required(&Path::new("allocateLoadBalancerNodePorts"), ""));
    }
    faults.extend(validate_class(service, None));
    faults.extend(validate_external_policy(&spec, service));
    let policy = spec.child("internalTrafficPolicy");
    if policy.is_set() && !["Cluster", "Local"].contains(&policy.str()) {
        faults.push(policy.not_supported(&["Cluster", "Local"]));
    }
    let distribution = spec.child("trafficDistribution");
    let distributions = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    if distribution.is_set() && !distributions.contains(&distribution.str()) {
        faults.push(distribution.not_supported(&distributions));
    }
    faults
}

fn validate_topology(service: &Value) -> Option<Error> {
    let (mode, hints) = (annotation(service, TOPOLOGY_MODE)?, annotation(service, TOPOLOGY_HINTS)?);
    let path = Path::new("metadata").child("annotations").key(TOPOLOGY_MODE);
    let why = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
    (mode != hints).then(|| Error::invalid(&path, mode, why))
}

fn validate_kind(spec: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    let kind = spec.text("type");
    let headless = is_headless(spec.value);
    if is_empty(spec.child("ports").value) && !headless && kind != "ExternalName" {
        faults.push(spec.child("ports").required(""));
    }
    match kind {
        "LoadBalancer" | "NodePort" if headless => {
            let path = spec.child("clusterIPs").path.index(0);
            let why = format!("may not be set to 'None' for {kind} services");
            faults.push(Error::invalid(&path, "None", why));
        }
        "ExternalName" => {
            for name in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                let field = spec.child(name);
                if !is_empty(field.value) {
                    faults.push(field.forbidden("may not be set for ExternalName services"));
                }
            }
            let name = spec.child("externalName");
            let trimmed = name.str().strip_suffix('.').unwrap_or_else(|| name.str());
            if trimmed.is_empty() {
                faults.push(name.required(""));
            }
            let wrong = if trimmed.is_empty() { Vec::new() } else { names::dns1123_subdomain(trimmed) };
            faults.extend(wrong.into_iter().map(|why| Error::invalid(&name.path, trimmed, why)));
        }
        _ => {}
    }
    faults
}

fn validate_ports(spec: &At<'_>) -> Faults {
    let ports = spec.child("ports");
    let needs_name = ports.items().len() > 1;
    let mut faults = Faults::new();
    let mut seen = BTreeSet::new();
    for port in ports.items() {
        let name = port.child("name");
        if !name.str().is_empty() {
            faults.extend(name.obey(names::dns1123_label));
            if !seen.insert(name.str()) {
                faults.push(name.duplicate());
            }
        } else if needs_name {
            faults.push(name.required(""));
        }
        let number = port.child("port");
        let value = number.value.as_i64().unwrap_or(0);
        faults.extend(
            names::port_number(value).into_iter().map(|why| Error::invalid(&number.path, value, why)),
        );
        faults.extend(validate_protocol(&port.child("protocol")));
        faults.extend(validate_port(&port.child("targetPort")));
        let protocol = port.child("appProtocol");
        if protocol.is_set() {
            faults.extend(protocol.obey(names::qualified_name));
        }
    }
    faults
}

fn validate_affinity(spec: &At<'_>) -> Faults {
    let affinity = spec.child("sessionAffinity");
    let mut faults: Faults = enumerated(&affinity, &["ClientIP", "None"]).into_iter().collect();
    let config = spec.child("sessionAffinityConfig");
    let timeout = config.child("clientIP").child("timeoutSeconds");
    match affinity.str() {
        "ClientIP" => {
            let missing = [config.clone(), config.child("clientIP"), timeout.clone()];
            let missing = missing.iter().find(|part| !part.is_set());
            faults.extend(missing.map(|part| part.required("when session affinity type is ClientIP")));
            if timeout.value.as_i64().is_some_and(|seconds| !(1..=86400).contains(&seconds)) {
                faults.push(timeout.invalid("must be greater than 0 and less than 86400"));
            }
        }
        "None" if config.is_set() => {
            faults.push(config.forbidden("must not be set when session affinity is None"));
        }
        _ => {}
    }
    faults
}

fn validate_port_numbers(spec: &At<'_>) -> Faults {
    let ports = spec.child("ports");
    let mut faults = Faults::new();
    let node_ports = || {
        let all = ports.items().map(|port| (port.text("protocol"), port.child("nodePort")));
        all.filter(|(_, port)| port.value.as_i64().unwrap_or(0) != 0)
    };
    if spec.text("type") == "ClusterIP" {
        let why = "may not be used when `type` is 'ClusterIP'";
        faults.extend(node_ports().map(|(_, port)| port.forbidden(why)));
    }
    let mut seen = BTreeSet::new();
    for (protocol, port) in node_ports() {
        if !seen.insert((protocol, port.value.as_i64())) {
            faults.push(port.duplicate());
        }
    }
    let mut seen = BTreeSet::new();
    for port in ports.items() {
        let (protocol, number) = (port.text("protocol"), port.int("port"));
        if !seen.insert((protocol, number)) {
            let detail = internal::show("ServicePort", &json!({"protocol": protocol, "port": number}));
            let fault = Fault::Duplicate;
            faults.push(Error { fault, path: port.path.clone(), value: None, detail });
        }
    }
    faults
}

fn validate_source_ranges(service: &Value, old: Option<&Value>) -> Faults {
    let ranges = At::new(
        spec_of(service, "loadBalancerSourceRanges"),
        Path::new("spec").child("LoadBalancerSourceRanges"),
    );
    let balancer = kind_of(service) == "LoadBalancer";
    let mut faults = Faults::new();
    if !is_empty(ranges.value) {
        if !balancer {
            faults.push(ranges.forbidden(ONLY_LOAD_BALANCER));
        }
        let known = old.map(|old| list(spec_of(old, "loadBalancerSourceRanges"))).unwrap_or_default();
        let known: BTreeSet<&str> = known.iter().filter_map(Value::as_str).map(str::trim).collect();
        for range in ranges.items() {
            let text = range.str().trim();
            let wrong = if known.contains(text) { Vec::new() } else { names::legacy_cidr(text) };
            faults.extend(wrong.into_iter().map(|why| Error::invalid(&range.path, text, why)));
        }
    } else if let Some(noted) = annotation(service, SOURCE_RANGES) {
        let path = Path::new("metadata").child("annotations").key(SOURCE_RANGES);
        if !balancer {
            faults.push(Error::forbidden(&path, ONLY_LOAD_BALANCER));
        }
        let kept = old.is_some_and(|old| annotation(old, SOURCE_RANGES) == Some(noted));
        let ranges = noted.trim().split(',').map(str::trim).filter(|_| !kept && !noted.trim().is_empty());
        for text in ranges {
            faults.extend(names::legacy_cidr(text).into_iter().map(|why| Error::invalid(&path, text, why)));
        }
    }
    faults
}

fn validate_class(service: &Value, old: Option<&Value>) -> Faults {
    let class = At::top(service, "spec").child("loadBalancerClass");
    let balancer = kind_of(service) == "LoadBalancer";
    let mut faults = Faults::new();
    if let Some(old) = old.filter(|old| balancer && kind_of(old) == "LoadBalancer")
        && class.value != spec_of(old, "loadBalancerClass")
    {
        faults.push(class.invalid("may not change once set"));
    }
    if class.is_set() && balancer {
        faults.extend(class.obey(names::qualified_name));
    } else if class.is_set() {
        faults.push(class.forbidden(ONLY_LOAD_BALANCER));
    }
    faults
}

fn validate_external_policy(spec: &At<'_>, service: &Value) -> Faults {
    let mut faults = Faults::new();
    let policy = spec.child("externalTrafficPolicy");
    if is_external(spec.value) {
        faults.extend(enumerated(&policy, &["Cluster", "Local"]));
    } else if !policy.str().is_empty() {
        faults.push(policy.invalid("may only be set for externally-accessible services"));
    }
    let port = spec.child("healthCheckNodePort");
    match port.value.as_i64().unwrap_or(0) {
        0 if needs_health_check(service) => faults.push(port.required("")),
        0 => {}
        number if needs_health_check(service) => {
            faults.extend(names::port_number(number).into_iter().map(|why| port.invalid(why)));
        }
        _ => {
            let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            faults.push(port.invalid(why));
        }
    }
    faults
}

fn validate_balancer(new: &Value, old: &Value) -> Faults {
    let ingress = At::top(new, "status").child("loadBalancer").child("ingress");
    if kind_of(new) != "LoadBalancer" {
        let why = "may only be used when `spec.type` is 'LoadBalancer'";
        return if is_empty(ingress.value) { Faults::new() } else { vec![ingress.forbidden(why)] };
    }
    let known = list(get(old, &["status", "loadBalancer", "ingress"]));
    let mut faults = Faults::new();
    for one in ingress.items() {
        let (ip, mode, host) = (one.child("ip"), one.child("ipMode"), one.child("hostname"));
        if !ip.str().is_empty() && !known.iter().any(|old| text(old, "ip") == ip.str()) {
            faults.extend(ip.obey(names::legacy_ip));
        }
        match (mode.is_set(), ip.str().is_empty()) {
            (false, false) => faults.push(mode.required("must be specified when `ip` is set")),
            (true, true) => faults.push(mode.forbidden("may not be specified when `ip` is not set")),
            (true, false) if !["Proxy", "VIP"].contains(&mode.str()) => {
                faults.push(mode.not_supported(&["Proxy", "VIP"]));
            }
            _ => {}
        }
        if !host.str().is_empty() {
            faults.extend(host.obey(names::dns1123_subdomain));
            if names::parse_ip(host.str()).is_some() {
                faults.push(host.invalid("must be a DNS name, not an IP address"));
            }
        }
    }
    faults
}
