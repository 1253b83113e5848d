//! By which endpoints a member is reached: from other clusters by what its type says, at home by its own endpoints.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::model::{
    Address, Conditions, Endpoint, Family, Flaw, Ingress, Nodes, Port, Protocol, Reach, SlicePort,
};
use super::view::{Cluster, Member, Stance};

/// More endpoints than this one member does not bring.
const MOST: usize = 5000;

/// What the names of load balancers lead to; nothing while nobody has answered. A name that is not in it is not asked for.
pub type Resolved = BTreeMap<String, Option<Vec<IpAddr>>>;

/// What each port of a member is called in the federated Service: by its own name, and all the names it has there
/// while it is being renamed.
pub type Names = BTreeMap<String, Vec<String>>;

/// Endpoints that belong together: of one family, at one set of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Tells it from other groups of the same member, whatever its ports are called.
    pub part: String,
    pub family: Family,
    pub ports: Vec<SlicePort>,
    pub endpoints: Vec<Endpoint>,
}

/// The endpoints of a member, what they are, and what is wrong with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    pub groups: Vec<Group>,
    pub flaws: Vec<Flaw>,
    /// Parts of one family of which it is not known yet what is in them, or whether they are there.
    pub unanswered: Vec<(String, Family)>,
}

impl From<Vec<Group>> for Reached {
    fn from(groups: Vec<Group>) -> Reached {
        Reached { groups, ..Reached::default() }
    }
}

/// How a member is reached from another cluster.
pub fn from_elsewhere(member: &Member, cluster: &Cluster, names: &Names, resolved: &Resolved) -> Reached {
    let joining = &member.joining;
    let mut reached = match &joining.reach {
        Reach::Pods => Reached {
            groups: own(member, names, |endpoint| Endpoint { node: None, home: None, ..endpoint.clone() }),
            flaws: flaws_of_slices(member),
            unanswered: Vec::new(),
        },
        Reach::Addresses(addresses) => {
            let ports = served(&joining.ports, names, |port| Some(port.port));
            let ready = is_ready(member);
            let endpoints = addresses.iter().map(|address| (address.clone(), plain(address, ready)));
            by_family("external", &ports, endpoints).into()
        }
        Reach::Native(addresses) => native(addresses, &joining.ports, names).into(),
        Reach::Nodes(which) => through_nodes(*which, member, cluster, names).into(),
        Reach::Balancer(ways) => through_balancer(ways, member, names, resolved),
    };
    limit(&mut reached);
    reached
}

/// How a member is reached in its own cluster: as it is, whatever its type.
pub fn at_home(member: &Member, names: &Names) -> Reached {
    let mut reached = match &member.joining.reach {
        Reach::Native(addresses) => native(addresses, &member.joining.ports, names).into(),
        _ => Reached { flaws: flaws_of_slices(member), ..own(member, names, Endpoint::clone).into() },
    };
    limit(&mut reached);
    reached
}

/// What becomes of endpoints of a cluster that may be out of reach.
pub fn judged(groups: &mut Vec<Group>, stance: Stance) {
    match stance {
        Stance::Keep => {}
        Stance::Drain => drain(groups),
        Stance::Drop => groups.clear(),
    }
}

/// Has endpoints take no new connections, but be there while nothing else is.
fn drain(groups: &mut [Group]) {
    for endpoint in groups.iter_mut().flat_map(|group| &mut group.endpoints) {
        endpoint.conditions = match endpoint.conditions.is_ready() {
            true => Conditions { ready: Some(false), serving: Some(true), terminating: Some(true) },
            false => Conditions { ready: Some(false), ..endpoint.conditions },
        };
    }
}

/// A member's EndpointSlices, one by one: the ports of two may differ.
fn own(member: &Member, names: &Names, endpoint: impl Fn(&Endpoint) -> Endpoint) -> Vec<Group> {
    let mut groups = Vec::new();
    for (name, slice) in &member.slices {
        let mut ports = Vec::new();
        for port in &slice.ports {
            for called in names.get(&port.name).into_iter().flatten() {
                ports.push(SlicePort { name: called.clone(), ..port.clone() });
            }
        }
        ports.sort();
        if ports.is_empty() || slice.endpoints.is_empty() {
            continue;
        }
        groups.push(Group {
            part: format!("slice {name}"),
            family: slice.family,
            ports,
            endpoints: slice.endpoints.iter().map(&endpoint).collect(),
        });
    }
    groups
}

fn flaws_of_slices(member: &Member) -> Vec<Flaw> {
    member.slices.iter().flat_map(|(_, slice)| slice.flaws.clone()).collect()
}

fn native(addresses: &[Address], ports: &[Port], names: &Names) -> Vec<Group> {
    let ports = served(ports, names, |port| Some(port.port));
    by_family("native", &ports, addresses.iter().map(|address| (address.clone(), plain(address, true))))
}

fn through_nodes(which: Nodes, member: &Member, cluster: &Cluster, names: &Names) -> Vec<Group> {
    let ports = served(&member.joining.ports, names, |port| port.node_port);
    let ready = is_ready(member);
    let has_pods = |name: &str| {
        let endpoints = member.slices.iter().flat_map(|(_, slice)| &slice.endpoints);
        endpoints.filter(|one| one.conditions.is_ready()).any(|one| one.node.as_deref() == Some(name))
    };
    let nodes = cluster.nodes.iter().filter(|(name, _)| which == Nodes::All || has_pods(name));
    let endpoints = nodes.flat_map(|(_, node)| {
        // One address of each family: more would give the node more than its share.
        let first = |family| node.addresses.iter().find(|one| one.family == family);
        let both = [first(Family::V4), first(Family::V6)];
        both.into_iter().flatten().map(|address| {
            let zone = node.zone.as_deref().map(Into::into);
            (address.clone(), Endpoint { zone, ..plain(address, ready && node.ready) })
        })
    });
    by_family("nodes", &ports, endpoints)
}

fn through_balancer(ways: &[Ingress], member: &Member, names: &Names, resolved: &Resolved) -> Reached {
    let ready = is_ready(member);
    let mut by_ports: BTreeMap<Served, Vec<&Address>> = BTreeMap::new();
    for way in ways {
        by_ports.entry(way.ports.clone()).or_default().push(&way.address);
    }
    let mut reached = Reached::default();
    for (only, mut addresses) in by_ports {
        let serves =
            |port: &Port| only.as_ref().is_none_or(|only| only.contains(&(port.protocol, port.port)));
        let ports = served(&member.joining.ports, names, |port| serves(port).then_some(port.port));
        let part = format!("balancer {only:?}");
        let said = addresses.iter().map(|address| ((*address).clone(), plain(address, ready)));
        reached.groups.extend(by_family(&part, &ports, said));
        addresses.sort();
        addresses.dedup();
        // Most who forward traffic do not know names, so what each leads to is said as well, apart from the others: as long
        // as one has no answer, what was said of it stays, whatever the others lead to.
        for name in addresses.into_iter().filter(|address| address.family == Family::Name) {
            let part = format!("{part} by {}", name.text);
            match resolved.get(&*name.text) {
                Some(Some(ips)) => {
                    let behind = ips.iter().filter_map(|ip| Address::ip(&ip.to_string()).ok());
                    let behind = behind.map(|address| (address.clone(), plain(&address, ready)));
                    reached.groups.extend(by_family(&part, &ports, behind));
                }
                Some(None) => {
                    reached.unanswered.extend([Family::V4, Family::V6].map(|family| (part.clone(), family)));
                }
                None => {}
            }
        }
    }
    reached
}

/// The ports that a load balancer serves, where it says.
type Served = Option<Vec<(Protocol, u16)>>;

/// The ports at which a member is reached, by what they are called.
fn served(ports: &[Port], names: &Names, number: impl Fn(&Port) -> Option<u16>) -> Vec<SlicePort> {
    let mut served = Vec::new();
    for port in ports {
        let Some(at) = number(port) else { continue };
        for name in names.get(&port.name).into_iter().flatten() {
            served.push(SlicePort {
                name: name.clone(),
                protocol: port.protocol,
                port: Some(at),
                app_protocol: port.app_protocol.clone(),
            });
        }
    }
    served.sort();
    served
}

fn by_family(
    part: &str,
    ports: &[SlicePort],
    endpoints: impl Iterator<Item = (Address, Endpoint)>,
) -> Vec<Group> {
    if ports.is_empty() {
        return Vec::new();
    }
    let mut families: BTreeMap<Family, Vec<Endpoint>> = BTreeMap::new();
    for (address, endpoint) in endpoints {
        families.entry(address.family).or_default().push(endpoint);
    }
    let groups = families.into_iter().map(|(family, mut endpoints)| {
        once(&mut endpoints);
        Group { part: part.to_owned(), family, ports: ports.to_vec(), endpoints }
    });
    groups.collect()
}

/// Each address once. Of several that have the same one that is ready stays: whoever leads there is as good as the others.
pub(super) fn once(endpoints: &mut Vec<Endpoint>) {
    let rank = |one: &Endpoint| !one.conditions.is_ready();
    endpoints.sort_by(|one, other| {
        let order = (&one.address, rank(one)).cmp(&(&other.address, rank(other)));
        order.then_with(|| one.cmp(other))
    });
    endpoints.dedup_by(|one, other| one.address == other.address);
}

fn plain(address: &Address, ready: bool) -> Endpoint {
    Endpoint {
        address: address.text.clone(),
        conditions: Conditions::of_ready(ready),
        hostname: None,
        zone: None,
        node: None,
        home: None,
    }
}

/// Whether anything is behind a member.
fn is_ready(member: &Member) -> bool {
    member.slices.iter().flat_map(|(_, slice)| &slice.endpoints).any(|one| one.conditions.is_ready())
}

/// A member that brings more than is sensible brings no more than that.
fn limit(reached: &mut Reached) {
    let all: usize = reached.groups.iter().map(|group| group.endpoints.len()).sum();
    if all <= MOST {
        return;
    }
    let mut room = MOST;
    for group in &mut reached.groups {
        group.endpoints.truncate(room);
        room -= group.endpoints.len();
    }
    reached.groups.retain(|group| !group.endpoints.is_empty());
    let message = format!("only {MOST} of its {all} endpoints are published: one Service cannot have more");
    reached.flaws.push(Flaw { reason: "TooManyEndpoints", message });
}
