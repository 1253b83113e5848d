//! What is kept of exports, of what they export, and of what we made of them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use koinon_api::mcs::{ServiceExport, ServiceImport};
use koinon_api::names::network::{FEDERATED_SERVICE, SERVICE_IMPORT};
use koinon_api::names::{MANAGED_BY, MANAGER};
use koinon_fleet::Record;
use kube::ResourceExt as _;
use serde_json::Value;

use crate::services::address::{is_label_value, is_qualified, shown};
use crate::services::machines::is_between;
use crate::services::model::{Flaw, Port};
use crate::services::records::{Shape, affinity, created, service_ports, shape};

/// So many bytes of annotations go along, all together: an object can have a few more, and says in one which came from exports.
const MOST_ANNOTATIONS: usize = 200 * 1024;
/// The same of labels.
const MOST_LABELS: usize = 32 * 1024;
/// What it takes to name one.
const NAMED: usize = 3;

/// That the Service of its name is exported.
#[derive(Clone, Debug, PartialEq)]
pub struct Export {
    pub uid: String,
    pub version: String,
    pub generation: Option<i64>,
    pub created: Timestamp,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub conditions: Vec<Condition>,
    /// What goes not along with it, and why.
    pub flaws: Vec<Flaw>,
}

impl Record for Export {
    type Object = ServiceExport;

    fn fold(export: &ServiceExport) -> Option<Export> {
        if export.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let spec = export.spec.clone().unwrap_or_default();
        let mut flaws = Vec::new();
        let labels = labels(spec.exported_labels, &mut flaws);
        let annotations = annotations(spec.exported_annotations, &mut flaws);
        Some(Export {
            uid: export.uid().unwrap_or_default(),
            version: export.resource_version().unwrap_or_default(),
            generation: export.metadata.generation,
            created: created(&export.metadata),
            labels,
            annotations,
            conditions: export.status.clone().unwrap_or_default().conditions,
            flaws,
        })
    }
}

/// Those labels that an object can have. One that it cannot would keep the import out of every cluster.
fn labels(all: BTreeMap<String, String>, flaws: &mut Vec<Flaw>) -> BTreeMap<String, String> {
    let (good, bad) = all.into_iter().partition(|(key, value)| is_qualified(key) && is_label_value(value));
    refuse("label", &bad, flaws);
    limited("labels", good, MOST_LABELS, |key, value| key.len() + NAMED + value.len(), flaws)
}

/// The same of annotations, which may be longer, but not all together.
fn annotations(all: BTreeMap<String, String>, flaws: &mut Vec<Flaw>) -> BTreeMap<String, String> {
    let (good, bad): (BTreeMap<_, _>, _) =
        all.into_iter().partition(|(key, _)| is_qualified(&key.to_ascii_lowercase()));
    refuse("annotation", &bad, flaws);
    // Each is there once with its value, and once by its name.
    limited("annotations", good, MOST_ANNOTATIONS, |key, value| 2 * key.len() + NAMED + value.len(), flaws)
}

fn limited(
    what: &str,
    good: BTreeMap<String, String>,
    most: usize,
    size: impl Fn(&str, &str) -> usize,
    flaws: &mut Vec<Flaw>,
) -> BTreeMap<String, String> {
    let size: usize = good.iter().map(|(key, value)| size(key, value)).sum();
    if size > most {
        let message = format!("its {what} take {size} bytes, at most {most} go along: none does");
        flaws.push(Flaw { reason: "MetadataRefused", message });
        return BTreeMap::new();
    }
    good
}

fn refuse(what: &str, bad: &BTreeMap<String, String>, flaws: &mut Vec<Flaw>) {
    let Some((key, value)) = bad.first_key_value() else { return };
    let message = format!(
        "{} of its exported {what}s cannot be and do not go along, such as {}: {}",
        bad.len(),
        shown(key),
        shown(value)
    );
    flaws.push(Flaw { reason: "MetadataRefused", message });
}

/// How a Service is to be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    ClusterSetIp,
    Headless,
    /// Not at all.
    External,
}

/// What a Service offers, whether anybody exports it or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    pub kind: Type,
    pub ports: Vec<Port>,
    pub affinity: Option<i32>,
    pub internal_traffic_policy: Option<String>,
    pub traffic_distribution: Option<String>,
}

impl Record for Offer {
    type Object = Service;

    fn fold(service: &Service) -> Option<Offer> {
        let ours = service.annotations().contains_key(SERVICE_IMPORT)
            || service.annotations().contains_key(FEDERATED_SERVICE);
        if ours || service.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let spec = service.spec.as_ref()?;
        let kind = match (spec.type_.as_deref(), spec.cluster_ip.as_deref()) {
            (Some("ExternalName"), _) if !is_between(service) => Type::External,
            (_, Some("None")) => Type::Headless,
            _ => Type::ClusterSetIp,
        };
        Some(Offer {
            kind,
            ports: service_ports(spec, &mut Vec::new()),
            affinity: affinity(spec),
            internal_traffic_policy: spec.internal_traffic_policy.clone(),
            traffic_distribution: spec.traffic_distribution.clone(),
        })
    }
}

/// A ServiceImport as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Import {
    /// Whether we made it.
    pub ours: bool,
    pub uid: String,
    pub version: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub generation: Option<i64>,
    pub spec: Value,
    pub clusters: Vec<String>,
    pub conditions: Vec<Condition>,
}

impl Record for Import {
    type Object = ServiceImport;

    fn fold(import: &ServiceImport) -> Option<Import> {
        let status = import.status.clone().unwrap_or_default();
        let clusters = status["clusters"].as_array().into_iter().flatten();
        Some(Import {
            ours: import.labels().get(MANAGED_BY).is_some_and(|manager| manager == MANAGER),
            uid: import.uid().unwrap_or_default(),
            version: import.resource_version().unwrap_or_default(),
            labels: import.labels().clone(),
            annotations: import.annotations().clone(),
            generation: import.metadata.generation,
            spec: import.spec.clone(),
            conditions: serde_json::from_value(status["conditions"].clone()).unwrap_or_default(),
            clusters: clusters.filter_map(|one| Some(one["cluster"].as_str()?.to_owned())).collect(),
        })
    }
}

/// The Service behind an import.
#[derive(Clone, Debug, PartialEq)]
pub struct Derived {
    /// The name of the import.
    pub import: String,
    pub uid: String,
    pub version: String,
    pub going: bool,
    pub headless: bool,
    pub shape: Shape,
    pub addresses: Vec<String>,
    pub families: Vec<String>,
}

impl Record for Derived {
    type Object = Service;

    fn fold(service: &Service) -> Option<Derived> {
        let import = service.annotations().get(SERVICE_IMPORT)?.clone();
        let spec = service.spec.clone().unwrap_or_default();
        Some(Derived {
            import,
            uid: service.uid().unwrap_or_default(),
            version: service.resource_version().unwrap_or_default(),
            going: service.metadata.deletion_timestamp.is_some(),
            headless: spec.cluster_ip.as_deref() == Some("None"),
            shape: shape(service, &spec),
            addresses: spec.cluster_ips.clone().unwrap_or_default(),
            families: spec.ip_families.clone().unwrap_or_default(),
        })
    }
}
