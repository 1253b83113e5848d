//! Services: members of federated ones, federated ones themselves, and those that only take a name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use koinon_api::names::network::{EXTERNAL_DNS_WRITTEN, FEDERATED_SERVICE};
use koinon_api::names::{MANAGED_BY, MANAGER};
use koinon_fleet::Record;
use kube::ResourceExt as _;

use crate::services::address::{is_label, is_qualified, shown};
use crate::services::external_dns;
use crate::services::joining::Asked;
use crate::services::machines::is_between;
use crate::services::member_condition::STANDING;
use crate::services::model::{Address, Flaw, Ingress, Joining, Nodes, Port as ModelPort, Protocol, Reach};
use crate::services::plan::CONFLICTS;

/// More ports than this are not taken from one object.
const MOST_PORTS: usize = 100;
/// More addresses than this are not taken from one object.
const MOST_ADDRESSES: usize = 100;
const DEFAULT_AFFINITY: i32 = 10_800;

/// What stands under a Service's name.
#[derive(Clone, Debug, PartialEq)]
pub enum Occupant {
    /// Somebody's Service, which has to do with nothing here.
    Plain {
        uid: String,
        /// Whether it still says how it stood, as a member.
        speaks: bool,
    },
    /// Somebody's Service that speaks of federated ones.
    Member(Arc<Joining>),
    /// A federated Service that we generated.
    Ours(Box<Published>),
}

/// A federated Service as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    pub uid: String,
    pub version: String,
    /// Whether it is on its way out.
    pub going: bool,
    /// Whether its label says that it is ours. Tools that call everything theirs write over it.
    pub labelled: bool,
    pub shape: Shape,
    pub dns: external_dns::Found,
}

/// What we decide about a federated Service; all else is for others to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    pub ports: Vec<ShapePort>,
    pub affinity: Option<i32>,
    pub traffic_distribution: Option<String>,
    /// What members do not agree on, for whoever asks.
    pub conflicts: Option<String>,
    /// Whether it is of the one type that a federated Service has, with nothing that would lead elsewhere.
    pub is_plain: bool,
}

/// A port of a federated Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShapePort {
    pub name: String,
    pub protocol: Protocol,
    pub port: u16,
    pub app_protocol: Option<String>,
}

impl Record for Occupant {
    type Object = Service;

    fn fold(service: &Service) -> Option<Occupant> {
        let metadata = &service.metadata;
        let spec = service.spec.clone().unwrap_or_default();
        let is_marked = service.annotations().contains_key(FEDERATED_SERVICE);
        let labelled = is_labelled(metadata);
        if is_marked && is_made_by_us(metadata, FEDERATED_SERVICE) {
            let published = Published {
                uid: service.uid().unwrap_or_default(),
                version: service.resource_version().unwrap_or_default(),
                going: metadata.deletion_timestamp.is_some(),
                labelled,
                shape: shape(service, &spec),
                dns: external_dns::Found::read(service.annotations(), EXTERNAL_DNS_WRITTEN),
            };
            return Some(Occupant::Ours(Box::new(published)));
        }
        let (uid, said) = (service.uid().unwrap_or_default(), said(service));
        let plain = Some(Occupant::Plain { uid, speaks: said.is_some() });
        let is_external = spec.type_.as_deref() == Some("ExternalName") && !is_between(service);
        // What is federated is never a member, or it would feed itself; what goes is none any more.
        if is_marked || metadata.deletion_timestamp.is_some() || is_external {
            return plain;
        }
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        match Asked::read(namespace, service.annotations()) {
            Some(asked) => Some(Occupant::Member(Arc::new(joining(service, &spec, asked)))),
            None => plain,
        }
    }
}

/// Whether we made an object that has this marker. The marker alone may be a copy; one that the server saw us write on this very
/// object is none.
pub(crate) fn is_made_by_us(metadata: &ObjectMeta, marker: &str) -> bool {
    let field = format!("f:{marker}");
    let is_written = metadata.managed_fields.iter().flatten().any(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0["f:metadata"]["f:annotations"]);
        entry.manager.as_deref() == Some(MANAGER) && fields.is_some_and(|fields| !fields[&field].is_null())
    });
    is_labelled(metadata) || is_written
}

fn is_labelled(metadata: &ObjectMeta) -> bool {
    metadata.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY)).is_some_and(|one| one == MANAGER)
}

fn joining(service: &Service, spec: &ServiceSpec, asked: Asked) -> Joining {
    let mut flaws = asked.flaws;
    let ports = service_ports(spec, &mut flaws);
    let reach = reach(service, spec, &mut flaws);
    Joining {
        joins: asked.joins,
        uid: service.uid().unwrap_or_default(),
        created: created(&service.metadata),
        reach,
        ports,
        affinity: affinity(spec),
        traffic_distribution: spec.traffic_distribution.clone().filter(|value| is_qualified(value)),
        said: said(service).cloned().map(Box::new),
        flaws,
    }
}

/// What a Service says of how it stands as a member.
pub(crate) fn said(service: &Service) -> Option<&Condition> {
    let conditions = service.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|one| one.type_ == STANDING)
}

fn reach(service: &Service, spec: &ServiceSpec, flaws: &mut Vec<Flaw>) -> Reach {
    let is_headless = spec.cluster_ip.as_deref() == Some("None");
    match spec.type_.as_deref() {
        Some("NodePort") => {
            let local = spec.external_traffic_policy.as_deref() == Some("Local");
            Reach::Nodes(if local { Nodes::WithPods } else { Nodes::All })
        }
        Some("LoadBalancer") => {
            let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
            let ingress = balancer.and_then(|balancer| balancer.ingress.as_ref());
            let ways = ingress.into_iter().flatten().take(MOST_ADDRESSES).filter_map(|one| {
                let address = match (&one.ip, &one.hostname) {
                    (Some(ip), _) if !ip.is_empty() => Address::ip(ip),
                    (_, Some(name)) => Address::name(name),
                    _ => return None,
                };
                let ports = one.ports.as_ref().filter(|ports| !ports.is_empty()).map(|ports| {
                    let served = ports.iter().filter(|port| port.error.is_none());
                    let served = served.filter_map(|port| {
                        Some((Protocol::read(Some(&port.protocol))?, u16::try_from(port.port).ok()?))
                    });
                    served.collect()
                });
                Some(Ingress { address: accepted(address, flaws)?, ports })
            });
            let ways: Vec<Ingress> = ways.collect();
            if ways.is_empty() {
                let message =
                    "its load balancer has no address yet: other clusters cannot reach it".to_owned();
                flaws.push(Flaw { reason: "LoadBalancerPending", message });
            }
            Reach::Balancer(ways)
        }
        _ => {
            let external = spec.external_ips.iter().flatten().filter(|_| !is_headless).take(MOST_ADDRESSES);
            let mut addresses: Vec<Address> =
                external.filter_map(|ip| accepted(Address::ip(ip), flaws)).collect();
            addresses.sort();
            addresses.dedup();
            let names_some = spec.external_ips.as_ref().is_some_and(|ips| !ips.is_empty()) && !is_headless;
            if names_some { Reach::Addresses(addresses) } else { Reach::Pods }
        }
    }
}

fn accepted(address: Result<Address, String>, flaws: &mut Vec<Flaw>) -> Option<Address> {
    match address {
        Ok(address) => Some(address),
        Err(message) => {
            flaws.push(Flaw { reason: "AddressRefused", message });
            None
        }
    }
}

/// The ports of a Service.
pub(crate) fn service_ports(spec: &ServiceSpec, flaws: &mut Vec<Flaw>) -> Vec<ModelPort> {
    let offered = spec.ports.iter().flatten().map(|port| Port {
        name: port.name.as_deref(),
        protocol: port.protocol.as_deref(),
        port: port.port,
        node_port: port.node_port,
        app_protocol: port.app_protocol.as_deref(),
    });
    ports(offered, flaws)
}

/// A port as an object says it.
pub(super) struct Port<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) protocol: Option<&'a str>,
    pub(super) port: i32,
    pub(super) node_port: Option<i32>,
    pub(super) app_protocol: Option<&'a str>,
}

/// The ports that a Service can have; others are left out, with a word about it.
pub(super) fn ports<'a>(offered: impl Iterator<Item = Port<'a>>, flaws: &mut Vec<Flaw>) -> Vec<ModelPort> {
    let mut ports: Vec<ModelPort> = Vec::new();
    let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for port in offered {
        let mut refuse = |why: &str| {
            let named = shown(port.name.unwrap_or_default());
            flaws
                .push(Flaw { reason: "PortRefused", message: format!("port {} ({named}) {why}", port.port) });
        };
        let name = port.name.unwrap_or_default();
        let Some(number) = u16::try_from(port.port).ok().filter(|number| *number > 0) else {
            refuse("is no port");
            continue;
        };
        let Some(protocol) = Protocol::read(port.protocol) else {
            refuse("has an unknown protocol");
            continue;
        };
        if !name.is_empty() && !is_label(name) {
            refuse("has a name that no port can have");
            continue;
        }
        if !names.insert(name.to_owned()) || !numbers.insert((protocol, number)) {
            refuse("is there twice");
            continue;
        }
        if ports.len() == MOST_PORTS {
            refuse("is one too many");
            break;
        }
        ports.push(ModelPort {
            name: name.to_owned(),
            protocol,
            port: number,
            node_port: port.node_port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0),
            app_protocol: port.app_protocol.filter(|app| is_qualified(app)).map(str::to_owned),
        });
    }
    ports
}

pub(crate) fn created(metadata: &ObjectMeta) -> Timestamp {
    metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

pub(crate) fn affinity(spec: &ServiceSpec) -> Option<i32> {
    let sticky = spec.session_affinity.as_deref() == Some("ClientIP");
    let config = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
    sticky.then(|| {
        config.and_then(|config| config.timeout_seconds).unwrap_or(DEFAULT_AFFINITY).clamp(1, 86_400)
    })
}

/// Reads back what we decide about a federated Service.
pub(crate) fn shape(service: &Service, spec: &ServiceSpec) -> Shape {
    let ports = spec.ports.iter().flatten().filter_map(|port| {
        Some(ShapePort {
            name: port.name.clone().unwrap_or_default(),
            protocol: Protocol::read(port.protocol.as_deref())?,
            port: u16::try_from(port.port).ok()?,
            app_protocol: port.app_protocol.clone(),
        })
    });
    let none = |list: &Option<Vec<String>>| list.as_ref().is_none_or(Vec::is_empty);
    let is_plain = matches!(spec.type_.as_deref(), None | Some("ClusterIP"))
        && spec.selector.as_ref().is_none_or(BTreeMap::is_empty)
        && none(&spec.external_ips)
        && spec.ports.iter().flatten().all(|port| port.node_port.is_none_or(|port| port == 0))
        && matches!(spec.internal_traffic_policy.as_deref(), None | Some("Cluster"));
    Shape {
        ports: ports.collect(),
        affinity: affinity(spec),
        traffic_distribution: spec.traffic_distribution.clone(),
        conflicts: service.annotations().get(CONFLICTS).cloned(),
        is_plain,
    }
}
