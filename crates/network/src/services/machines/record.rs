//! What is kept of virtual machines, and of the Services that were made for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use koinon_api::names::MANAGED_BY;
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

/// What others wrote on a Service of ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Foreign {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

/// A Service that was made for machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineService {
    pub foreign: Arc<Foreign>,
    pub uid: String,
    pub version: String,
    pub going: bool,
    pub headless: bool,
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
        let foreign = Foreign {
            labels: without(service.labels(), MANAGED_BY),
            annotations: without(service.annotations(), VM_SERVICE),
        };
        Some(MachineService {
            foreign: Arc::new(foreign),
            uid: service.uid().unwrap_or_default(),
            version: service.resource_version().unwrap_or_default(),
            going: service.metadata.deletion_timestamp.is_some(),
            headless: spec.cluster_ip.as_deref() == Some("None"),
            selects: spec.selector.is_some_and(|selector| !selector.is_empty()),
            ports: ports.collect(),
        })
    }
}

fn without(all: &BTreeMap<String, String>, ours: &str) -> BTreeMap<String, String> {
    all.iter().filter(|(key, _)| *key != ours).map(|(key, value)| (key.clone(), value.clone())).collect()
}
