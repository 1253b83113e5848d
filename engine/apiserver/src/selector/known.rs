//! The fields that each kind can be selected by.

use serde_json::Value;

use super::Error;
use crate::jsonpath::{self, Path};

const POD: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    // Accepted, and always empty.
    "status.podIPs",
    "status.nominatedNodeName",
];
const EVENT: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];
const NEW_EVENT: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

/// The fields of a kind that offers more than its name and namespace.
fn offered(group: &str, kind: &str) -> Option<&'static [&'static str]> {
    Some(match (group, kind) {
        ("", "Pod") => POD,
        ("", "Event") => EVENT,
        ("events.k8s.io", "Event") => NEW_EVENT,
        ("", "Node") => &["metadata.name", "spec.unschedulable"],
        ("", "ReplicationController") => &["metadata.name", "metadata.namespace", "status.replicas"],
        ("", "Namespace") => &["metadata.name", "status.phase"],
        ("", "Secret") => &["metadata.name", "metadata.namespace", "type"],
        ("", "Service") => &["metadata.name", "metadata.namespace", "spec.clusterIP", "spec.type"],
        ("batch", "Job") => &["metadata.name", "metadata.namespace", "status.successful"],
        ("certificates.k8s.io", "CertificateSigningRequest") => &["metadata.name", "spec.signerName"],
        ("resource.k8s.io", "ResourceSlice") => &["metadata.name", "spec.nodeName", "spec.driver"],
        _ => return None,
    })
}

/// The field of a built-in kind that a selector's label means, for [`field_values`]; or the
/// complaint of the real server about a label that the kind does not offer.
pub fn field_label(group: &str, version: &str, kind: &str, label: &str) -> Result<String, Error> {
    let known = offered(group, kind);
    if known.unwrap_or(&["metadata.name", "metadata.namespace"]).contains(&label) {
        return Ok(label.to_owned());
    }
    Err(Error(match (group, kind) {
        // What clients sent before spec.nodeName had its name.
        ("", "Pod") if label == "spec.host" => return Ok("spec.nodeName".to_owned()),
        ("batch", "Job") => format!("field label {label:?} not supported for Job"),
        ("resource.k8s.io", "ResourceSlice") => {
            format!("field label not supported for {group}/{version}, Kind={kind}: {label}")
        }
        _ if known.is_some() => format!("field label not supported: {label}"),
        _ => {
            format!("{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        }
    }))
}

/// The value of a selectable field; `None` for a field that the kind does not offer.
pub fn field_values(group: &str, kind: &str, object: &Value, field: &str) -> Option<String> {
    let text = |path: &str| jsonpath::get(object, path).and_then(Value::as_str).map(str::to_owned);
    let flag = |path: &str| jsonpath::get(object, path).and_then(Value::as_bool).unwrap_or(false).to_string();
    let count = |path: &str| jsonpath::get(object, path).and_then(Value::as_i64).unwrap_or(0).to_string();
    if !offered(group, kind).unwrap_or(&["metadata.name", "metadata.namespace"]).contains(&field) {
        return None;
    }
    let value = match (group, kind, field) {
        ("", "Pod", "status.podIPs") => None,
        ("", "Pod", "status.podIP") => {
            object["status"]["podIPs"][0]["ip"].as_str().map(str::to_owned).or_else(|| text(field))
        }
        ("", "Pod", "spec.hostNetwork") | ("", "Node", "spec.unschedulable") => Some(flag(field)),
        ("", "ReplicationController", "status.replicas") => Some(count(field)),
        ("batch", "Job", "status.successful") => Some(count("status.succeeded")),
        ("", "Event", "source") => text("source.component")
            .filter(|source| !source.is_empty())
            .or_else(|| text("reportingComponent")),
        _ => text(field),
    };
    Some(value.unwrap_or_default())
}

/// Where [`field_values`] looks for a field.
pub fn field_paths(group: &str, kind: &str, field: &str) -> Vec<Vec<String>> {
    let places: &[&str] = match (group, kind, field) {
        ("", "Pod", "status.podIP") => &["status.podIPs", "status.podIP"],
        ("batch", "Job", "status.successful") => &["status.succeeded"],
        ("", "Event", "source") => &["source.component", "reportingComponent"],
        _ => &[field],
    };
    places.iter().map(|place| place.split('.').map(str::to_owned).collect()).collect()
}

/// The fields that one version of a CRD lets its objects be selected by.
#[derive(Debug, Clone, Default)]
pub struct CustomFields {
    namespaced: bool,
    fields: Vec<(String, Path)>,
}

impl CustomFields {
    /// From `selectableFields` of a version; a path that does not parse is left out, as validation
    /// of the CRD has refused it before.
    pub fn new(selectable: &Value, namespaced: bool) -> Self {
        let paths = selectable.as_array().into_iter().flatten().filter_map(|one| one["jsonPath"].as_str());
        let fields = paths.filter_map(|path| {
            let name = path.strip_prefix('.').unwrap_or(path);
            Some((name.to_owned(), Path::parse(path).ok()?))
        });
        CustomFields { namespaced, fields: fields.collect() }
    }

    /// The field that a selector's label means, or the real server's complaint.
    pub fn label(&self, label: &str) -> Result<String, Error> {
        let meta = label == "metadata.name" || self.namespaced && label == "metadata.namespace";
        if meta || self.fields.iter().any(|(name, _)| name == label) {
            return Ok(label.to_owned());
        }
        Err(Error(format!("field label not supported: {label}")))
    }

    /// The value of a selectable field, empty where the object has none.
    pub fn value(&self, object: &Value, field: &str) -> Option<String> {
        if let Some(name) =
            field.strip_prefix("metadata.").filter(|name| ["name", "namespace"].contains(name))
        {
            return object["metadata"][name].as_str().map(str::to_owned);
        }
        let (_, path) = self.fields.iter().find(|(name, _)| name == field)?;
        let found = path.first(object).filter(|found| !found.is_null());
        Some(found.map(jsonpath::print).unwrap_or_default())
    }
}
