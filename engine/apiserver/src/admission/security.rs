//! PodSecurity: how far a pod may reach beyond itself, by the standard that its namespace asks for.

mod labels;
mod warn;

use koinon_podsecurity::{ENFORCE, ENFORCE_VERSION, detailed, violations};
use serde_json::Value;

use super::{Attributes, Lookup, Operation};
use crate::kinds::walk::{get, text};
use crate::status::Result;

pub(crate) use labels::check_labels;
pub(crate) use warn::warnings;

pub(super) fn check_pod(request: &Attributes<'_>, pod: &Value, lookup: &dyn Lookup) -> Result<()> {
    let ephemeral = request.is("", "pods")
        && request.subresource == "ephemeralcontainers"
        && request.operation == Operation::Update;
    if !request.creates("", "pods") && !ephemeral {
        return Ok(());
    }
    let Some(namespace) = lookup.get("", "namespaces", "", request.namespace) else { return Ok(()) };
    let labels = get(&namespace, &["metadata", "labels"]);
    let level = text(labels, ENFORCE);
    let version =
        Some(text(labels, ENFORCE_VERSION)).filter(|version| !version.is_empty()).unwrap_or("latest");
    let found = violations(level, get(pod, &["spec"]));
    if found.is_empty() {
        return Ok(());
    }
    let policy = format!("{level}:{version}");
    Err(request.forbidden(pod, &format!("violates PodSecurity {policy:?}: {}", detailed(found))))
}
