//! What a client is told about a write that is taken although something about it is odd: one sentence
//! per `Warning` header.
//!
//! Warnings are given once a write is known to be valid, so values here have the form that their fields
//! ask for. What the real server finds by walking a Go map comes in no order there; here it is sorted.

mod addresses;
mod deprecation;
mod network;
mod nodes;
mod owners;
mod pods;
mod storage;
mod tls;
mod virtual_paths;
mod workloads;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt::Display;

use serde_json::Value;

use super::quantity::Quantity;
use super::walk::{At, text};
use crate::field::Path;
use crate::{crd, names};

pub use deprecation::{custom_deprecation, deprecation};
pub use owners::{Seen, deduplicate_owners};

/// Warnings about a new object of a built-in kind, or about an update of `old`.
pub fn warnings(group: &str, kind: &str, new: &Value, old: Option<&Value>) -> Vec<String> {
    match (group, kind) {
        ("", "Pod") if old.is_none() => pods::pod(new),
        ("", "Endpoints") => network::endpoints(new),
        ("", "Node") => nodes::node(new),
        ("", "PersistentVolume") => storage::volume(new),
        ("", "PersistentVolumeClaim") => storage::claim(new),
        ("", "PodTemplate") => workloads::pod_template(new, old),
        ("", "ReplicationController") => workloads::replication_controller(new, old),
        ("", "ResourceQuota") if old.is_none() => quota(new),
        ("", "Secret") => secret(new),
        ("", "Service") => network::service(new),
        ("", "ServiceAccount") => service_account(new, old),
        ("apps", "DaemonSet") => workloads::daemon_set(new, old),
        ("apps", "Deployment" | "ReplicaSet") => workloads::replicated(new, old),
        ("apps", "StatefulSet") => workloads::stateful_set(new, old),
        ("batch", "CronJob") => workloads::cron_job(new, old),
        ("batch", "Job") => workloads::job(new, old),
        ("networking.k8s.io", "Ingress") if old.is_none() => network::ingress(new),
        ("networking.k8s.io", "NetworkPolicy") => network::policy(new),
        ("discovery.k8s.io", "EndpointSlice") => network::endpoint_slice(new, old),
        ("node.k8s.io", "RuntimeClass") => nodes::runtime_class(new),
        ("storage.k8s.io", "StorageClass") => storage::class(new),
        ("storage.k8s.io", "CSIStorageCapacity") => storage::capacity(new),
        ("storage.k8s.io", "CSIDriver") => storage::driver(new, old),
        ("resource.k8s.io", "ResourceSlice") => resource_slice(new),
        ("admissionregistration.k8s.io", _) => static_name(new),
        ("apiextensions.k8s.io", _) => crd::warnings(new, old),
        _ => Vec::new(),
    }
}

/// Warnings about a write to the status of an object of a built-in kind.
pub fn status_warnings(group: &str, kind: &str, new: &Value) -> Vec<String> {
    match (group, kind) {
        ("", "Pod") => network::pod_status(new),
        ("", "Service") | ("networking.k8s.io", "Ingress") => network::load_balancer_status(new),
        _ => Vec::new(),
    }
}

/// Warnings about a new object, before the server fills in what it derives from annotations. These are
/// given even if the object turns out to be invalid.
pub fn early_warnings(group: &str, kind: &str, new: &Value) -> Vec<String> {
    match (group, kind) {
        ("", "Pod") => pods::app_armor_of_pod(new),
        _ => Vec::new(),
    }
}

/// Warnings about the finalizers that a write adds to a custom resource; built-in kinds refuse them.
pub fn custom_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    const OWN: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];
    let finalizers = |object: &Value| -> BTreeSet<String> {
        let list = At::top(object, "metadata").child("finalizers");
        list.items().map(|one| one.str().to_owned()).collect()
    };
    let known = old.map(finalizers).unwrap_or_default();
    let added = finalizers(new).into_iter().filter(|one| !known.contains(one));
    let mut warnings = Vec::new();
    for name in added {
        let mut say = |why: &str| warnings.push(format!("metadata.finalizers: {name:?}: {why}"));
        names::qualified_name(&name).iter().for_each(|why| say(why));
        if name.contains('/') || OWN.contains(&name.as_str()) {
            continue;
        }
        let how = if name.contains('.') { " including a path (/)" } else { "" };
        say(&format!(
            "prefer a domain-qualified finalizer name{how} to avoid accidental conflicts with other finalizer writers"
        ));
    }
    warnings
}

/// A warning about what is at a place.
fn at(place: &Path, what: impl Display) -> String {
    format!("{place}: {what}")
}

/// Annotations are there or not, whatever they say.
fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("labels")?.get(key)?.as_str()
}

/// A warning if an amount of bytes is not whole.
fn fraction(amounts: &At<'_>, resource: &str) -> Option<String> {
    let amount = Quantity::of(amounts.value.get(resource)?);
    // The most there can be is whole; in thousandths it would not fit.
    let odd = amount.milli_value() % 1000 != 0 && amount.value() != i64::MAX;
    let text = amount.to_string();
    odd.then(|| {
        at(
            &amounts.path.key(resource),
            format_args!("fractional byte value {text:?} is invalid, must be an integer"),
        )
    })
}

fn quota(quota: &Value) -> Vec<String> {
    let hard = At::top(quota, "spec").child("hard");
    let mut warnings = Vec::new();
    for resource in ["cpu", "memory", "storage", "ephemeral-storage"] {
        let (mut request, limit) = (format!("requests.{resource}"), format!("limits.{resource}"));
        if !hard.has(&request) && ["cpu", "memory"].contains(&resource) {
            request = resource.to_owned();
        }
        let (Some(least), Some(most)) = (hard.value.get(&request), hard.value.get(&limit)) else { continue };
        let (least, most) = (Quantity::of(least), Quantity::of(most));
        if least > most {
            warnings.push(format!("ResourceQuota {request} ({least}) should be less than {limit} ({most})"));
        }
    }
    warnings
}

fn secret(secret: &Value) -> Vec<String> {
    if text(secret, "type") != "kubernetes.io/tls" {
        return Vec::new();
    }
    let data = At::top(secret, "data");
    tls::check_pair(data.text("tls.crt"), data.text("tls.key")).err().into_iter().collect()
}

fn service_account(new: &Value, old: Option<&Value>) -> Vec<String> {
    const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";
    let has = |account: &Value| annotation(account, ENFORCE).is_some();
    if !has(new) || old.is_some_and(has) {
        return Vec::new();
    }
    vec![format!(
        "metadata.annotations[{ENFORCE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
    )]
}

fn resource_slice(slice: &Value) -> Vec<String> {
    let driver = text(&slice["spec"], "driver");
    if driver == driver.to_lowercase() {
        return Vec::new();
    }
    vec![format!("spec.driver: driver names should be lowercase; {driver:?} contains uppercase characters")]
}

/// Names of webhooks and policies that files of a server may one day claim.
fn static_name(object: &Value) -> Vec<String> {
    const SUFFIX: &str = ".static.k8s.io";
    if !text(&object["metadata"], "name").ends_with(SUFFIX) {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: names ending with {SUFFIX:?} are reserved for static manifest-based configurations and cannot be managed via the API"
    )]
}
