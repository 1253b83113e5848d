//! Endpoints: the addresses behind a Service, as they were before EndpointSlices.

use std::net::IpAddr;

use serde_json::Value;

use super::{META_ONLY, Strategy};
use crate::field::{Error, Path};
use crate::kinds::meta;
use crate::kinds::pods::validate_protocol;
use crate::kinds::walk::{At, Faults, is_empty, items_mut, same, set_zero};
use crate::names;

pub(super) const ENDPOINTS: Strategy = Strategy {
    default: |endpoints| {
        for port in items_mut(endpoints, "subsets").flat_map(|subset| items_mut(subset, "ports")) {
            set_zero(port, "protocol", "TCP");
        }
    },
    validate: |endpoints| [meta::validate_builtin(endpoints), validate_subsets(endpoints)].concat(),
    validate_update: |new, old| {
        let mut faults = meta::validate_builtin_update(new, old);
        faults.extend(meta::validate_builtin_again(new, true, names::dns1123_subdomain));
        // What was wrong before may stay, as long as nothing there changes.
        if !same(&new["subsets"], &old["subsets"]) {
            faults.extend(validate_subsets(new));
        }
        faults
    },
    create_on_update: true,
    ..META_ONLY
};

fn validate_subsets(endpoints: &Value) -> Faults {
    let mut faults = Faults::new();
    for subset in At::top(endpoints, "subsets").items() {
        let kinds = ["addresses", "notReadyAddresses"].map(|name| subset.child(name));
        if kinds.iter().all(|kind| is_empty(kind.value)) {
            faults.push(subset.required("must specify `addresses` or `notReadyAddresses`"));
        }
        for address in kinds.iter().flat_map(At::items) {
            faults.extend(validate_address(&address));
        }
        let ports = subset.child("ports");
        for port in ports.items() {
            faults.extend(validate_port(&port, ports.items().len() > 1));
        }
    }
    faults
}

fn validate_address(address: &At<'_>) -> Faults {
    let ip = address.child("ip");
    let mut faults = ip.obey(names::legacy_ip);
    let hostname = address.child("hostname");
    if !hostname.str().is_empty() {
        faults.extend(hostname.obey(names::dns1123_label));
    }
    let node = address.child("nodeName");
    if node.is_set() {
        faults.extend(node.obey(names::dns1123_subdomain));
    }
    faults.extend(validate_endpoint_ip(ip.str(), &ip.path));
    faults
}

/// An address that something else than this node can be reached at.
pub(crate) fn validate_endpoint_ip(ip: &str, path: &Path) -> Faults {
    let Some(address) = names::parse_ip(ip) else {
        return vec![Error::invalid(path, ip, "must be a valid IP address")];
    };
    let (link_local, link_multicast) = match address {
        IpAddr::V4(four) => (four.is_link_local(), four.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(six) => (six.is_unicast_link_local(), six.segments()[0] & 0xff0f == 0xff02),
    };
    let wrong = [
        (address.is_unspecified(), format!("may not be unspecified ({ip})")),
        (address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned()),
        (link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()),
        (link_multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned()),
    ];
    wrong.into_iter().filter(|(wrong, _)| *wrong).map(|(_, why)| Error::invalid(path, ip, why)).collect()
}

fn validate_port(port: &At<'_>, needs_name: bool) -> Faults {
    let mut faults = Faults::new();
    let name = port.child("name");
    if !name.str().is_empty() {
        faults.extend(name.obey(names::dns1123_label));
    } else if needs_name {
        faults.push(name.required(""));
    }
    let number = port.child("port");
    let value = number.value.as_i64().unwrap_or(0);
    faults.extend(names::port_number(value).into_iter().map(|why| Error::invalid(&number.path, value, why)));
    faults.extend(validate_protocol(&port.child("protocol")));
    let protocol = port.child("appProtocol");
    if protocol.is_set() {
        faults.extend(protocol.obey(names::qualified_name));
    }
    faults
}
