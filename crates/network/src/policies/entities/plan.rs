//! Which external entities there should be. Plain values.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use koinon_api::names::network::SOURCE_CLUSTER;
use koinon_api::names::{MANAGED_BY, MANAGER};
use koinon_control::Key;
use koinon_fleet::ClusterId;
use kube::ResourceExt as _;
use kube::core::DynamicObject;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::policies::content::canonical;
use crate::policies::names;
use crate::policies::version::Hash;
use crate::services::endpoints::{Names, Resolved, at_home, from_elsewhere};
use crate::services::model::Family;
use crate::services::view::{Cluster, Member, Stance};

const LONGEST_LABEL: usize = 63;
/// How many bytes of a fingerprint are in a name.
const IN_NAME: usize = 5;

/// From where a cluster's part of a Service is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// In the cluster itself, by its own endpoints.
    Home,
    /// In any other.
    Elsewhere,
}

/// An external entity as it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Entity {
    pub labels: BTreeMap<String, String>,
    pub cluster: String,
    pub spec: Value,
}

impl Entity {
    /// The object, over the version that it was seen in, if it was.
    pub fn object(&self, key: &Key, over: Option<&str>) -> Value {
        let mut object = json!({
            "apiVersion": format!("{}/{}", names::GROUP, names::ENTITY_VERSION), "kind": "ExternalEntity",
            "metadata": {
                "namespace": key.namespace, "name": key.name, "labels": self.labels,
                "annotations": {SOURCE_CLUSTER: self.cluster},
            },
            "spec": self.spec,
        });
        if let Some(version) = over {
            object["metadata"]["resourceVersion"] = version.into();
        }
        object
    }

    /// Tells it from any other that there could be under its name.
    pub fn sum(&self) -> Hash {
        sum(&self.labels, &self.cluster, &self.spec)
    }
}

fn sum(labels: &BTreeMap<String, String>, cluster: &str, spec: &Value) -> Hash {
    let mut text = String::new();
    canonical(&json!([labels, cluster]), &mut text);
    canonical(spec, &mut text);
    Hash::of(text.as_bytes())
}

/// The entity for what one cluster brings to a federated Service; none if that has no address.
pub fn entity(
    service: &Key,
    id: &ClusterId,
    cluster: &Cluster,
    resolved: &Resolved,
    side: Side,
) -> Option<Entity> {
    let (mut addresses, mut ports) = (BTreeSet::<IpAddr>::new(), BTreeSet::new());
    for member in cluster.members.iter().filter(|member| member.stance != Stance::Drop) {
        let names = own_names(member);
        let reached = match side {
            Side::Home => at_home(member, &names),
            Side::Elsewhere => from_elsewhere(member, cluster, &names, resolved),
        };
        // Rules know addresses, and no names of hosts.
        for group in reached.groups.into_iter().filter(|group| group.family != Family::Name) {
            addresses.extend(group.endpoints.iter().filter_map(|one| one.address.parse::<IpAddr>().ok()));
            let numbered = group
                .ports
                .into_iter()
                .filter_map(|port| Some((port.name, port.protocol.as_str(), port.port?)));
            ports.extend(numbered);
        }
    }
    if addresses.is_empty() {
        return None;
    }
    let endpoints: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip.to_string()})).collect();
    let ports: Vec<Value> = ports
        .iter()
        .map(|(name, protocol, port)| json!({"name": name, "protocol": protocol, "port": port}))
        .collect();
    Some(Entity {
        labels: labels(&service.name, id.as_str()),
        cluster: id.as_str().to_owned(),
        spec: json!({"endpoints": endpoints, "ports": ports}),
    })
}

/// Its ports are called as the member calls them, so that what one cluster has depends on no other.
fn own_names(member: &Member) -> Names {
    member.joining.ports.iter().map(|port| (port.name.clone(), vec![port.name.clone()])).collect()
}

fn labels(service: &str, cluster: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([
        (names::ENTITY_KIND.to_owned(), names::ENTITY_KIND_VALUE.to_owned()),
        (names::ENTITY_NAME.to_owned(), service.to_owned()),
        (MANAGED_BY.to_owned(), MANAGER.to_owned()),
    ]);
    if cluster.len() <= LONGEST_LABEL {
        labels.insert(names::ENTITY_CLUSTER.to_owned(), cluster.to_owned());
    }
    labels
}

/// The entity of a federated Service for one cluster. Parts are never joined by a character that they may hold, so the
/// cluster is in the name as a number.
pub(super) fn place(service: &Key, cluster: &str) -> Key {
    let sum = digest(&SHA256, format!("{}/{cluster}", service.name).as_bytes());
    let short: String = sum.as_ref()[..IN_NAME].iter().map(|byte| format!("{byte:02x}")).collect();
    Key::new(service.namespace.as_str(), format!("{}-{short}", service.name))
}

/// The federated Service that an entity of this name would be of.
pub(super) fn service_of(entity: &Key) -> Key {
    let length = entity.name.len().saturating_sub(2 * IN_NAME + 1);
    Key::new(entity.namespace.as_str(), entity.name.get(..length).unwrap_or_default())
}

/// What is kept of an external entity of ours that is there: there are as many as Services times clusters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Made {
    pub(super) uid: Box<str>,
    pub(super) resource_version: Box<str>,
    /// The cluster that it stands for.
    pub(super) cluster: Box<str>,
    pub(super) sum: Hash,
}

impl Made {
    pub(super) fn of(object: &DynamicObject) -> Made {
        let cluster = object.annotations().get(SOURCE_CLUSTER).map_or("", String::as_str);
        let spec = object.data.get("spec").unwrap_or(&Value::Null);
        Made {
            uid: object.uid().unwrap_or_default().into(),
            resource_version: object.resource_version().unwrap_or_default().into(),
            cluster: cluster.into(),
            sum: sum(object.labels(), cluster, spec),
        }
    }

    /// Whether nobody who looks at Services and members would come across it under this name.
    pub(super) fn is_stray(&self, key: &Key, is_member: impl FnOnce(&str) -> bool) -> bool {
        !is_member(&self.cluster) || place(&service_of(key), &self.cluster) != *key
    }
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Create,
    /// Over the version that was seen.
    Replace(String),
    /// This very object, as it was seen.
    Delete {
        uid: String,
        version: String,
    },
}

/// What to write, so that an entity is as it should be.
pub(super) fn step(wanted: Option<Hash>, made: Option<&Made>) -> Option<Step> {
    match (wanted, made) {
        (None, None) => None,
        (Some(_), None) => Some(Step::Create),
        (Some(wanted), Some(made)) if made.sum == wanted => None,
        (Some(_), Some(made)) => Some(Step::Replace(made.resource_version.to_string())),
        (None, Some(made)) => {
            Some(Step::Delete { uid: made.uid.to_string(), version: made.resource_version.to_string() })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;

    use super::*;
    use crate::services::model::{
        Address, Conditions, Endpoint, Joining, Kind, Port, Protocol, Reach, SlicePort, Source,
    };
    use crate::services::records::SourceSlice;

    fn id(name: &str) -> ClusterId {
        ClusterId::new(name).unwrap()
    }

    /// A Service that is reached so from elsewhere, with these addresses at home.
    fn member(name: &str, reach: Reach, addresses: &[&str]) -> Member {
        let port = Port {
            name: "http".into(),
            protocol: Protocol::Tcp,
            port: 80,
            node_port: None,
            app_protocol: None,
        };
        let joining = Joining {
            joins: vec![Key::new("x", "web")],
            flaws: Vec::new(),
            uid: name.into(),
            created: Timestamp::UNIX_EPOCH,
            reach,
            ports: vec![port],
            affinity: None,
            traffic_distribution: None,
            said: None,
        };
        let endpoint = |address: &&str| Endpoint {
            address: (*address).into(),
            conditions: Conditions::default(),
            hostname: None,
            zone: None,
            home: None,
            node: None,
        };
        let slice = SourceSlice {
            service: name.into(),
            family: Family::V4,
            ports: vec![SlicePort {
                name: "http".into(),
                protocol: Protocol::Tcp,
                port: Some(8080),
                app_protocol: None,
            }],
            endpoints: addresses.iter().map(endpoint).collect(),
            flaws: Vec::new(),
        };
        Member {
            source: Source { cluster: id("a"), kind: Kind::Service, key: Key::new("n", name) },
            joining: Arc::new(joining),
            slices: vec![(format!("{name}-1"), Arc::new(slice))],
            stance: Stance::Keep,
        }
    }

    fn cluster(members: Vec<Member>) -> Cluster {
        Cluster { known: true, members, ..Cluster::default() }
    }

    #[track_caller]
    fn check(cluster: &Cluster, side: Side, wanted: &Value) {
        let entity = entity(&Key::new("x", "web"), &id("a"), cluster, &Resolved::new(), side);
        assert_eq!(entity.map_or(Value::Null, |entity| entity.spec), *wanted);
    }

    #[test]
    fn by_its_own_addresses_at_home_and_by_those_that_lead_there_elsewhere() {
        let two = cluster(vec![
            member("one", Reach::Pods, &["10.0.0.2", "10.0.0.1"]),
            member("two", Reach::Addresses(vec![Address::ip("192.0.2.1").unwrap()]), &["10.0.0.3"]),
        ]);
        let pods = json!({"name": "http", "protocol": "TCP", "port": 8080});
        check(
            &two,
            Side::Home,
            &json!({"endpoints": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}, {"ip": "10.0.0.3"}], "ports": [pods]}),
        );
        let own = json!({"name": "http", "protocol": "TCP", "port": 80});
        check(
            &two,
            Side::Elsewhere,
            &json!({"endpoints": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}, {"ip": "192.0.2.1"}], "ports": [own, pods]}),
        );
        check(&cluster(vec![member("one", Reach::Pods, &[])]), Side::Elsewhere, &Value::Null);
        check(&cluster(Vec::new()), Side::Home, &Value::Null);
        let gone = two.members.into_iter().map(|member| Member { stance: Stance::Drop, ..member });
        check(&cluster(gone.collect()), Side::Elsewhere, &Value::Null);
    }

    #[test]
    fn what_a_rule_selects_by() {
        let (web, a) = (Key::new("x", "web"), cluster(vec![member("one", Reach::Pods, &["10.0.0.1"])]));
        let named =
            |cluster: &str| entity(&web, &id(cluster), &a, &Resolved::new(), Side::Elsewhere).unwrap().labels;
        assert_eq!(named("a")[names::ENTITY_NAME], "web");
        assert_eq!(named("a")[names::ENTITY_CLUSTER], "a");
        assert!(
            !named(&format!("{0}.{0}", "a".repeat(40))).contains_key(names::ENTITY_CLUSTER),
            "no label is so long"
        );
    }

    #[test]
    fn only_what_differs_is_written() {
        let (web, a) = (Key::new("x", "web"), cluster(vec![member("one", Reach::Pods, &["10.0.0.1"])]));
        let wanted = entity(&web, &id("a"), &a, &Resolved::new(), Side::Home).unwrap();
        let key = place(&web, "a");
        let mut object: DynamicObject = serde_json::from_value(wanted.object(&key, Some("7"))).unwrap();
        object.metadata.uid = Some("u".into());
        let made = Made::of(&object);
        assert_eq!(step(Some(wanted.sum()), Some(&made)), None);
        assert_eq!(step(Some(wanted.sum()), None), Some(Step::Create));
        assert_eq!(step(None, Some(&made)), Some(Step::Delete { uid: "u".into(), version: "7".into() }));
        assert_eq!(step(None, None), None);
        object.data["spec"]["endpoints"] = json!([]);
        assert_eq!(step(Some(wanted.sum()), Some(&Made::of(&object))), Some(Step::Replace("7".into())));
    }

    #[test]
    fn a_name_says_of_which_service_it_is_and_strays_are_found() {
        let key = place(&Key::new("x", "web-api"), "prod");
        assert_eq!(service_of(&key), Key::new("x", "web-api"));
        // Never joined by what the parts may hold.
        assert_ne!(key, place(&Key::new("x", "web"), "api-prod"));
        let made = |cluster: &str| Made {
            uid: "u".into(),
            resource_version: "1".into(),
            cluster: cluster.into(),
            sum: Hash::of(b""),
        };
        assert!(!made("prod").is_stray(&key, |_| true));
        assert!(made("prod").is_stray(&key, |_| false), "its cluster left");
        assert!(made("test").is_stray(&key, |_| true), "somebody changed what it stands for");
        assert!(made("prod").is_stray(&Key::new("x", "é"), |_| true));
    }
}
