//! Clusters as plain objects, and plans that are made and done until nothing is left to do.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use koinon_api::network::NativeService;
use koinon_control::Key;
use koinon_fleet::{ClusterId, Record};
use koinon_network::services::endpoints::Resolved;
use koinon_network::services::model::{Joining, Kind, Source};
use koinon_network::services::plan::{CONFLICTS, Plan, ServiceStep, SliceStep, plan};
use koinon_network::services::records::{Manager, Node as NodeRecord, Occupant, OwnSlice, SourceSlice};
use koinon_network::services::render;
use koinon_network::services::view::{Cluster, Clusters, Dns, Locality, Member, Site, Stance};
use serde_json::{Value, json};

pub(crate) const GLOBAL: &str = "svc.global.federated.antreaplus.vmware-tanzu.com";
pub(crate) const NAMESPACED: &str = "svc.federated.antreaplus.vmware.com";

/// The federated Service of the seed's example.
pub(crate) fn foo() -> Key {
    Key::new("antrea-plus-system", "foo")
}

#[derive(Clone, Default)]
pub(crate) struct Place {
    pub(crate) services: Vec<Service>,
    pub(crate) slices: Vec<EndpointSlice>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) natives: Vec<NativeService>,
    pub(crate) unknown: bool,
    /// Whether its Services are known, but not what else joins there.
    pub(crate) half_known: bool,
    pub(crate) stance: Stance,
    /// Namespaces that are not there.
    pub(crate) lacks: Vec<String>,
    /// What was generated, by key.
    pub(crate) generated: BTreeMap<Key, Service>,
    pub(crate) own: BTreeMap<Key, EndpointSlice>,
}

#[derive(Clone, Default)]
pub(crate) struct World {
    pub(crate) places: BTreeMap<String, Place>,
    pub(crate) resolved: Resolved,
    pub(crate) dns: Dns,
    pub(crate) locality: Locality,
    pub(crate) version: u64,
    pub(crate) writes: usize,
}

impl World {
    pub(crate) fn new(names: &[&str]) -> World {
        let places = names.iter().map(|name| (name.to_string(), Place::default())).collect();
        World { places, ..World::default() }
    }

    pub(crate) fn at(&mut self, cluster: &str) -> &mut Place {
        self.places.get_mut(cluster).unwrap()
    }

    fn clusters(&self, key: &Key) -> Clusters {
        let clusters = self.places.iter().map(|(name, place)| (id(name), place.cluster(&id(name), key)));
        clusters.collect()
    }

    pub(crate) fn site(&self, cluster: &str, key: &Key) -> Site {
        let place = &self.places[cluster];
        let users = place.services.iter().find(|service| &Key::of(*service) == key);
        let service = users.or_else(|| place.generated.get(key));
        let of_key = place.own.iter().filter(|(one, slice)| {
            one.namespace == key.namespace
                && slice.metadata.labels.as_ref().unwrap()["kubernetes.io/service-name"] == key.name
        });
        Site {
            namespace: !place.lacks.contains(&key.namespace),
            occupant: service.and_then(Occupant::fold).map(Arc::new),
            slices: of_key
                .map(|(key, one)| (key.name.clone(), Arc::new(OwnSlice::fold(one).unwrap())))
                .collect(),
            resolved: self.resolved.clone(),
            dns: self.dns.clone(),
            unsupported: Default::default(),
            locality: self.locality,
        }
    }

    pub(crate) fn plan(&self, cluster: &str, key: &Key) -> Plan {
        plan(&id(cluster), key, &self.clusters(key), &self.site(cluster, key))
    }

    /// Does what plans say until they say nothing; the last of them.
    pub(crate) fn settle(&mut self, cluster: &str, key: &Key) -> Plan {
        for _ in 0..5 {
            let plan = self.plan(cluster, key);
            if plan.is_settled() {
                return plan;
            }
            self.apply(cluster, key, &plan);
        }
        panic!("it does not come to rest: {:#?}", self.plan(cluster, key));
    }

    pub(crate) fn settle_all(&mut self, key: &Key) {
        for cluster in self.places.keys().cloned().collect::<Vec<_>>() {
            self.settle(&cluster, key);
        }
    }

    pub(crate) fn apply(&mut self, cluster: &str, key: &Key, plan: &Plan) {
        for step in &plan.slices {
            self.version += 1;
            self.writes += 1;
            let (version, place) = (self.version, self.places.get_mut(cluster).unwrap());
            let at = |name: &str| Key::new(key.namespace.as_str(), name);
            match step {
                SliceStep::Create { slice, owner } => {
                    let made = render::slice(
                        Manager::Federation,
                        key,
                        slice,
                        owner,
                        Some((&format!("uid-{version}"), &version.to_string())),
                    );
                    assert!(place.own.insert(at(&slice.name), made).is_none(), "it was there");
                }
                SliceStep::Update { slice, owner, uid, version: before } => {
                    let after = render::slice(
                        Manager::Federation,
                        key,
                        slice,
                        owner,
                        Some((uid, &version.to_string())),
                    );
                    let known = place.own.insert(at(&slice.name), after).unwrap();
                    assert_eq!(
                        (known.metadata.uid.as_ref(), known.metadata.resource_version.as_ref()),
                        (Some(uid), Some(before))
                    );
                    assert_eq!(
                        known.address_type,
                        slice.family.as_str(),
                        "what kind of addresses it has cannot change"
                    );
                }
                SliceStep::Drain { name, .. } => {
                    let slice = place.own.get_mut(&at(name)).unwrap();
                    slice.metadata.resource_version = Some(version.to_string());
                    for endpoint in slice.endpoints.iter_mut().flatten() {
                        endpoint.conditions.get_or_insert_default().ready = Some(false);
                    }
                }
                SliceStep::Delete { name, .. } => drop(place.own.remove(&at(name)).unwrap()),
            }
        }
        self.version += 1;
        self.writes += usize::from(plan.service.is_some());
        let (version, place) = (self.version, self.places.get_mut(cluster).unwrap());
        match &plan.service {
            Some(ServiceStep::Create { shape }) => {
                let mut made = render::service(key, shape);
                made.metadata.uid = Some(format!("uid-{version}"));
                made.metadata.resource_version = Some(version.to_string());
                assert!(place.generated.insert(key.clone(), made).is_none());
            }
            Some(ServiceStep::Update { uid, shape, annotations, .. }) => {
                let mut after = render::service(key, shape);
                // As a merge does it: what nobody speaks of stays.
                let before = place.generated[key].metadata.annotations.clone().unwrap_or_default();
                let ours = after.metadata.annotations.get_or_insert_default();
                let others = before.into_iter().filter(|(key, _)| key != CONFLICTS);
                for (key, value) in others {
                    ours.entry(key).or_insert(value);
                }
                for (key, value) in annotations {
                    match value {
                        Some(value) => drop(ours.insert(key.clone(), value.clone())),
                        None => drop(ours.remove(key)),
                    }
                }
                after.metadata.uid = Some(uid.clone());
                after.metadata.resource_version = Some(version.to_string());
                place.generated.insert(key.clone(), after);
            }
            Some(ServiceStep::Delete { .. }) => drop(place.generated.remove(key).unwrap()),
            None => {}
        }
    }

    /// What a cluster has of a federated Service, after everything was done: one line for each kind of endpoints.
    pub(crate) fn shown(&mut self, cluster: &str, key: &Key) -> String {
        self.settle(cluster, key);
        let place = &self.places[cluster];
        let Some(service) = place.generated.get(key) else { return "nothing".into() };
        let ports = service.spec.as_ref().unwrap().ports.iter().flatten();
        let ports: Vec<_> =
            ports.map(|port| format!("{}:{}", port.name.as_deref().unwrap_or_default(), port.port)).collect();
        let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let of_key = place.own.values().filter(|slice| {
            let labels = slice.metadata.labels.as_ref().unwrap();
            slice.metadata.namespace.as_ref() == Some(&key.namespace)
                && labels["kubernetes.io/service-name"] == key.name
        });
        for slice in of_key {
            let from = &slice.metadata.annotations.as_ref().unwrap()["cluster.federated.antreaplus.vmware-tanzu.com"];
            let ports = slice.ports.iter().flatten();
            let ports: Vec<_> = ports
                .map(|port| {
                    format!("{}:{}", port.name.as_deref().unwrap_or_default(), port.port.unwrap_or_default())
                })
                .collect();
            let line = lines.entry(format!("{from} {} {}", slice.address_type, ports.join(","))).or_default();
            line.extend(slice.endpoints.iter().flatten().map(|one| {
                let ready = one.conditions.as_ref().is_none_or(|conditions| conditions.ready != Some(false));
                format!("{}{}", one.addresses[0], if ready { "" } else { "!" })
            }));
        }
        let lines = lines.into_iter().map(|(head, mut addresses)| {
            addresses.sort();
            format!("{head} -> {}", addresses.join(" "))
        });
        std::iter::once(ports.join(",")).chain(lines).collect::<Vec<_>>().join("\n")
    }

    /// What users of a cluster are told, as reason and object.
    pub(crate) fn told(&mut self, cluster: &str, key: &Key) -> Vec<String> {
        let plan = self.settle(cluster, key);
        plan.notices.iter().map(|one| format!("{} {} {}", one.reason, one.kind.as_str(), one.about)).collect()
    }
}

impl Place {
    fn cluster(&self, id: &ClusterId, key: &Key) -> Cluster {
        let source = |kind, key| Source { cluster: id.clone(), kind, key };
        let mut members = Vec::new();
        for service in self.services.iter().chain(self.generated.values()) {
            let Some(Occupant::Member(joining)) = Occupant::fold(service) else { continue };
            let own = Key::of(service);
            let slices = self
                .slices
                .iter()
                .filter(|slice| slice.metadata.namespace.as_deref() == Some(&own.namespace));
            let slices = slices.filter_map(|slice| {
                Some((slice.metadata.name.clone()?, Arc::new(SourceSlice::fold(slice)?)))
            });
            let mut slices: Vec<_> = slices.filter(|(_, slice)| slice.service == own.name).collect();
            slices.sort_by(|one, other| one.0.cmp(&other.0));
            members.push(Member { source: source(Kind::Service, own), joining, slices, stance: self.stance });
        }
        for native in &self.natives {
            let Some(joining) = Joining::fold(native) else { continue };
            members.push(Member {
                source: source(Kind::NativeService, Key::of(native)),
                joining: Arc::new(joining),
                slices: Vec::new(),
                stance: self.stance,
            });
        }
        members.retain(|member| member.joining.joins.contains(key));
        let nodes = self
            .nodes
            .iter()
            .map(|node| (node.metadata.name.clone().unwrap(), Arc::new(NodeRecord::fold(node).unwrap())));
        // Nobody who is not known is looked at.
        members.retain(|member| {
            let is_seen = member.source.kind == Kind::Service || !self.half_known;
            is_seen && !self.unknown
        });
        let known = !self.unknown && !self.half_known;
        Cluster { known, stance: self.stance, members, nodes: Arc::new(nodes.collect()) }
    }

    /// A Service with this spec, annotated so.
    pub(crate) fn service(&mut self, name: &str, annotations: &[(&str, &str)], spec: Value) -> &mut Place {
        let (namespace, name) = name.split_once('/').unwrap();
        let annotations: BTreeMap<_, _> = annotations.iter().copied().collect();
        let created = format!("2026-01-01T00:00:{:02}Z", self.services.len());
        let object = json!({
            "metadata": {
                "namespace": namespace, "name": name, "uid": format!("uid-{namespace}-{name}"), "resourceVersion": "1",
                "annotations": annotations, "creationTimestamp": created,
            },
            "spec": spec,
        });
        self.services.push(serde_json::from_value(object).unwrap());
        self
    }

    /// The same, made at this second of its minute.
    pub(crate) fn aged(&mut self, second: u32) -> &mut Place {
        let service = self.services.last_mut().unwrap();
        let time = format!("2026-01-01T00:00:{second:02}Z").parse().unwrap();
        service.metadata.creation_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(time));
        self
    }

    pub(crate) fn status(&mut self, status: Value) -> &mut Place {
        self.services.last_mut().unwrap().status = Some(serde_json::from_value(status).unwrap());
        self
    }

    /// An EndpointSlice of the last Service: ports as `name:port`, addresses with `!` where they are not ready and `@node`.
    pub(crate) fn slice(&mut self, ports: &str, addresses: &str) -> &mut Place {
        let service = self.services.last().unwrap();
        let (namespace, name) = (service.metadata.namespace.clone(), service.metadata.name.clone().unwrap());
        let endpoints: Vec<Value> = addresses
            .split_whitespace()
            .map(|word| {
                let (address, node) = word.split_once('@').map_or((word, None), |(address, node)| (address, Some(node)));
                let ready = !address.ends_with('!');
                json!({
                    "addresses": [address.trim_end_matches('!')], "conditions": {"ready": ready}, "nodeName": node,
                    "zone": "z1", "targetRef": {"kind": "Pod", "name": "p"},
                })
            })
            .collect();
        let family = match addresses.split_whitespace().next().unwrap_or_default() {
            one if one.contains(':') => "IPv6",
            one if one.starts_with(|first: char| first.is_ascii_digit()) || one.is_empty() => "IPv4",
            _ => "FQDN",
        };
        let ports: Vec<Value> = ports
            .split_whitespace()
            .map(|word| {
                let (name, port) = word.split_once(':').unwrap();
                json!({"name": name, "port": port.parse::<u16>().unwrap(), "protocol": "TCP"})
            })
            .collect();
        let object = json!({
            "metadata": {
                "namespace": namespace, "name": format!("{name}-{}", self.slices.len()),
                "labels": {"kubernetes.io/service-name": name},
            },
            "addressType": family, "ports": ports, "endpoints": endpoints,
        });
        self.slices.push(serde_json::from_value(object).unwrap());
        self
    }

    /// A node with these addresses, each `E` or `I` and the address; not ready where its name ends with `!`.
    pub(crate) fn node(&mut self, name: &str, addresses: &str) -> &mut Place {
        let addresses: Vec<Value> = addresses
            .split_whitespace()
            .map(|word| {
                let (kind, address) = word.split_at(1);
                json!({"type": if kind == "E" { "ExternalIP" } else { "InternalIP" }, "address": address})
            })
            .collect();
        let ready = if name.ends_with('!') { "False" } else { "True" };
        let object = json!({
            "metadata": {"name": name.trim_end_matches('!')},
            "status": {"addresses": addresses, "conditions": [{"type": "Ready", "status": ready}]},
        });
        self.nodes.push(serde_json::from_value(object).unwrap());
        self
    }
}

pub(crate) fn id(name: &str) -> ClusterId {
    ClusterId::new(name).unwrap()
}

/// A Service of a type with one port 80 called `http`.
pub(crate) fn typed(kind: &str) -> Value {
    json!({"type": kind, "clusterIP": "10.96.0.7", "selector": {"app": "foo"}, "ports": [{"name": "http", "port": 80, "protocol": "TCP", "nodePort": if kind == "ClusterIP" { Value::Null } else { json!(30602) }}]})
}

/// The seed's example: three clusters, each with a member of another name, namespace and type.
pub(crate) fn example() -> World {
    let mut world = World::new(&["cluster1", "cluster2", "cluster3"]);
    let joins = [(GLOBAL, "foo")];
    world
        .at("cluster1")
        .service("ns1/foo1", &joins, typed("ClusterIP"))
        .slice("http:8080", "10.1.0.1 10.1.0.2");
    world
        .at("cluster2")
        .service("ns2/foo2", &joins, typed("NodePort"))
        .slice("http:8080", "10.2.0.1@n1")
        .node("n1", "I172.21.0.6")
        .node("n2", "I172.21.0.7");
    world
        .at("cluster3")
        .service("ns3/foo3", &joins, typed("LoadBalancer"))
        .status(json!({"loadBalancer": {"ingress": [{"ip": "203.0.113.9"}]}}))
        .slice("http:9090", "10.3.0.1");
    world
}
