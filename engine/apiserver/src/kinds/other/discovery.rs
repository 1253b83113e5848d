//! `discovery.k8s.io`: endpoint slices.

use serde_json::Value;

use super::addresses;
use super::look::{Faults, default, each, each_wrong, has, immutable, list, one_of, same, text};
use super::rules;
use crate::field::{Error, Path};
use crate::kinds::Strategy;
use crate::names;

const MOST_ENDPOINTS: usize = 1000;
const MOST_ADDRESSES: usize = 100;
const MOST_PORTS: usize = 20000;
const MOST_HINTS: usize = 8;

static ENDPOINT_SLICE: Strategy = Strategy {
    default: |slice| {
        for port in each(slice, "ports") {
            default(port, "name", "");
            default(port, "protocol", "TCP");
        }
    },
    validate: |slice| [validate_frame(slice), validate_endpoints(slice)].concat(),
    validate_update,
    prepare_create: |slice| {
        super::set_generation(slice, 1);
        drop_topology(slice);
    },
    prepare_update: |new, old| {
        let labels = |slice: &Value| slice["metadata"]["labels"].clone();
        let same_content =
            ["addressType", "endpoints", "ports"].iter().all(|key| same(&new[*key], &old[*key]));
        super::raise_generation(new, old, !same_content || !same(&labels(new), &labels(old)));
        drop_topology(new);
    },
    ..Strategy::PLAIN
};

pub(super) fn strategy(kind: &str) -> Option<&'static Strategy> {
    (kind == "EndpointSlice").then_some(&ENDPOINT_SLICE)
}

/// A field that only an older version of the API had.
fn drop_topology(slice: &mut Value) {
    for endpoint in each(slice, "endpoints") {
        if let Some(fields) = endpoint.as_object_mut() {
            fields.remove("deprecatedTopology");
        }
    }
}

fn validate_update(new: &Value, old: &Value) -> Faults {
    let mut faults = validate_frame(new);
    // What was accepted once, by an older server perhaps, stays accepted while nobody touches it.
    if !same(&new["endpoints"], &old["endpoints"]) {
        faults.extend(validate_endpoints(new));
    }
    faults.extend(immutable(&new["addressType"], &old["addressType"], &Path::new("addressType")));
    faults
}

fn validate_frame(slice: &Value) -> Faults {
    let path = Path::new("addressType");
    let mut faults = match text(slice, "addressType") {
        "" => vec![Error::required(&path, "")],
        kind => one_of(kind, &path, &["FQDN", "IPv4", "IPv6"]),
    };
    faults.extend(validate_ports(list(slice, "ports"), &Path::new("ports")));
    faults
}

fn validate_ports(ports: &[Value], path: &Path) -> Faults {
    if ports.len() > MOST_PORTS {
        return vec![Error::too_many(path, ports.len(), MOST_PORTS)];
    }
    let mut faults = Vec::new();
    let mut seen: Vec<&str> = Vec::with_capacity(ports.len());
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = text(port, "name");
        if !name.is_empty() {
            faults.extend(each_wrong(&path.child("name"), name, names::dns1123_label(name)));
        }
        if seen.contains(&name) {
            faults.push(Error::duplicate(&path.child("name"), name));
        } else {
            seen.push(name);
        }
        if has(port, "protocol") {
            faults.extend(one_of(text(port, "protocol"), &path.child("protocol"), &["SCTP", "TCP", "UDP"]));
        } else {
            faults.push(Error::required(&path.child("protocol"), ""));
        }
        if has(port, "appProtocol") {
            let protocol = text(port, "appProtocol");
            faults.extend(each_wrong(&path.child("appProtocol"), protocol, names::qualified_name(protocol)));
        }
    }
    faults
}

fn validate_endpoints(slice: &Value) -> Faults {
    let endpoints = list(slice, "endpoints");
    let path = Path::new("endpoints");
    if endpoints.len() > MOST_ENDPOINTS {
        return vec![Error::too_many(&path, endpoints.len(), MOST_ENDPOINTS)];
    }
    let kind = text(slice, "addressType");
    let each = endpoints.iter().enumerate();
    each.flat_map(|(index, endpoint)| validate_endpoint(endpoint, kind, &path.index(index))).collect()
}

fn validate_endpoint(endpoint: &Value, kind: &str, path: &Path) -> Faults {
    let addresses = list(endpoint, "addresses");
    let addresses_path = path.child("addresses");
    let mut faults = Vec::new();
    if addresses.is_empty() {
        faults.push(Error::required(&addresses_path, "must contain at least 1 address"));
    } else if addresses.len() > MOST_ADDRESSES {
        faults.push(Error::too_many(&addresses_path, addresses.len(), MOST_ADDRESSES));
    }
    for (index, address) in addresses.iter().enumerate() {
        let address = address.as_str().unwrap_or_default();
        faults.extend(validate_address(address, kind, &addresses_path, index));
    }
    if has(endpoint, "nodeName") {
        let node = text(endpoint, "nodeName");
        faults.extend(each_wrong(&path.child("nodeName"), node, names::dns1123_subdomain(node)));
    }
    if has(endpoint, "hostname") {
        let host = text(endpoint, "hostname");
        faults.extend(each_wrong(&path.child("hostname"), host, names::dns1123_label(host)));
    }
    if has(endpoint, "hints") {
        faults.extend(validate_hints(&endpoint["hints"], &path.child("hints")));
    }
    faults
}

fn validate_address(address: &str, kind: &str, path: &Path, index: usize) -> Faults {
    let at = path.index(index);
    let (wrong, right) = match kind {
        "IPv4" => (names::legacy_ip(address), !names::is_ipv6(address)),
        "IPv6" => (names::ip(address), names::is_ipv6(address)),
        "FQDN" => return rules::fully_qualified_domain(&at, address),
        _ => return Vec::new(),
    };
    if !wrong.is_empty() {
        return each_wrong(&at, address, wrong);
    }
    let mut faults = Vec::new();
    if !right {
        faults.push(Error::invalid(path, address, format!("must be an {kind} address")));
    }
    faults.extend(addresses::endpoint(&at, address));
    faults
}

fn validate_hints(hints: &Value, path: &Path) -> Faults {
    let mut faults = Vec::new();
    for key in ["forZones", "forNodes"] {
        let rule = if key == "forZones" { names::label_value } else { names::dns1123_subdomain };
        let items = list(hints, key);
        let path = path.child(key);
        if items.len() > MOST_HINTS {
            faults.push(Error::too_many(&path, items.len(), MOST_HINTS));
            return faults;
        }
        let mut seen: Vec<&str> = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let at = path.index(index).child("name");
            let name = text(item, "name");
            if seen.contains(&name) {
                faults.push(Error::duplicate(&at, name));
            } else {
                seen.push(name);
            }
            faults.extend(each_wrong(&at, name, rule(name)));
        }
    }
    faults
}
