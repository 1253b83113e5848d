//! What is read from objects and carried between clusters, in plain values.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt as _;
use kube::core::{ApiResource, DynamicObject};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::names::{self, condition, reason};

/// What is known of something that has to be asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Observed<T> {
    /// Asked for the first time; the answer, or that there is none, will come soon.
    Pending,
    /// There was no answer. What it was before does not count: it may be anything by now.
    Lost(String),
    Seen(T),
}

/// One line of an AMKOCluster's status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub stage: String,
    pub status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

impl Condition {
    pub fn new(stage: &str, status: &str, reason: impl Into<String>) -> Condition {
        Condition { stage: stage.into(), status: status.into(), reason: reason.into() }
    }
}

/// An AMKOCluster, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AmkoCluster {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub version: String,
    pub resource_version: String,
    pub is_leader: bool,
    pub context: String,
    pub clusters: Vec<String>,
    pub objects: Vec<Further>,
    pub conditions: Vec<Condition>,
}

/// A further kind that a user wants to be federated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Further {
    pub api_version: String,
    pub kind: String,
    #[serde(default)]
    pub namespace: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    is_leader: bool,
    cluster_context: String,
    version: String,
    clusters: Vec<String>,
    objects: Vec<Further>,
}

impl AmkoCluster {
    /// Reads an object. What cannot be read (a definition may be laxer than ours) counts as not set, as an
    /// empty field does: the checks then name it.
    pub fn read(object: &DynamicObject) -> AmkoCluster {
        let spec: Spec = object.data.get("spec").and_then(lenient).unwrap_or_default();
        let conditions = object.data.pointer("/status/conditions").and_then(lenient).unwrap_or_default();
        AmkoCluster {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            version: spec.version,
            resource_version: object.resource_version().unwrap_or_default(),
            is_leader: spec.is_leader,
            context: spec.cluster_context,
            clusters: spec.clusters,
            objects: spec.objects,
            conditions,
        }
    }

    /// What this object's status says of a stage.
    pub fn condition(&self, stage: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.stage == stage)
    }

    /// The clusters to federate to: each once, without this one.
    pub fn members(&self) -> Vec<String> {
        let mut members: Vec<String> = Vec::new();
        for cluster in &self.clusters {
            if *cluster != self.context && !members.contains(cluster) {
                members.push(cluster.clone());
            }
        }
        members
    }
}

fn lenient<T: for<'a> Deserialize<'a>>(value: &Value) -> Option<T> {
    serde_json::from_value(value.clone()).ok()
}

/// A kind of object that is federated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    /// Where its objects are; everywhere if there is none.
    pub namespace: Option<String>,
    /// The type of its condition.
    pub stage: String,
    /// Said when there are several and only one is allowed.
    pub only_one: Option<&'static str>,
}

impl Kind {
    pub fn gslb_config() -> Kind {
        Kind {
            group: names::GROUP.into(),
            version: "v1alpha1".into(),
            kind: "GSLBConfig".into(),
            plural: "gslbconfigs".into(),
            namespace: Some(names::NAMESPACE.into()),
            stage: condition::GSLB_CONFIG.into(),
            only_one: Some(reason::SEVERAL_CONFIGS),
        }
    }

    pub fn policy() -> Kind {
        Kind {
            group: names::GROUP.into(),
            version: "v1alpha2".into(),
            kind: "GlobalDeploymentPolicy".into(),
            plural: "globaldeploymentpolicies".into(),
            namespace: Some(names::NAMESPACE.into()),
            stage: condition::POLICY.into(),
            only_one: Some(reason::SEVERAL_POLICIES),
        }
    }

    /// What every federation carries.
    pub fn always() -> [Kind; 2] {
        [Kind::gslb_config(), Kind::policy()]
    }

    pub fn resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.clone(),
            version: self.version.clone(),
            api_version: format!("{}/{}", self.group, self.version),
            kind: self.kind.clone(),
            plural: self.plural.clone(),
        }
    }
}

/// What a follower's object shares with the leader's. Everything else (finalizers, owners, other annotations,
/// status) belongs to the cluster that it is in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Carried {
    pub spec: Value,
    pub labels: BTreeMap<String, String>,
    pub uuid: Option<String>,
}

impl Carried {
    pub fn of(object: &DynamicObject) -> Carried {
        Carried {
            spec: object.data.get("spec").cloned().unwrap_or_default(),
            labels: object.labels().clone(),
            uuid: object.annotations().get(names::UUID_ANNOTATION).cloned(),
        }
    }

    /// Whether a follower's object is as this asks. A leader that has no id yet takes none away: services
    /// would lose their owner.
    pub fn is_in(&self, copy: &DynamicObject) -> bool {
        let spec = copy.data.get("spec").unwrap_or(&Value::Null);
        let uuid = copy.annotations().get(names::UUID_ANNOTATION);
        self.spec == *spec
            && self.labels == *copy.labels()
            && (self.uuid.is_none() || self.uuid.as_ref() == uuid)
    }

    /// Puts it into an object, leaving everything else as it is.
    pub fn put_into(&self, object: &mut DynamicObject) {
        if self.spec.is_null() {
            if let Some(data) = object.data.as_object_mut() {
                data.remove("spec");
            }
        } else {
            object.data["spec"] = self.spec.clone();
        }
        object.metadata.labels = (!self.labels.is_empty()).then(|| self.labels.clone());
        if let Some(uuid) = &self.uuid {
            object.annotations_mut().insert(names::UUID_ANNOTATION.into(), uuid.clone());
        }
    }
}

/// Objects of one kind in one cluster.
pub type Objects = Vec<Arc<DynamicObject>>;
