//! Subsets of Endpoints in one canonical form: each set of addresses once, with all the ports that it serves.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset};

/// A port by what it says. None stands for addresses without ports, of headless Services.
type PortKey = Option<(Option<String>, Option<String>, i32, Option<String>)>;
/// Two pods may have one address, if it is their node's.
type AddressKey = (String, Option<String>);

/// The same addresses and ports in as few subsets as can be. An address that is ready and not ready at once is not ready.
pub(crate) fn repack(subsets: &[EndpointSubset]) -> Vec<EndpointSubset> {
    let mut addresses: BTreeMap<AddressKey, &EndpointAddress> = BTreeMap::new();
    let mut ports: BTreeMap<PortKey, (Option<&EndpointPort>, BTreeMap<AddressKey, bool>)> = BTreeMap::new();
    for subset in subsets {
        let own: Vec<Option<&EndpointPort>> = match subset.ports.as_deref().unwrap_or_default() {
            [] => vec![None],
            some => some.iter().map(Some).collect(),
        };
        for port in own {
            let (_, readiness) = ports.entry(key_of_port(port)).or_insert_with(|| (port, BTreeMap::new()));
            let ready = subset.addresses.iter().flatten().map(|address| (address, true));
            let not_ready = subset.not_ready_addresses.iter().flatten().map(|address| (address, false));
            for (address, is_ready) in ready.chain(not_ready) {
                let key = key_of_address(address);
                addresses.entry(key.clone()).or_insert(address);
                readiness.entry(key).and_modify(|ready| *ready &= is_ready).or_insert(is_ready);
            }
        }
    }
    let mut grouped: BTreeMap<BTreeMap<AddressKey, bool>, Vec<EndpointPort>> = BTreeMap::new();
    for (port, readiness) in ports.into_values() {
        grouped.entry(readiness).or_default().extend(port.cloned());
    }
    let subset = |(readiness, ports): (BTreeMap<AddressKey, bool>, Vec<EndpointPort>)| {
        let of = |wanted: bool| -> Option<Vec<EndpointAddress>> {
            let keys = readiness.iter().filter(|(_, ready)| **ready == wanted).map(|(key, _)| key);
            let found: Vec<EndpointAddress> = keys.map(|key| addresses[key].clone()).collect();
            (!found.is_empty()).then_some(found)
        };
        EndpointSubset {
            addresses: of(true),
            not_ready_addresses: of(false),
            ports: (!ports.is_empty()).then_some(ports),
        }
    };
    grouped.into_iter().map(subset).collect()
}

fn key_of_port(port: Option<&EndpointPort>) -> PortKey {
    port.map(|port| (port.name.clone(), port.protocol.clone(), port.port, port.app_protocol.clone()))
}

fn key_of_address(address: &EndpointAddress) -> AddressKey {
    (address.ip.clone(), address.target_ref.as_ref().and_then(|target| target.uid.clone()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(given: Value, expected: &Value) {
        let given: Vec<EndpointSubset> = serde_json::from_value(given).unwrap();
        let packed = repack(&given);
        assert_eq!(&serde_json::to_value(&packed).unwrap(), expected);
        assert_eq!(repack(&packed), packed, "it is in its canonical form");
    }

    fn port(number: i32) -> Value {
        json!({"port": number, "protocol": "TCP"})
    }

    #[test]
    fn addresses_with_the_same_ports_share_a_subset() {
        let one = json!({"addresses": [{"ip": "10.0.0.1"}], "ports": [port(80)]});
        let two = json!({"addresses": [{"ip": "10.0.0.2"}], "ports": [port(80)]});
        let both = json!({"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}], "ports": [port(80)]});
        check(json!([two, one]), &json!([both]));
        let more = json!({"addresses": [{"ip": "10.0.0.1"}], "ports": [port(81)]});
        check(
            json!([one, more]),
            &json!([{"addresses": [{"ip": "10.0.0.1"}], "ports": [port(80), port(81)]}]),
        );
    }

    #[test]
    fn what_is_not_ready_anywhere_is_not_ready() {
        let ready = json!({"addresses": [{"ip": "10.0.0.1"}], "ports": [port(80)]});
        let not_ready = json!({"notReadyAddresses": [{"ip": "10.0.0.1"}], "ports": [port(80)]});
        check(json!([ready, not_ready]), &json!([not_ready]));
    }

    #[test]
    fn addresses_without_ports_are_kept() {
        let bare = json!({"addresses": [{"ip": "10.0.0.1"}]});
        check(json!([bare, bare]), &json!([bare]));
        check(json!([]), &json!([]));
    }
}
