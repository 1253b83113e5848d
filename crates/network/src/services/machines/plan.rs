//! Decides on one Service of virtual machines. No IO, no clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use koinon_control::Key;
use koinon_fleet::ClusterId;

use super::record::{Machine, MachineService};
use crate::services::address::is_label;
use crate::services::endpoints::once;
use crate::services::interned::intern;
use crate::services::model::{Conditions, Endpoint, Family, Home, Kind, Protocol, Slice, SlicePort, Target};
use crate::services::packing::{pack, short};
use crate::services::plan::SliceStep;
use crate::services::records::OwnSlice;
use crate::services::slices::settle;

/// What a plan looks at.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// By which of their addresses machines are reached.
    pub prefer: Prefer,
    /// The machines that belong to the Service.
    pub machines: Vec<(Key, Arc<Machine>)>,
    /// The Service, if we made it.
    pub ours: Option<Arc<MachineService>>,
    /// Whether there is a Service of that name at all.
    pub taken: bool,
    pub slices: BTreeMap<String, Arc<OwnSlice>>,
}

/// By which of its addresses a machine is reached: by those of the other kind only if it has none of this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefer {
    /// By those that lead to it from everywhere.
    #[default]
    External,
    /// By those of its own network, which has to be that of the clusters too.
    Internal,
}

/// What to do, and why.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachinePlan {
    pub service: Option<MachineStep>,
    pub slices: Vec<SliceStep>,
    /// Whether somebody else has the name.
    pub is_taken: bool,
}

/// What to do about the Service itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineStep {
    Create {
        ports: Vec<(String, Protocol, u16)>,
    },
    Update {
        uid: String,
        version: String,
        ports: Vec<(String, Protocol, u16)>,
    },
    /// It gives up its address, or that it has none, and stands for a name that leads nowhere until it has what it should.
    Vacate {
        uid: String,
        version: String,
    },
    /// It gets an address, or none, after that.
    Occupy {
        uid: String,
        version: String,
        ports: Vec<(String, Protocol, u16)>,
    },
    Delete {
        uid: String,
        version: String,
    },
}

impl MachinePlan {
    pub fn is_settled(&self) -> bool {
        self.service.is_none() && self.slices.is_empty()
    }
}

/// Decides what should be of the Service `key` of machines in the cluster `here`.
pub fn plan(here: &ClusterId, key: &Key, input: &Input) -> MachinePlan {
    let ours = input.ours.as_deref();
    if input.machines.is_empty() || (ours.is_none() && input.taken) {
        let is_taken = !input.machines.is_empty();
        let service = ours.filter(|ours| !ours.going).map(delete);
        let slices = input.slices.iter().map(|(name, slice)| drop_slice(name, slice));
        return MachinePlan { service, slices: slices.collect(), is_taken };
    }
    let ports = ports(key, input);
    let Some(ours) = ours else {
        return MachinePlan { service: Some(MachineStep::Create { ports }), ..MachinePlan::default() };
    };
    if ours.going {
        return MachinePlan::default();
    }
    let (uid, version) = (ours.uid.clone(), ours.version.clone());
    if ours.between {
        let occupy = MachineStep::Occupy { uid, version, ports };
        return MachinePlan { service: Some(occupy), ..MachinePlan::default() };
    }
    if ours.headless != ports.is_empty() {
        let vacate = MachineStep::Vacate { uid, version };
        return MachinePlan { service: Some(vacate), ..MachinePlan::default() };
    }
    let wanted = slices(here, key, &ports, input);
    let steps = settle(key, &ours.uid, &input.slices, wanted, |_, _| None);
    let service =
        (ours.ports != ports || ours.selects).then_some(MachineStep::Update { uid, version, ports });
    MachinePlan { service, slices: steps, is_taken: false }
}

fn delete(ours: &MachineService) -> MachineStep {
    MachineStep::Delete { uid: ours.uid.clone(), version: ours.version.clone() }
}

fn drop_slice(name: &str, slice: &OwnSlice) -> SliceStep {
    SliceStep::Delete { name: name.to_owned(), uid: slice.uid.clone(), version: slice.version.clone() }
}

/// All ports that machines of the Service name. None makes it headless.
fn ports(key: &Key, input: &Input) -> Vec<(String, Protocol, u16)> {
    let asked = input.machines.iter().filter_map(|(_, machine)| machine.asks.get(&key.name));
    let mut ports: Vec<(Protocol, u16)> = asked.flatten().copied().collect();
    ports.sort();
    ports.dedup();
    let single = ports.len() == 1;
    let named = ports.into_iter().map(|(protocol, port)| {
        let name =
            if single { String::new() } else { format!("p{port}-{}", protocol.as_str().to_lowercase()) };
        (name, protocol, port)
    });
    named.collect()
}

fn slices(
    here: &ClusterId,
    key: &Key,
    ports: &[(String, Protocol, u16)],
    input: &Input,
) -> BTreeMap<String, Slice> {
    let ports: Vec<SlicePort> = ports
        .iter()
        .map(|(name, protocol, port)| SlicePort {
            name: name.clone(),
            protocol: *protocol,
            port: Some(*port),
            app_protocol: None,
        })
        .collect();
    let mut families: BTreeMap<Family, Vec<Endpoint>> = BTreeMap::new();
    for (name, machine) in &input.machines {
        let addresses = match input.prefer {
            Prefer::External => &machine.external,
            Prefer::Internal => &machine.internal,
        };
        for address in addresses {
            families.entry(address.family).or_default().push(endpoint(name, machine, &address.text));
        }
    }
    let mut slices = BTreeMap::new();
    for (family, mut endpoints) in families {
        once(&mut endpoints);
        for (path, endpoints) in pack(endpoints) {
            let name = format!("{}-{}", key.name, short(&["machines", family.as_str(), &path]));
            let service = Kind::VirtualMachine.as_str().to_owned();
            let (cluster, ports) = (here.clone(), ports.clone());
            slices.insert(name.clone(), Slice { name, cluster, service, family, ports, endpoints });
        }
    }
    slices
}

fn endpoint(name: &Key, machine: &Machine, address: &str) -> Endpoint {
    let target = Target {
        kind: intern(Kind::VirtualMachine.as_str()),
        namespace: Some(intern(&name.namespace)),
        name: Some(name.name.as_str().into()),
        uid: Some(machine.uid.as_str().into()),
    };
    Endpoint {
        address: address.into(),
        conditions: Conditions::of_ready(machine.ready),
        hostname: is_label(&name.name).then(|| name.name.as_str().into()),
        zone: None,
        node: None,
        home: Some(Arc::new(Home { target: Some(target), hints: None })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::model::Address;

    #[test]
    fn an_address_that_two_machines_say_is_ready_if_one_of_them_is() {
        let here = ClusterId::new("a").unwrap();
        let key = Key::new("ns", "web");
        let machine = |ready| Machine {
            uid: "u".into(),
            asks: Default::default(),
            external: vec![Address::ip("198.51.100.7").unwrap()],
            internal: Vec::new(),
            ready,
            flaws: Vec::new(),
        };
        let named = |name: &str, ready| (Key::new("ns", name), Arc::new(machine(ready)));
        let machines = vec![named("stopped", false), named("runs", true), named("was", false)];
        let input = Input { machines, ..Input::default() };
        let slices = slices(&here, &key, &[], &input);
        let endpoints: Vec<_> = slices.values().flat_map(|slice| &slice.endpoints).collect();
        assert_eq!(endpoints.len(), 1);
        assert_eq!(endpoints[0].hostname.as_deref(), Some("runs"));
        assert!(endpoints[0].conditions.is_ready());
    }
}
