//! NativeServices: what a cloud runs itself.

use koinon_api::network::NativeService;
use koinon_fleet::Record;

use super::reachable;
use super::service::{Port as Ported, created, ports};
use crate::services::joining::Asked;
use crate::services::model::{Address, Flaw, Joining, Reach};

/// More addresses than this are not taken from one object.
const MOST_ADDRESSES: usize = 1000;

impl Record for Joining {
    type Object = NativeService;

    fn fold(native: &NativeService) -> Option<Joining> {
        let metadata = &native.metadata;
        if metadata.deletion_timestamp.is_some() {
            return None;
        }
        let asked = Asked::read(metadata.namespace.as_deref()?, metadata.annotations.as_ref()?)?;
        let mut flaws = asked.flaws;
        let offered = native.spec.ports.iter().map(|port| Ported {
            name: port.name.as_deref(),
            protocol: port.protocol.as_deref(),
            port: port.port,
            node_port: None,
            app_protocol: None,
        });
        let ports = ports(offered, &mut flaws);
        let interfaces = native.status.iter().flat_map(|status| &status.network_interfaces);
        let mut addresses: Vec<Address> =
            interfaces.flat_map(|interface| reachable(&interface.ips)).collect();
        addresses.sort();
        addresses.dedup();
        if addresses.len() > MOST_ADDRESSES {
            let message =
                format!("only the first {MOST_ADDRESSES} of its {} addresses count", addresses.len());
            flaws.push(Flaw { reason: "TooManyEndpoints", message });
            addresses.truncate(MOST_ADDRESSES);
        }
        if addresses.is_empty() {
            let message = "it has no address yet by which other clusters could reach it".to_owned();
            flaws.push(Flaw { reason: "NoAddress", message });
        }
        Some(Joining {
            joins: asked.joins,
            flaws,
            uid: metadata.uid.clone().unwrap_or_default(),
            created: created(metadata),
            reach: Reach::Native(addresses),
            ports,
            affinity: None,
            traffic_distribution: None,
            said: None,
        })
    }
}
