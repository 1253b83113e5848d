//! What webhooks and policies are told of a request.

use serde_json::{Map, Value, json};

use super::Attributes;
use super::matching::Seen;
use crate::kinds::convert::convert;
use crate::kinds::walk::{is_empty, text};

/// The request of an AdmissionReview, without its UID and objects.
pub(super) fn request(attributes: &Attributes<'_>, seen: &Seen, name: &str) -> Value {
    let kind =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let resource = |group: &str, version: &str, name: &str| json!({"group": group, "version": version, "resource": name});
    let Attributes { group, version, .. } = *attributes;
    let user = attributes.user.as_object().into_iter().flatten().filter(|(_, value)| !is_empty(value));
    let user: Map<String, Value> = user.map(|(key, value)| (key.clone(), value.clone())).collect();
    // What is written below an object may be of a kind of its own.
    let own = match attributes.subresource {
        "scale" => Some(kind("autoscaling", "v1", "Scale")),
        "eviction" => Some(kind("policy", "v1", "Eviction")),
        "binding" => Some(kind("", "v1", "Binding")),
        "token" => Some(kind("authentication.k8s.io", "v1", "TokenRequest")),
        _ => None,
    };
    let mut body = json!({
        "kind": own.clone().unwrap_or_else(|| kind(&seen.group, &seen.version, &seen.kind)),
        "resource": resource(&seen.group, &seen.version, &seen.resource),
        "requestKind": own.unwrap_or_else(|| kind(group, version, attributes.kind)),
        "requestResource": resource(group, version, attributes.resource),
        "operation": attributes.operation.as_str(),
        "userInfo": user,
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    });
    let optional = [
        ("name", name),
        ("namespace", attributes.namespace),
        ("subResource", attributes.subresource),
        ("requestSubResource", attributes.subresource),
    ];
    for (key, value) in optional.into_iter().filter(|(_, value)| !value.is_empty()) {
        body[key] = value.into();
    }
    body
}

/// An object in the version that is seen.
pub(super) fn shown(object: &Value, seen: &Seen) -> Value {
    let version = text(object, "apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    convert(group, version, text(object, "kind"), object.clone(), &seen.group, &seen.version)
}
