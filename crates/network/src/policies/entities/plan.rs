//! Which external entities there should be. Plain values.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use koinon_api::names::network::{SLICES_MANAGER, SOURCE_CLUSTER};
use koinon_api::names::{MANAGED_BY, MANAGER};
use koinon_control::Key;
use kube::ResourceExt as _;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::policies::names;

const SERVICE_NAME: &str = "kubernetes.io/service-name";
const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const LONGEST_LABEL: usize = 63;

/// What one EndpointSlice says of a federated Service.
#[derive(Clone, Debug, PartialEq)]
pub struct Portion {
    pub service: String,
    pub cluster: String,
    pub addresses: BTreeSet<IpAddr>,
    /// Name, protocol and number.
    pub ports: BTreeSet<(String, String, i32)>,
}

impl Portion {
    /// `None` for a slice that is no part of a federated Service, or that names hosts and no addresses.
    pub fn of(slice: &EndpointSlice) -> Option<Portion> {
        let labels = slice.labels();
        if labels.get(SLICE_MANAGED_BY).map(String::as_str) != Some(SLICES_MANAGER)
            || slice.address_type == "FQDN"
        {
            return None;
        }
        let addresses = slice.endpoints.iter().flatten().flat_map(|endpoint| &endpoint.addresses);
        let ports = slice.ports.iter().flatten().filter_map(|port| {
            let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".into());
            Some((port.name.clone().unwrap_or_default(), protocol, port.port?))
        });
        Some(Portion {
            service: labels.get(SERVICE_NAME)?.clone(),
            cluster: slice.annotations().get(SOURCE_CLUSTER)?.clone(),
            addresses: addresses.filter_map(|address| address.parse().ok()).collect(),
            ports: ports.collect(),
        })
    }
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
}

/// The entities of a cluster, from what its slices say; the first of each pair is the slice's namespace.
pub fn entities<'a>(portions: impl IntoIterator<Item = (&'a str, &'a Portion)>) -> BTreeMap<Key, Entity> {
    type Gathered = (BTreeSet<IpAddr>, BTreeSet<(String, String, i32)>);
    let mut gathered: BTreeMap<(&str, &str, &str), Gathered> = BTreeMap::new();
    for (namespace, portion) in portions {
        let place = (namespace, &*portion.service, &*portion.cluster);
        let (addresses, ports) = gathered.entry(place).or_default();
        addresses.extend(&portion.addresses);
        ports.extend(portion.ports.iter().cloned());
    }
    let filled = gathered.into_iter().filter(|(_, (addresses, _))| !addresses.is_empty());
    let entities = filled.map(|((namespace, service, cluster), (addresses, ports))| {
        let endpoints: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip.to_string()})).collect();
        let ports: Vec<Value> = ports
            .iter()
            .map(|(name, protocol, port)| json!({"name": name, "protocol": protocol, "port": port}))
            .collect();
        let entity = Entity {
            labels: labels(service, cluster),
            cluster: cluster.to_owned(),
            spec: json!({"endpoints": endpoints, "ports": ports}),
        };
        (Key::new(namespace, name(service, cluster)), entity)
    });
    entities.collect()
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

/// Parts are never joined by a character that they may hold, so the cluster is in the name as a number.
fn name(service: &str, cluster: &str) -> String {
    let sum = digest(&SHA256, format!("{service}/{cluster}").as_bytes());
    let short: String = sum.as_ref()[..5].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{service}-{short}")
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Create(Key),
    /// Over the version that was seen.
    Replace(Key, String),
    /// This very object.
    Delete(Key, String),
}

/// An external entity of ours that is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    pub uid: String,
    pub resource_version: String,
    pub labels: BTreeMap<String, String>,
    pub spec: Value,
}

/// What to write, so that the entities are as they should be.
pub fn plan<'a>(
    wanted: &BTreeMap<Key, Entity>,
    made: impl IntoIterator<Item = (&'a Key, &'a Made)>,
) -> Vec<Step> {
    let made: BTreeMap<&Key, &Made> = made.into_iter().collect();
    let mut steps = Vec::new();
    for (key, entity) in wanted {
        match made.get(key) {
            None => steps.push(Step::Create(key.clone())),
            Some(made) if made.spec == entity.spec && made.labels == entity.labels => {}
            Some(made) => steps.push(Step::Replace(key.clone(), made.resource_version.clone())),
        }
    }
    let left = made.iter().filter(|(key, _)| !wanted.contains_key(**key));
    steps.extend(left.map(|(key, made)| Step::Delete((*key).clone(), made.uid.clone())));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn portion(service: &str, cluster: &str, addresses: &[&str]) -> Portion {
        Portion {
            service: service.into(),
            cluster: cluster.into(),
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
            ports: [("http".to_owned(), "TCP".to_owned(), 80)].into(),
        }
    }

    #[test]
    fn one_for_each_service_and_source_cluster() {
        let portions = [
            ("x", portion("web", "a", &["10.0.0.2", "10.0.0.1"])),
            ("x", portion("web", "a", &["fd00::1"])),
            ("x", portion("web", "b", &["10.1.0.1"])),
            ("y", portion("web", "b", &["10.1.0.1"])),
            ("x", portion("idle", "b", &[])),
        ];
        let wanted = entities(portions.iter().map(|(namespace, portion)| (*namespace, portion)));
        assert_eq!(wanted.len(), 3);
        let (key, entity) = wanted.iter().find(|(_, entity)| entity.cluster == "a").unwrap();
        assert!(key.namespace == "x" && key.name.starts_with("web-"), "{key}");
        assert_eq!(
            entity.spec["endpoints"],
            json!([{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}, {"ip": "fd00::1"}])
        );
        assert_eq!(entity.labels[names::ENTITY_NAME], "web");
        assert_eq!(entity.labels[names::ENTITY_CLUSTER], "a");
    }

    #[test]
    fn only_what_differs_is_written() {
        let portions = [portion("web", "a", &["10.0.0.1"]), portion("web", "b", &["10.0.0.2"])];
        let wanted = entities(portions.iter().map(|portion| ("x", portion)));
        let mut made: BTreeMap<Key, Made> = wanted
            .iter()
            .map(|(key, entity)| {
                let (labels, spec) = (entity.labels.clone(), entity.spec.clone());
                (key.clone(), Made { uid: "u".into(), resource_version: "7".into(), labels, spec })
            })
            .collect();
        assert_eq!(plan(&wanted, &made), []);
        let key = made.keys().next().unwrap().clone();
        made.get_mut(&key).unwrap().spec = json!({});
        assert_eq!(plan(&wanted, &made), [Step::Replace(key.clone(), "7".into())]);
        made.remove(&key);
        assert_eq!(plan(&wanted, &made), [Step::Create(key)]);
        assert_eq!(plan(&BTreeMap::new(), &made).len(), 1);
        // Never joined by what the parts may hold.
        assert_ne!(name("web-api", "prod"), name("web", "api-prod"));
    }
}
