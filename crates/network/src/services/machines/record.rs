//! What is kept of virtual machines, and of the Services that were made for them.

use k8s_openapi::api::core::v1::Service;
use koinon_api::names::network::VM_SERVICE;
use koinon_api::network::VirtualMachine;
use koinon_fleet::Record;
use kube::ResourceExt as _;

use super::tag::{self, Asks};
use crate::services::model::{Address, Flaw, Protocol};
use crate::services::records::preferring;

/// A machine that belongs to Services.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    pub uid: String,
    pub asks: Asks,
    /// By which it is reached where external addresses are preferred, and where internal ones are.
    pub external: Vec<Address>,
    pub internal: Vec<Address>,
    pub ready: bool,
    pub flaws: Vec<Flaw>,
}

impl Record for Machine {
    type Object = VirtualMachine;

    fn fold(machine: &VirtualMachine) -> Option<Machine> {
        if machine.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let status = machine.status.clone().unwrap_or_default();
        let mut tags = machine.annotations().clone();
        tags.extend(machine.spec.tags.clone());
        tags.extend(status.tags);
        let id = status.cloud_id.filter(|id| !id.is_empty()).unwrap_or_else(|| machine.name_any());
        let mut flaws = Vec::new();
        let asks = tag::read(&tags, &id, &mut flaws);
        let addresses = |kinds: [&str; 2]| {
            let interfaces = status.network_interfaces.iter();
            let mut found: Vec<Address> = interfaces.flat_map(|one| preferring(kinds, &one.ips)).collect();
            found.sort();
            found.dedup();
            found
        };
        let external = addresses(["ExternalIP", "InternalIP"]);
        let internal = addresses(["InternalIP", "ExternalIP"]);
        let down = ["stopped", "stopping", "shutting down", "starting"];
        let ready = status.state.is_none_or(|state| !down.contains(&state.to_lowercase().as_str()));
        // Also of one that asks for nothing: it says that there are machines here.
        Some(Machine { uid: machine.uid().unwrap_or_default(), asks, external, internal, ready, flaws })
    }
}

/// The name that a Service of machines stands for while it is neither headless nor has an address. Whether it has one cannot be
/// changed, but for a Service that stands for a name; were it made anew instead, what others wrote on it could be lost halfway.
pub(crate) const BETWEEN: &str = "being-changed.koinon.invalid";

/// Whether a Service of machines is in between.
pub(crate) fn is_between(service: &Service) -> bool {
    let name = service.spec.as_ref().and_then(|spec| spec.external_name.as_deref());
    service.annotations().contains_key(VM_SERVICE)
        && name == Some(BETWEEN)
        && service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("ExternalName")
}

/// A Service that was made for machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineService {
    pub uid: String,
    pub version: String,
    pub going: bool,
    pub headless: bool,
    /// Whether it is to become headless, or to get an address.
    pub between: bool,
    pub selects: bool,
    pub ports: Vec<(String, Protocol, u16)>,
}

impl Record for MachineService {
    type Object = Service;

    fn fold(service: &Service) -> Option<MachineService> {
        service.annotations().get(VM_SERVICE)?;
        let spec = service.spec.clone().unwrap_or_default();
        let ports = spec.ports.iter().flatten().filter_map(|port| {
            let number = u16::try_from(port.port).ok()?;
            Some((port.name.clone().unwrap_or_default(), Protocol::read(port.protocol.as_deref())?, number))
        });
        Some(MachineService {
            uid: service.uid().unwrap_or_default(),
            version: service.resource_version().unwrap_or_default(),
            going: service.metadata.deletion_timestamp.is_some(),
            headless: spec.cluster_ip.as_deref() == Some("None"),
            between: is_between(service),
            selects: spec.selector.is_some_and(|selector| !selector.is_empty()),
            ports: ports.collect(),
        })
    }
}
