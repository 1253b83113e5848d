//! Ingresses.

use std::collections::HashSet;

use serde_json::Value;

use crate::field::{Error, Path};
use crate::kinds::other::look::{Faults, each_wrong, has, int, list, text, texts};
use crate::kinds::other::rules;
use crate::kinds::{Generation, Strategy};
use crate::names;

pub(super) static STRATEGY: Strategy = Strategy {
    validate: validate_create,
    validate_update,
    validate_status,
    status: true,
    generation: Generation::Spec,
    ..Strategy::PLAIN
};

/// What an update may keep although a new object could not have it.
#[derive(Default)]
struct Leniency {
    secret_names: bool,
    wildcard_hosts: bool,
}

fn validate_create(ingress: &Value) -> Faults {
    const CLASS: &str = "kubernetes.io/ingress.class";
    let mut faults = validate(ingress, &Leniency::default());
    let class = &ingress["metadata"]["annotations"][CLASS];
    let spec = &ingress["spec"];
    if let (Some(annotated), true) = (class.as_str(), has(spec, "ingressClassName"))
        && annotated != text(spec, "ingressClassName")
    {
        let path = Path::new("annotations").child(CLASS);
        faults.push(Error::invalid(
            &path,
            annotated,
            "must match `ingressClassName` when both are specified",
        ));
    }
    faults
}

fn validate_update(new: &Value, old: &Value) -> Faults {
    let spec = &old["spec"];
    let bad_secret = |tls: &Value| {
        !text(tls, "secretName").is_empty() && !names::dns1123_subdomain(text(tls, "secretName")).is_empty()
    };
    let bad_rule =
        |rule: &Value| text(rule, "host").contains('*') && !validate_http(rule, &Path::root()).is_empty();
    let leniency = Leniency {
        secret_names: list(spec, "tls").iter().any(bad_secret),
        wildcard_hosts: list(spec, "rules").iter().any(bad_rule),
    };
    validate(new, &leniency)
}

fn validate(ingress: &Value, leniency: &Leniency) -> Faults {
    let spec = &ingress["spec"];
    let path = Path::new("spec");
    let mut faults = Vec::new();
    if list(spec, "rules").is_empty() && !has(spec, "defaultBackend") {
        let why = "either `defaultBackend` or `rules` must be specified";
        faults.push(Error::invalid(&path, spec["rules"].clone(), why));
    }
    if has(spec, "defaultBackend") {
        faults.extend(validate_backend(&spec["defaultBackend"], &path.child("defaultBackend")));
    }
    for (index, rule) in list(spec, "rules").iter().enumerate() {
        faults.extend(validate_rule(rule, &path.child("rules").index(index), leniency));
    }
    for (index, tls) in list(spec, "tls").iter().enumerate() {
        faults.extend(validate_tls(tls, &path.child("tls").index(index), leniency));
    }
    if has(spec, "ingressClassName") {
        let class = text(spec, "ingressClassName");
        faults.extend(each_wrong(&path.child("ingressClassName"), class, names::dns1123_subdomain(class)));
    }
    faults
}

fn host_rule(host: &str) -> Vec<String> {
    if host.contains('*') { names::wildcard_dns1123_subdomain(host) } else { names::dns1123_subdomain(host) }
}

fn validate_tls(tls: &Value, path: &Path, leniency: &Leniency) -> Faults {
    let mut faults = Vec::new();
    for (index, host) in texts(tls, "hosts").into_iter().enumerate() {
        faults.extend(each_wrong(&path.child("hosts").index(index), host, host_rule(host)));
    }
    let secret = text(tls, "secretName");
    if !leniency.secret_names && !secret.is_empty() {
        faults.extend(each_wrong(&path.child("secretName"), secret, names::dns1123_subdomain(secret)));
    }
    faults
}

fn validate_rule(rule: &Value, path: &Path, leniency: &Leniency) -> Faults {
    let mut faults = Vec::new();
    let host = text(rule, "host");
    if !host.is_empty() {
        let at = path.child("host");
        if names::parse_ip(host).is_some() {
            faults.push(Error::invalid(&at, host, "must be a DNS name, not an IP address"));
        }
        faults.extend(each_wrong(&at, host, host_rule(host)));
    }
    if !host.contains('*') || !leniency.wildcard_hosts {
        faults.extend(validate_http(rule, path));
    }
    faults
}

fn validate_http(rule: &Value, path: &Path) -> Faults {
    if !has(rule, "http") {
        return Vec::new();
    }
    let paths = list(&rule["http"], "paths");
    let at = path.child("http").child("paths");
    if paths.is_empty() {
        return vec![Error::required(&at, "")];
    }
    paths.iter().enumerate().flat_map(|(index, one)| validate_path(one, &at.index(index))).collect()
}

fn validate_path(value: &Value, path: &Path) -> Faults {
    if !has(value, "pathType") {
        return vec![Error::required(&path.child("pathType"), "pathType must be specified")];
    }
    let route = text(value, "path");
    let at = path.child("path");
    let mut faults = Vec::new();
    match text(value, "pathType") {
        "Exact" | "Prefix" => {
            if !route.starts_with('/') {
                faults.push(Error::invalid(&at, route, "must be an absolute path"));
            }
            for bad in ["//", "/./", "/../", "%2f", "%2F"] {
                if route.contains(bad) {
                    faults.push(Error::invalid(&at, route, format!("must not contain '{bad}'")));
                }
            }
            for bad in ["/..", "/."] {
                if route.ends_with(bad) {
                    faults.push(Error::invalid(&at, route, format!("cannot end with '{bad}'")));
                }
            }
        }
        "ImplementationSpecific" => {
            if !route.is_empty() && !route.starts_with('/') {
                faults.push(Error::invalid(&at, route, "must be an absolute path"));
            }
        }
        other => {
            let known = ["Exact", "ImplementationSpecific", "Prefix"];
            faults.push(Error::not_supported(&path.child("pathType"), other, &known));
        }
    }
    faults.extend(validate_backend(&value["backend"], &path.child("backend")));
    faults
}

fn validate_backend(backend: &Value, path: &Path) -> Faults {
    match (has(backend, "resource"), has(backend, "service")) {
        (true, true) => vec![Error::invalid(path, "", "cannot set both resource and service backends")],
        (true, false) => super::reference(&backend["resource"], &path.child("resource")),
        (false, true) => validate_service(&backend["service"], path),
        (false, false) => vec![Error::invalid(path, "", "resource or service backend is required")],
    }
}

fn validate_service(service: &Value, path: &Path) -> Faults {
    let at = path.child("service");
    let name = text(service, "name");
    let mut faults = match name {
        "" => vec![Error::required(&at.child("name"), "")],
        name => each_wrong(&at.child("name"), name, names::dns1123_label(name)),
    };
    let port = &service["port"];
    let port_name = text(port, "name");
    match (port_name.is_empty(), int(port, "number").unwrap_or_default()) {
        (true, 0) => faults.push(Error::required(path, "port name or number is required")),
        (true, number) => {
            let at = at.child("port").child("number");
            faults.extend(rules::port(number, &at));
        }
        (false, 0) => {
            faults.extend(each_wrong(
                &at.child("port").child("name"),
                port_name,
                names::port_name(port_name),
            ));
        }
        (false, _) => faults.push(Error::invalid(path, "", "cannot set both port name & port number")),
    }
    faults
}

fn validate_status(new: &Value, old: &Value) -> Faults {
    let points = |ingress: &Value| list(&ingress["status"]["loadBalancer"], "ingress").to_vec();
    let kept: HashSet<Value> = points(old).iter().map(|point| point["ip"].clone()).collect();
    let path = Path::new("status.loadBalancer.ingress");
    let mut faults = Vec::new();
    for (index, point) in points(new).iter().enumerate() {
        let (address, host) = (text(point, "ip"), text(point, "hostname"));
        if !address.is_empty() && !kept.contains(&point["ip"]) {
            let at = path.index(index).child("ip");
            faults.extend(each_wrong(&at, address, names::legacy_ip(address)));
        }
        if !host.is_empty() {
            let at = path.index(index).child("hostname");
            faults.extend(each_wrong(&at, host, names::dns1123_subdomain(host)));
            if names::parse_ip(host).is_some() {
                faults.push(Error::invalid(&at, host, "must be a DNS name, not an IP address"));
            }
        }
    }
    faults
}
