//! What single objects use of what quotas limit.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{
    Container, PersistentVolumeClaim, Pod, PodSpec, ResourceRequirements, Service,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::amount::Amount;

/// Amounts by the name that quotas have for them.
pub(super) type Amounts = BTreeMap<String, Amount>;

const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

pub(super) fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = to.get(name).copied().unwrap_or(Amount::ZERO).plus(*amount);
        to.insert(name.clone(), sum);
    }
}

/// A map of quantities as amounts; what makes no sense counts nothing.
pub(super) fn amounts(map: Option<&BTreeMap<String, Quantity>>) -> Amounts {
    let entries = map.into_iter().flatten();
    entries.map(|(name, text)| (name.clone(), Amount::parse(&text.0).unwrap_or(Amount::ZERO))).collect()
}

/// A pod that ended uses nothing but its place in the store, and neither does one that should be long gone:
/// its node is lost, and others must be able to take over.
pub(super) fn of_pod(pod: &Pod, now: Timestamp) -> Amounts {
    let mut used = Amounts::from([("count/pods".to_owned(), Amount::count(1))]);
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    if matches!(phase, Some("Succeeded" | "Failed")) || written_off(pod).is_some_and(|at| now > at) {
        return used;
    }
    used.insert("pods".into(), Amount::count(1));
    let Some(spec) = &pod.spec else { return used };
    for (name, amount) in asked(spec, |resources| resources.requests.as_ref(), true) {
        if COMPUTE.contains(&name.as_str()) || name.starts_with("hugepages-") {
            used.insert(name.clone(), amount);
            used.insert(format!("requests.{name}"), amount);
        } else if name.contains('/') {
            used.insert(format!("requests.{name}"), amount);
        }
    }
    for (name, amount) in asked(spec, |resources| resources.limits.as_ref(), false) {
        if COMPUTE.contains(&name.as_str()) {
            used.insert(format!("limits.{name}"), amount);
        }
    }
    used
}

/// When a pod that was deleted counts no longer, should it still be there.
pub(super) fn written_off(pod: &Pod) -> Option<Timestamp> {
    let deleted = pod.metadata.deletion_timestamp.as_ref()?;
    let grace = pod.metadata.deletion_grace_period_seconds?;
    Some(deleted.0 + SignedDuration::from_secs(grace))
}

/// What a pod as a whole asks for. Its containers run together, those that initialise it one after the other,
/// and sidecars stay.
fn asked(
    spec: &PodSpec,
    which: fn(&ResourceRequirements) -> Option<&BTreeMap<String, Quantity>>,
    overhead_always: bool,
) -> Amounts {
    let of = |container: &Container| amounts(container.resources.as_ref().and_then(which));
    let mut total = Amounts::new();
    for container in &spec.containers {
        add(&mut total, &of(container));
    }
    let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
    for container in spec.init_containers.iter().flatten() {
        let mut here = of(container);
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut total, &here);
            add(&mut sidecars, &here);
            here = sidecars.clone();
        } else {
            add(&mut here, &sidecars);
        }
        raise(&mut peak, &here);
    }
    raise(&mut total, &peak);
    for (name, amount) in amounts(spec.resources.as_ref().and_then(which)) {
        if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
            total.insert(name, amount);
        }
    }
    let mut overhead = amounts(spec.overhead.as_ref());
    // What has no limit gets none by its overhead.
    overhead.retain(|name, _| overhead_always || total.contains_key(name));
    add(&mut total, &overhead);
    total
}

fn raise(to: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        let most = to.get(name).map_or(*amount, |have| have.max(*amount));
        to.insert(name.clone(), most);
    }
}

pub(super) fn of_service(service: &Service) -> Amounts {
    let spec = service.spec.clone().unwrap_or_default();
    let ports = spec.ports.unwrap_or_default();
    let (node_ports, balancers) = match spec.type_.as_deref() {
        Some("NodePort") => (ports.len(), 0),
        Some("LoadBalancer") if spec.allocate_load_balancer_node_ports == Some(false) => {
            (ports.iter().filter(|port| port.node_port.is_some_and(|number| number != 0)).count(), 1)
        }
        Some("LoadBalancer") => (ports.len(), 1),
        _ => (0, 0),
    };
    let counted = [
        ("count/services", 1),
        ("services", 1),
        ("services.nodeports", node_ports),
        ("services.loadbalancers", balancers),
    ];
    counted.into_iter().map(|(name, count)| (name.to_owned(), Amount::count(count))).collect()
}

pub(super) fn of_claim(claim: &PersistentVolumeClaim) -> Amounts {
    let spec = claim.spec.clone().unwrap_or_default();
    let mut used = Amounts::from([("persistentvolumeclaims".to_owned(), Amount::count(1))]);
    let requests = spec.resources.and_then(|resources| resources.requests);
    if let Some(storage) = amounts(requests.as_ref()).remove("storage") {
        used.insert("requests.storage".into(), storage);
    }
    if let Some(class) = spec.storage_class_name.filter(|class| !class.is_empty()) {
        let named = |name: &String| format!("{class}.storageclass.storage.k8s.io/{name}");
        let by_class: Amounts = used.iter().map(|(name, amount)| (named(name), *amount)).collect();
        used.extend(by_class);
    }
    used.insert("count/persistentvolumeclaims".into(), Amount::count(1));
    used
}
