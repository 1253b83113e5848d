//! Services, what is behind them, and what leads to them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::read::{Read, age, joined};
use super::workload::{labels, selector};

/// More addresses, ports or hosts than these are only counted.
const SHOWN: usize = 3;

pub(super) fn core(kind: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let name = object.text("metadata.name");
    Some(match kind {
        "Service" => vec![
            name.into(),
            object.text("spec.type").into(),
            cluster_ip(object).into(),
            external_ip(object).into(),
            service_ports(object).into(),
            age(object, now).into(),
            labels(object.at("spec.selector")).into(),
        ],
        "Endpoints" => vec![name.into(), endpoints(object).into(), age(object, now).into()],
        _ => return None,
    })
}

pub(super) fn cells(kind: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let name = object.text("metadata.name");
    let age = age(object, now);
    Some(match kind {
        "EndpointSlice" => vec![
            name.into(),
            object.text("addressType").into(),
            or_unset(listed(object.list("ports").iter().map(slice_port).collect())).into(),
            or_unset(listed(slice_addresses(object))).into(),
            age.into(),
        ],
        "Ingress" => vec![
            name.into(),
            object.at("spec.ingressClassName").as_str().unwrap_or("<none>").into(),
            hosts(object.list("spec.rules")).into(),
            load_balancer(object).into(),
            if object.list("spec.tls").is_empty() { "80" } else { "80, 443" }.into(),
            age.into(),
        ],
        "IngressClass" => {
            let default = object.annotation("ingressclass.kubernetes.io/is-default-class") == Some("true");
            let suffix = if default { " (default)" } else { "" };
            vec![
                format!("{name}{suffix}").into(),
                object.text("spec.controller").into(),
                parameters(object.at("spec.parameters")).into(),
                age.into(),
            ]
        }
        "NetworkPolicy" => {
            let pods = object.at("spec.podSelector");
            // An absent selector is an empty one here, and selects all.
            let pods = if pods.is_null() { "<none>".to_owned() } else { selector(pods) };
            vec![name.into(), pods.into(), age.into()]
        }
        "ServiceCIDR" => vec![name.into(), joined(object.list("spec.cidrs")).into(), age.into()],
        // The age has no column; it is sent all the same.
        "IPAddress" => vec![name.into(), parent(object.at("spec.parentRef")).into(), age.into()],
        _ => return None,
    })
}

fn cluster_ip(service: &Value) -> &str {
    match service.list("spec.clusterIPs").first() {
        Some(first) => first.as_str().unwrap_or_default(),
        None => service.text_or("spec.clusterIP", "<none>"),
    }
}

fn external_ip(service: &Value) -> String {
    let external = joined(service.list("spec.externalIPs"));
    match service.text("spec.type") {
        "ClusterIP" | "NodePort" if external.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => external,
        "LoadBalancer" => match (load_balancer(service), external) {
            (balancer, external) if balancer.is_empty() && external.is_empty() => "<pending>".to_owned(),
            (balancer, external) if external.is_empty() => balancer,
            (balancer, external) if balancer.is_empty() => external,
            (balancer, external) => format!("{balancer},{external}"),
        },
        "ExternalName" => service.text("spec.externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// The addresses that a load balancer reported.
fn load_balancer(object: &Value) -> String {
    let ingress = object.list("status.loadBalancer.ingress").iter();
    let addresses: BTreeSet<&str> = ingress
        .map(|ingress| ingress.text_or("ip", ingress.text("hostname")))
        .filter(|address| !address.is_empty())
        .collect();
    addresses.into_iter().collect::<Vec<_>>().join(",")
}

fn service_ports(service: &Value) -> String {
    let ports = service.list("spec.ports").iter().map(|port| {
        let (number, protocol) = (port.int("port"), port.text("protocol"));
        match port.int("nodePort") {
            node if node > 0 => format!("{number}:{node}/{protocol}"),
            _ => format!("{number}/{protocol}"),
        }
    });
    let ports: Vec<String> = ports.collect();
    if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") }
}

fn endpoints(object: &Value) -> String {
    if object.list("subsets").is_empty() {
        return "<none>".to_owned();
    }
    let mut all = Vec::new();
    for subset in object.list("subsets") {
        let addresses = subset.list("addresses").iter().map(|address| address.text("ip"));
        let ports = subset.list("ports");
        if ports.is_empty() {
            all.extend(addresses.map(str::to_owned));
            continue;
        }
        for port in ports {
            let number = port.int("port");
            all.extend(addresses.clone().map(|ip| match ip.contains(':') {
                true => format!("[{ip}]:{number}"),
                false => format!("{ip}:{number}"),
            }));
        }
    }
    listed(all)
}

/// The first few, and how many more there are.
fn listed(all: Vec<String>) -> String {
    match all.len().saturating_sub(SHOWN) {
        0 => all.join(","),
        more => format!("{} + {more} more...", all[..SHOWN].join(",")),
    }
}

fn or_unset(text: String) -> String {
    if text.is_empty() { "<unset>".to_owned() } else { text }
}

fn slice_port(port: &Value) -> String {
    match (port.at("port").as_i64(), port.at("name").as_str()) {
        (Some(number), _) => number.to_string(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => "*".to_owned(),
    }
}

fn slice_addresses(slice: &Value) -> Vec<String> {
    let endpoints = slice.list("endpoints").iter();
    let addresses = endpoints.flat_map(|endpoint| endpoint.list("addresses"));
    addresses.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn hosts(rules: &[Value]) -> String {
    let (mut shown, mut more) = (Vec::new(), false);
    for rule in rules {
        more = more || shown.len() == SHOWN;
        let host = rule.text("host");
        if !more && !host.is_empty() {
            shown.push(host);
        }
    }
    match (shown.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (false, false) => shown.join(","),
        // Rules without a host are counted too.
        (false, true) => format!("{} + {} more...", shown.join(","), rules.len() - SHOWN),
    }
}

fn parameters(reference: &Value) -> String {
    if reference.is_null() {
        return "<none>".to_owned();
    }
    let (kind, name) = (reference.text("kind"), reference.text("name"));
    match reference.at("apiGroup").as_str() {
        Some(group) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

fn parent(reference: &Value) -> String {
    if reference.is_null() {
        return "<none>".to_owned();
    }
    let mut resource = reference.text("resource").to_lowercase();
    for (separator, part) in [(".", "group"), ("/", "namespace")] {
        let text = reference.text(part);
        if !text.is_empty() {
            let text = if part == "group" { text.to_lowercase() } else { text.to_owned() };
            resource = format!("{resource}{separator}{text}");
        }
    }
    format!("{resource}/{}", reference.text("name"))
}
