//! Addresses and node ports of Services.
//!
//! Each address that is taken is an `IPAddress` object, stored in the same transaction as its Service:
//! no two Services can have the same one, over restarts too. Node ports are read off the stored Services
//! while a lock is held.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::call::Call;
use super::object::{self, text};
use super::write;
use crate::field;
use crate::kinds::core::init_service_families;
use crate::names;
use crate::status::{Error, Result};
use crate::store::{Expect, Item, Key, ListQuery, Op, Store};

const SERVICES: &str = "/services";
const ADDRESSES: &str = "networking.k8s.io/ipaddresses";
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30000..=32767;

/// One writer of Services at a time.
#[derive(Default)]
pub(crate) struct Allocator(Arc<Mutex<()>>);

/// What goes into the store together with the Service, and the lock until it is there.
#[derive(Default)]
pub(crate) struct Allocation {
    pub(crate) ops: Vec<Op>,
    _lock: Option<OwnedMutexGuard<()>>,
}

/// A block of IPv4 addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    base: u32,
    size: u32,
}

impl Range {
    pub(crate) fn parse(text: &str) -> Option<Range> {
        let (address, prefix) = text.split_once('/')?;
        let prefix: u32 = prefix.parse().ok().filter(|prefix| (8..=30).contains(prefix))?;
        let size = 1u32 << (32 - prefix);
        let address: Ipv4Addr = address.parse().ok()?;
        Some(Range { base: u32::from(address) & !(size - 1), size })
    }

    /// The address of the `kubernetes` Service.
    pub(crate) fn first(self) -> Ipv4Addr {
        Ipv4Addr::from(self.base + 1)
    }

    fn contains(self, address: Ipv4Addr) -> bool {
        let address = u32::from(address);
        address > self.base && address < self.base + self.size - 1
    }

    /// Usable addresses, beginning somewhere in the middle.
    fn from(self, start: u32) -> impl Iterator<Item = Ipv4Addr> {
        let usable = self.size - 2;
        (0..usable).map(move |step| Ipv4Addr::from(self.base + 1 + (start % usable + step) % usable))
    }
}

/// The object that says an address is taken, and by which Service.
pub(crate) fn address_object(address: &str, namespace: &str, service: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": {
            "name": address,
            "labels": {
                "ipaddress.kubernetes.io/ip-family": "IPv4",
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        },
        "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": service}},
    })
}

/// Gives a Service what it needs: families, an address, node ports. Nothing for other kinds.
pub(crate) async fn allocate(call: &Call, service: &mut Value, old: Option<&Value>) -> Result<Allocation> {
    if &*call.resource.storage != SERVICES
        || !call.info.subresource.is_empty()
        || !service["spec"].is_object()
    {
        return Ok(Allocation::default());
    }
    let mut allocation =
        Allocation { ops: Vec::new(), _lock: Some(call.server.services.0.clone().lock_owned().await) };
    if let Some(old) = old {
        keep_allocated(service, old);
        drop_kept_addresses(service, old);
    }
    fill_address_list(service, old);
    let errors = init_service_families(service, old);
    if !errors.is_empty() {
        return Err(Error::invalid("", "Service", text(service, &["metadata", "name"]), &errors));
    }
    addresses(call, service, old, &mut allocation.ops)?;
    node_ports(call, service, old)?;
    Ok(allocation)
}

/// The addresses of a deleted Service are free again.
pub(crate) fn release(call: &Call, service: &Value) -> Vec<Op> {
    if &*call.resource.storage != SERVICES {
        return Vec::new();
    }
    taken_addresses(service).into_iter().filter_map(|address| release_address(call, &address)).collect()
}

fn release_address(call: &Call, address: &str) -> Option<Op> {
    let key = Key::new(ADDRESSES, "", address);
    call.server.store.get(&key).map(|_| Op::Delete { key, revision: None })
}

/// Frees the addresses that are recorded for Services which do not have them, whatever happened to those.
pub(crate) async fn sweep(store: &Store) {
    let Ok(found) = store.list(&ListQuery::all(ADDRESSES)) else { return };
    let stale: Vec<Op> = found.items.iter().filter(|item| is_stale(store, item)).map(free).collect();
    if stale.is_empty() {
        return;
    }
    tracing::info!(count = stale.len(), "addresses of Services that are gone are free again");
    if let Err(error) = store.commit(stale).await {
        tracing::error!(%error, "addresses of Services that are gone could not be freed");
    }
}

fn free(item: &Item) -> Op {
    Op::Delete { key: Key::new(ADDRESSES, "", item.name.clone()), revision: Some(item.entry.revision) }
}

fn is_stale(store: &Store, item: &Item) -> bool {
    let address = object::of_entry(None, &item.entry);
    let parent = &address["spec"]["parentRef"];
    // Others may keep addresses of their own here.
    if address["metadata"]["labels"]["ipaddress.kubernetes.io/managed-by"] != "ipallocator.k8s.io"
        || (text(parent, &["group"]), text(parent, &["resource"])) != ("", "services")
    {
        return false;
    }
    let service = Key::new(SERVICES, text(parent, &["namespace"]), text(parent, &["name"]));
    let service = store.get(&service).map(|entry| object::of_entry(None, &entry));
    !service.is_some_and(|service| taken_addresses(&service).contains(&*item.name))
}

fn taken_addresses(service: &Value) -> BTreeSet<String> {
    let many = service["spec"]["clusterIPs"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let addresses = many.chain(service["spec"]["clusterIP"].as_str());
    addresses.filter(|address| !address.is_empty() && *address != "None").map(str::to_owned).collect()
}

fn needs_address(service: &Value) -> bool {
    text(service, &["spec", "type"]) != "ExternalName" && text(service, &["spec", "clusterIP"]) != "None"
}

/// An update that leaves out what was allocated keeps it.
fn keep_allocated(service: &mut Value, old: &Value) {
    let external = |service: &Value| text(service, &["spec", "type"]) == "ExternalName";
    if external(service) || external(old) {
        return;
    }
    for key in ["clusterIP", "clusterIPs"] {
        let empty = match &service["spec"][key] {
            Value::String(address) => address.is_empty(),
            Value::Array(addresses) => addresses.is_empty(),
            _ => true,
        };
        if let (true, Some(value)) = (empty, old["spec"].get(key)) {
            service["spec"][key] = value.clone();
        }
    }
    if !has_node_ports(service) || !has_node_ports(old) {
        return;
    }
    let number = |port: &Value| port["nodePort"].as_u64().filter(|number| *number > 0);
    let given: BTreeSet<u64> = ports(service).filter_map(number).collect();
    // Ports go by their names, whatever else of them changed.
    let before: BTreeMap<&str, u64> = ports(old)
        .filter_map(|port| Some((port["name"].as_str().unwrap_or_default(), number(port)?)))
        .filter(|(_, number)| !given.contains(number))
        .collect();
    for port in ports_mut(service) {
        let known = before.get(port["name"].as_str().unwrap_or_default());
        if let (None, Some(known)) = (number(port), known) {
            port["nodePort"] = (*known).into();
        }
    }
}

/// A Service that becomes an ExternalName gives up addresses that the client merely left in place.
fn drop_kept_addresses(service: &mut Value, old: &Value) {
    let external = |service: &Value| text(service, &["spec", "type"]) == "ExternalName";
    if !external(service) || external(old) {
        return;
    }
    for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if service["spec"].get(key) == old["spec"].get(key)
            && let Some(spec) = service["spec"].as_object_mut()
        {
            spec.remove(key);
        }
    }
}

/// The single address and the list of addresses say the same; a client may have given one or changed one.
fn fill_address_list(service: &mut Value, old: Option<&Value>) {
    let one = text(service, &["spec", "clusterIP"]).to_owned();
    let list = service["spec"]["clusterIPs"].as_array().cloned().unwrap_or_default();
    let Some(old) = old else {
        if !one.is_empty() && list.is_empty() {
            service["spec"]["clusterIPs"] = json!([one]);
        }
        return;
    };
    let before = text(old, &["spec", "clusterIP"]);
    let same_list = old["spec"]["clusterIPs"].as_array().cloned().unwrap_or_default() == list;
    if !one.is_empty() && list.is_empty() {
        service["spec"]["clusterIPs"] = json!([one]);
        return;
    }
    if one == before || !same_list {
        return;
    }
    // Only the single address changed: the list follows.
    match one.as_str() {
        "" => {
            service["spec"].as_object_mut().map(|spec| spec.remove("clusterIPs"));
        }
        _ => service["spec"]["clusterIPs"] = json!([one]),
    }
}

fn addresses(call: &Call, service: &mut Value, old: Option<&Value>, ops: &mut Vec<Op>) -> Result<()> {
    let before = old.map(taken_addresses).unwrap_or_default();

    if text(service, &["spec", "type"]) == "ExternalName" {
        ops.extend(before.iter().filter_map(|address| release_address(call, address)));
        return Ok(());
    }
    if !needs_address(service) {
        service["spec"]["clusterIPs"] = json!(["None"]);
        return Ok(());
    }
    if text(service, &["spec", "clusterIP"]).is_empty()
        && let Some(first) = service["spec"]["clusterIPs"][0].as_str().map(str::to_owned)
    {
        service["spec"]["clusterIP"] = first.into();
    }
    let wanted = text(service, &["spec", "clusterIP"]).to_owned();
    let address = match wanted.as_str() {
        // It was made without one, which is not mended.
        "" if old.is_some_and(|old| text(old, &["spec", "type"]) != "ExternalName") => return Ok(()),
        "" if !is_dry_run(call) && !is_parent(text(service, &["metadata", "name"])) => {
            return Err(no_parent(&free_address(call)?, text(service, &["metadata", "name"])));
        }
        "" => free_address(call)?,
        wanted if before.contains(wanted) => return Ok(()),
        // Another address than before is refused as a change, not as an address.
        _ if old.is_some_and(|old| text(old, &["spec", "type"]) != "ExternalName") => return Ok(()),
        wanted => checked_address(call, service, wanted)?,
    };
    service["spec"]["clusterIP"] = address.as_str().into();
    service["spec"]["clusterIPs"] = json!([address]);
    let mut object = address_object(
        &address,
        text(service, &["metadata", "namespace"]),
        text(service, &["metadata", "name"]),
    );
    let metadata = object::metadata(&mut object);
    metadata.insert("uid".into(), call.server.context.uid().into());
    metadata.insert("creationTimestamp".into(), call.server.context.now_seconds().into());
    metadata.insert("generation".into(), 1.into());
    let labels = write::labels(&object);
    let key = Key::new(ADDRESSES, "", address);
    ops.push(Op::Put { key, expect: Expect::Absent, body: object::encode(&object).into(), labels });
    Ok(())
}

/// Whether an address can be given to a Service of that name.
fn is_parent(name: &str) -> bool {
    !name.is_empty() && names::path_segment(name).is_empty()
}

/// The refusal of an address to a Service whose name is none.
fn no_parent(address: &str, name: &str) -> Error {
    let parent = match names::path_segment(name).first() {
        Some(why) => format!("Invalid value: {name:?}: {why}"),
        None => "Required value".to_owned(),
    };
    let why = format!(
        "failed to allocate IP: IPAddress.networking.k8s.io {address:?} is invalid: spec.parentRef.name: {parent}"
    );
    let path = field::Path::new("spec.clusterIPs");
    Error::invalid("", "Service", name, &[field::Error::invalid(&path, json!([""]), why)])
}

/// Options that are no good were refused before.
fn is_dry_run(call: &Call) -> bool {
    call.query.dry_run("CreateOptions").unwrap_or(false)
}

fn range(call: &Call) -> Result<Range> {
    Range::parse(&call.server.options.service_range)
        .ok_or_else(|| Error::internal("the range of Service addresses is not a block of IPv4 addresses"))
}

fn is_free(call: &Call, address: Ipv4Addr) -> bool {
    call.server.store.get(&Key::new(ADDRESSES, "", address.to_string())).is_none()
}

fn free_address(call: &Call) -> Result<String> {
    let mut start = [0u8; 4];
    call.server.context.fill(&mut start);
    let range = range(call)?;
    let free = range.from(u32::from_le_bytes(start)).find(|address| is_free(call, *address));
    free.map(|address| address.to_string())
        .ok_or_else(|| Error::internal("failed to allocate a serviceIP: range is full"))
}

fn checked_address(call: &Call, service: &Value, wanted: &str) -> Result<String> {
    let refuse = |why: String| {
        let path = field::Path::new("spec.clusterIPs");
        let shown = match &service["spec"]["clusterIPs"] {
            Value::Array(all) => Value::Array(all.clone()),
            _ => json!([wanted]),
        };
        let name = text(service, &["metadata", "name"]);
        let why = format!("failed to allocate IP {wanted}: {why}");
        Err(Error::invalid("", "Service", name, &[field::Error::invalid(&path, shown, why)]))
    };
    // What is no address at all, validation explains better.
    let Ok(address) = wanted.parse::<Ipv4Addr>() else { return Ok(wanted.to_owned()) };
    if !range(call)?.contains(address) {
        return refuse("the provided network does not match the current range".to_owned());
    }
    if !is_free(call, address) {
        return refuse("provided IP is already allocated".to_owned());
    }
    Ok(wanted.to_owned())
}

fn has_node_ports(service: &Value) -> bool {
    match text(service, &["spec", "type"]) {
        "NodePort" => true,
        "LoadBalancer" => service["spec"]["allocateLoadBalancerNodePorts"].as_bool().unwrap_or(true),
        _ => false,
    }
}

fn node_ports(call: &Call, service: &mut Value, old: Option<&Value>) -> Result<()> {
    let local = text(service, &["spec", "externalTrafficPolicy"]) == "Local";
    let health_check = text(service, &["spec", "type"]) == "LoadBalancer" && local;
    if !has_node_ports(service) && !health_check {
        if old.is_some_and(has_node_ports) {
            for port in ports_mut(service) {
                port.as_object_mut().map(|port| port.remove("nodePort"));
            }
        }
        return Ok(());
    }
    let own: BTreeSet<u16> = old.map(node_ports_of).unwrap_or_default();
    let mut used = used_node_ports(call);
    for taken in &own {
        used.remove(taken);
    }
    // Ports that the client chose come first, so that none of them is given away.
    let name = text(service, &["metadata", "name"]).to_owned();
    let chosen: Vec<(usize, u16, String)> = ports(service)
        .enumerate()
        .filter_map(|(index, port)| {
            let number = u16::try_from(port["nodePort"].as_u64()?).ok().filter(|number| *number > 0)?;
            Some((index, number, port["protocol"].as_str().unwrap_or("TCP").to_owned()))
        })
        .collect();
    let mut mine: BTreeSet<(u16, String)> = BTreeSet::new();
    for (index, number, protocol) in chosen {
        let path = field::Path::new("spec.ports").index(index).child("nodePort");
        let refuse = |why: &str| {
            Err(Error::invalid("", "Service", &name, &[field::Error::invalid(&path, number, why)]))
        };
        if !NODE_PORTS.contains(&number) {
            return refuse(
                "provided port is not in the valid range. The range of valid ports is 30000-32767",
            );
        }
        // One number may serve several protocols of one Service.
        let again = mine.iter().any(|(other, with)| *other == number && *with == protocol);
        if again && old.is_some() {
            return Err(Error::new(500, "", format!("duplicate nodePort: {{{protocol} {number}}}")));
        }
        if used.contains(&number) || again {
            return refuse("provided port is already allocated");
        }
        mine.insert((number, protocol));
    }
    used.extend(mine.iter().map(|(number, _)| *number));
    let mut taken: BTreeSet<u16> =
        mine.iter().map(|(number, _)| *number).filter(|number| !own.contains(number)).collect();
    if has_node_ports(service) {
        // One number of a new Service has one port on the nodes, whatever its protocols.
        let mut shared: BTreeMap<u64, u64> = BTreeMap::new();
        if old.is_none_or(|old| !has_node_ports(old)) {
            let known =
                ports(service).filter_map(|port| Some((port["port"].as_u64()?, port["nodePort"].as_u64()?)));
            shared.extend(known.filter(|(_, node_port)| *node_port > 0));
        }
        for port in ports_mut(service) {
            if port["nodePort"].as_u64().unwrap_or(0) != 0 {
                continue;
            }
            let number = port["port"].as_u64().filter(|_| old.is_none_or(|old| !has_node_ports(old)));
            let node_port = match number.and_then(|number| shared.get(&number)) {
                Some(node_port) => *node_port,
                None => free_port(call, &mut used, &mut taken)?.into(),
            };
            shared.extend(number.map(|number| (number, node_port)));
            port["nodePort"] = node_port.into();
        }
    }
    if health_check && service["spec"]["healthCheckNodePort"].as_u64().unwrap_or(0) == 0 {
        let kept = old.and_then(|old| old["spec"]["healthCheckNodePort"].as_u64()).filter(|port| *port > 0);
        service["spec"]["healthCheckNodePort"] = match kept {
            Some(kept) => kept.into(),
            None => free_port(call, &mut used, &mut taken)?.into(),
        };
    }
    Ok(())
}

fn ports_mut(service: &mut Value) -> impl Iterator<Item = &mut Value> {
    service["spec"].get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten()
}

fn ports(service: &Value) -> impl Iterator<Item = &Value> {
    service["spec"]["ports"].as_array().into_iter().flatten()
}

fn node_ports_of(service: &Value) -> BTreeSet<u16> {
    let health = service["spec"]["healthCheckNodePort"].as_u64();
    let numbers = ports(service).filter_map(|port| port["nodePort"].as_u64()).chain(health);
    numbers.filter_map(|number| u16::try_from(number).ok()).filter(|number| *number > 0).collect()
}

fn used_node_ports(call: &Call) -> BTreeSet<u16> {
    let Ok(found) = call.server.store.list(&ListQuery::all(SERVICES)) else { return BTreeSet::new() };
    let mut used = BTreeSet::new();
    for item in &found.items {
        // Most Services have none: look at the text before parsing it.
        let body = String::from_utf8_lossy(&item.entry.body);
        if body.contains("odePort\":") {
            used.extend(node_ports_of(&object::of_entry(None, &item.entry)));
        }
    }
    used
}

/// A free port; in a dry run the next above those that the request took, as stock servers pretend.
fn free_port(call: &Call, used: &mut BTreeSet<u16>, taken: &mut BTreeSet<u16>) -> Result<u16> {
    if is_dry_run(call) {
        let port = taken.last().map_or(*NODE_PORTS.end() + 2, |last| last + 1);
        taken.insert(port);
        return Ok(port);
    }
    let mut start = [0u8; 2];
    call.server.context.fill(&mut start);
    let (low, count) = (*NODE_PORTS.start(), NODE_PORTS.end() - NODE_PORTS.start() + 1);
    let start = u16::from_le_bytes(start) % count;
    let free = (0..count).map(|step| low + (start + step) % count).find(|port| !used.contains(port));
    let port = free.ok_or_else(|| Error::internal("failed to allocate a nodePort: range is full"))?;
    used.insert(port);
    Ok(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_gives_each_usable_address_once() {
        let range = Range::parse("10.0.0.0/29").expect("a range");
        assert_eq!(range.first().to_string(), "10.0.0.1");
        let all: BTreeSet<Ipv4Addr> = range.from(u32::MAX - 2).collect();
        assert_eq!(all.len(), 6);
        assert!(all.iter().all(|address| range.contains(*address)));
        assert!(!range.contains("10.0.0.7".parse().expect("an address")));
        assert!(Range::parse("10.0.0.0/33").is_none());
    }
}
