//! What a plan reads and what it says: plain values, checked when they were read.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use koinon_control::Key;
use koinon_fleet::ClusterId;

/// A transport protocol that a port can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

impl Protocol {
    /// The protocol of this name; none is TCP, as everywhere in Kubernetes.
    pub fn read(name: Option<&str>) -> Option<Protocol> {
        match name {
            None | Some("" | "TCP") => Some(Protocol::Tcp),
            Some("UDP") => Some(Protocol::Udp),
            Some("SCTP") => Some(Protocol::Sctp),
            Some(_) => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
            Protocol::Sctp => "SCTP",
        }
    }
}

/// A port that a Service offers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port {
    /// Empty where it has none.
    pub name: String,
    pub protocol: Protocol,
    pub port: u16,
    pub node_port: Option<u16>,
    pub app_protocol: Option<String>,
}

/// What makes an object a part of federated Services: a Service or NativeService that was annotated so.
#[derive(Clone, Debug, PartialEq)]
pub struct Joining {
    /// The federated Services it joins, each by the namespace and name that it has in every member.
    pub joins: Vec<Key>,
    /// What is wrong with it, for its users.
    pub flaws: Vec<Flaw>,
    pub uid: String,
    pub created: Timestamp,
    pub reach: Reach,
    pub ports: Vec<Port>,
    /// For how many seconds a client stays with an endpoint, where it does.
    pub affinity: Option<i32>,
    pub traffic_distribution: Option<String>,
    /// What it says of how it stands.
    pub said: Option<Box<Condition>>,
}

impl Joining {
    /// Whether the two differ at most in what they say of how they stand, which concerns nobody else.
    pub fn is_same_member(&self, other: &Joining) -> bool {
        let Joining { joins, flaws, uid, created, reach, ports, affinity, traffic_distribution, said: _ } =
            self;
        (joins, flaws, uid, created) == (&other.joins, &other.flaws, &other.uid, &other.created)
            && (reach, ports, affinity) == (&other.reach, &other.ports, &other.affinity)
            && traffic_distribution == &other.traffic_distribution
    }
}

/// How a member is reached from other clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// By the addresses of its pods.
    Pods,
    /// By addresses that lead to it from outside, at its own ports.
    Addresses(Vec<Address>),
    /// By its cluster's nodes, at its node ports.
    Nodes(Nodes),
    /// By its load balancer; empty while that is not there.
    Balancer(Vec<Ingress>),
    /// By its own addresses, which stand for themselves: a cloud's own service.
    Native(Vec<Address>),
}

/// Which nodes lead to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    All,
    /// Those on which one of its pods is ready.
    WithPods,
}

/// One way into a load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingress {
    pub address: Address,
    /// The ports that it serves, where it says.
    pub ports: Option<Vec<(Protocol, u16)>>,
}

/// What kind of address an EndpointSlice has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    V4,
    V6,
    Name,
}

impl Family {
    pub fn as_str(self) -> &'static str {
        match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
            Family::Name => "FQDN",
        }
    }
}

/// An address that may stand in an EndpointSlice, in its one spelling.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    pub family: Family,
    pub text: Box<str>,
}

/// Something that is wrong with an object or worth knowing about it, for its users.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flaw {
    /// One word.
    pub reason: &'static str,
    pub message: String,
}

/// What kind of object a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Service,
    NativeService,
    VirtualMachine,
    ServiceExport,
    ServiceImport,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Service => "Service",
            Kind::NativeService => "NativeService",
            Kind::VirtualMachine => "VirtualMachine",
            Kind::ServiceExport => "ServiceExport",
            Kind::ServiceImport => "ServiceImport",
        }
    }
}

/// Which object a member is, within the federation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    pub cluster: ClusterId,
    pub kind: Kind,
    pub key: Key,
}

/// A port of an EndpointSlice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlicePort {
    pub name: String,
    pub protocol: Protocol,
    /// Every port, where it says none.
    pub port: Option<u16>,
    pub app_protocol: Option<String>,
}

/// One endpoint of an EndpointSlice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    pub address: Box<str>,
    pub conditions: Conditions,
    pub hostname: Option<Box<str>>,
    pub zone: Option<Arc<str>>,
    /// The node that it is on, and what else of its own cluster it belongs to; they mean nothing in another.
    pub node: Option<Arc<str>>,
    pub home: Option<Arc<Home>>,
}

/// What an endpoint says of itself; what it does not say is as good as ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conditions {
    pub ready: Option<bool>,
    pub serving: Option<bool>,
    pub terminating: Option<bool>,
}

impl Conditions {
    pub fn of_ready(ready: bool) -> Conditions {
        Conditions { ready: Some(ready), ..Conditions::default() }
    }

    pub fn is_ready(self) -> bool {
        self.ready != Some(false)
    }
}

/// Where an endpoint is at home.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Home {
    pub target: Option<Target>,
    pub hints: Option<Box<Hints>>,
}

/// Zones and nodes that should prefer an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hints {
    pub zones: Vec<String>,
    pub nodes: Vec<String>,
}

/// The object behind an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    pub kind: Arc<str>,
    pub namespace: Option<Arc<str>>,
    pub name: Option<Box<str>>,
    pub uid: Option<Box<str>>,
}

/// An EndpointSlice that belongs to a federated Service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slice {
    pub name: String,
    /// The cluster it came from, and the object there that it stands for.
    pub cluster: ClusterId,
    pub service: String,
    pub family: Family,
    pub ports: Vec<SlicePort>,
    pub endpoints: Vec<Endpoint>,
}
