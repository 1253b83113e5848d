//! What every cluster has from its start: namespaces, the stock roles, priority classes and the
//! `kubernetes` Service.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::services::{self, Range};
use super::{Options, object, write};
use crate::auth::rbac;
use crate::catalog::{Catalog, Resource};
use crate::context::Context;
use crate::store::{Expect, Key, Op, Store};

/// Makes what is missing; what is there stays as it is, whoever changed it. Only where this server is to be found is said
/// anew at each start.
pub(crate) async fn fill(store: &Store, context: &Context, options: &Options) {
    let own = own_network(options, context);
    let catalog = Catalog::default();
    let objects = stock().iter().chain(&own);
    let mut missing: Vec<Op> =
        objects.filter_map(|object| missing(store, context, &catalog, object)).collect();
    let found_at = own_endpoints(options);
    missing.extend(found_at.iter().filter_map(|object| renewed(store, context, &catalog, object)));
    if missing.is_empty() {
        return;
    }
    // Nobody else writes yet; a disk that refuses is reported by the first write of a client.
    if let Err(error) = store.commit(missing).await {
        tracing::error!(%error, "the objects that every cluster starts with could not be stored");
    }
}

/// The objects that are the same in every cluster, but for their ids and times.
fn stock() -> &'static [Value] {
    static OBJECTS: OnceLock<Vec<Value>> = OnceLock::new();
    OBJECTS.get_or_init(|| {
        let text = crate::data::read("bootstrap").expect("the data file has bootstrap objects");
        serde_json::from_slice(&text).expect("bootstrap objects are JSON")
    })
}

/// The stock roles and bindings: what the index of every cluster begins with, so that all share it.
pub(crate) fn rules() -> &'static rbac::Index {
    static RULES: OnceLock<rbac::Index> = OnceLock::new();
    RULES.get_or_init(|| {
        let mut index = rbac::Index::default();
        for object in stock() {
            index.apply(object["kind"].as_str().unwrap_or_default(), object);
        }
        index
    })
}

fn resource_of(catalog: &Catalog, object: &Value) -> Option<Arc<Resource>> {
    let api_version = object["apiVersion"].as_str()?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    catalog.resource_of_kind(group, version, object["kind"].as_str()?)
}

fn key_of(resource: &Resource, object: &Value) -> Key {
    let text = |key| object::text(object, &["metadata", key]);
    Key::new(resource.storage.clone(), text("namespace"), text("name"))
}

fn missing(store: &Store, context: &Context, catalog: &Catalog, object: &Value) -> Option<Op> {
    let resource = resource_of(catalog, object)?;
    let key = key_of(&resource, object);
    if store.get(&key).is_some() {
        return None;
    }
    let mut object = object.clone();
    let generation = crate::kinds::strategy(&resource.group, &resource.kind).generation;
    let metadata = object::metadata(&mut object);
    metadata.insert("uid".into(), context.uid().into());
    metadata.insert("creationTimestamp".into(), context.now_seconds().into());
    for entry in metadata.get_mut("managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
        entry["time"] = context.now_seconds().into();
    }
    if generation != crate::kinds::Generation::Never {
        metadata.entry("generation").or_insert_with(|| 1.into());
    }
    let labels = write::labels(&object);
    Some(Op::Put { key, expect: Expect::Absent, body: object::encode(&object).into(), labels })
}

/// As [`missing`], and what is there is brought up to date: an address or a port from before leads nowhere.
fn renewed(store: &Store, context: &Context, catalog: &Catalog, object: &Value) -> Option<Op> {
    let resource = resource_of(catalog, object)?;
    let key = key_of(&resource, object);
    let Some(entry) = store.get(&key) else { return missing(store, context, catalog, object) };
    let stored = object::decode(None, entry.revision, &entry.body);
    let mut new = stored.clone();
    for field in ["subsets", "addressType", "endpoints", "ports"] {
        if let Some(value) = object.get(field) {
            new[field] = value.clone();
        }
    }
    if new == stored {
        return None;
    }
    let labels = write::labels(&new);
    let body = object::encode(&new).into();
    Some(Op::Put { key, expect: Expect::Revision(entry.revision), body, labels })
}

/// Where this server is to be found, as the `kubernetes` Service tells it.
fn own_endpoints(options: &Options) -> [Value; 2] {
    let family = if options.address.is_ipv4() { "IPv4" } else { "IPv6" };
    let address = options.address.to_string();
    let ports = json!([{"name": "https", "port": options.port, "protocol": "TCP"}]);
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [{"addresses": [{"ip": address}], "ports": ports}],
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": family,
        "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
        "ports": ports,
    });
    [endpoints, slice]
}

/// The range of Service addresses, and the Service by which pods reach this server.
fn own_network(options: &Options, context: &Context) -> Vec<Value> {
    let Some(range) = Range::parse(&options.service_range) else { return Vec::new() };
    let address = range.first().to_string();
    vec![
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
            "metadata": {"name": "kubernetes"},
            "spec": {"cidrs": [options.service_range]},
            "status": {"conditions": [{
                "type": "Ready", "status": "True", "reason": "",
                "message": "Kubernetes default Service CIDR is ready",
                "lastTransitionTime": context.now_seconds(),
            }]},
        }),
        services::address_object(&address, "default", "kubernetes"),
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": "kubernetes", "namespace": "default",
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            },
            "spec": {
                "clusterIP": address, "clusterIPs": [address], "internalTrafficPolicy": "Cluster",
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": options.port}],
                "sessionAffinity": "None", "type": "ClusterIP",
            },
            "status": {"loadBalancer": {}},
        }),
    ]
}
