//! What the oldest export decides for all: everything that exports may differ in but for their ports.

use std::collections::BTreeMap;

use koinon_api::names::network::EXPORTED;
use koinon_api::names::{MANAGED_BY, MANAGER};
use serde_json::{Value, json};

use super::plan::{Exporter, Input};
use super::record::{Derived, Import, Offer, Type};
use super::written::Written;
use crate::services::ports::Decided;
use crate::services::render;

/// What an import is like.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lead {
    pub(super) headless: bool,
    pub(super) affinity: Option<i32>,
    internal_traffic_policy: Option<String>,
    pub(super) traffic_distribution: Option<String>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl Lead {
    pub(super) fn of(oldest: &Exporter, offer: &Offer) -> Lead {
        Lead {
            headless: offer.kind == Type::Headless,
            affinity: offer.affinity,
            internal_traffic_policy: offer.internal_traffic_policy.clone(),
            traffic_distribution: offer.traffic_distribution.clone(),
            labels: without(&oldest.export.labels, MANAGED_BY),
            annotations: without(&oldest.export.annotations, EXPORTED),
        }
    }

    /// The same, but with all that was decided before, as far as that is there.
    pub(super) fn kept(mut self, input: &Input) -> Lead {
        if let Some(derived) = input.derived.as_deref() {
            self.headless = derived.headless;
            self.affinity = derived.shape.affinity;
            self.traffic_distribution = derived.shape.traffic_distribution.clone();
        }
        match (input.import.as_deref(), input.derived.as_deref()) {
            (Some(import), None) => Lead::read(import),
            // Whether it has an address the Service behind it says: it is made first.
            (Some(import), Some(_)) => Lead { headless: self.headless, ..Lead::read(import) },
            (None, _) => self,
        }
    }

    fn read(import: &Import) -> Lead {
        let text = |field: &str| import.spec[field].as_str().map(str::to_owned);
        // What others wrote on it is not for us to decide.
        let [labels, annotations] = Written::read(import).found(import);
        let seconds = import.spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].as_i64();
        Lead {
            headless: text("type").as_deref() == Some("Headless"),
            affinity: seconds.and_then(|seconds| i32::try_from(seconds).ok()),
            internal_traffic_policy: text("internalTrafficPolicy"),
            traffic_distribution: text("trafficDistribution"),
            labels,
            annotations,
        }
    }

    /// The import, with all that members have in common, and the Service behind it.
    pub(super) fn content(&self, decided: &Decided, derived: Option<&Derived>) -> Value {
        let ports: Vec<Value> = decided.ports.iter().map(render::service_port).collect();
        let mut spec = json!({
            "type": if self.headless { "Headless" } else { "ClusterSetIP" },
            "ports": ports,
            "sessionAffinity": if self.affinity.is_some() { "ClientIP" } else { "None" },
        });
        if let Some(seconds) = self.affinity {
            spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": seconds}});
        }
        if let Some(policy) = &self.internal_traffic_policy {
            spec["internalTrafficPolicy"] = json!(policy);
        }
        if let Some(distribution) = &self.traffic_distribution {
            spec["trafficDistribution"] = json!(distribution);
        }
        if let Some(derived) = derived {
            spec["ipFamilies"] = json!(derived.families);
            if !derived.headless {
                spec["ips"] = json!(derived.addresses);
            }
        }
        let (mut labels, mut annotations) = (json!(self.labels), json!(self.annotations));
        labels[MANAGED_BY] = json!(MANAGER);
        if let Some(said) = Written::of(&self.labels, &self.annotations).said() {
            annotations[EXPORTED] = json!(said);
        }
        json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": spec})
    }
}

/// Those that an export can have a say in.
fn without(all: &BTreeMap<String, String>, ours: &str) -> BTreeMap<String, String> {
    all.iter().filter(|(key, _)| *key != ours).map(|(key, value)| (key.clone(), value.clone())).collect()
}
