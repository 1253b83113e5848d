//! Parts of an object that are written by themselves: what such a write may touch.

use serde_json::Value;

use super::object::metadata;
use crate::catalog::Resource;
use crate::kinds::pods::parts::{with_ephemeral_containers, with_resources};
use crate::kinds::walk::{map_mut, object_mut};

/// What of an object a request writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    Status,
    /// A namespace's `spec.finalizers`.
    Finalize,
    /// The approval conditions of a certificate signing request.
    Approval,
    /// The containers by which somebody looks into a pod.
    EphemeralContainers,
    /// The resources of a pod and of its containers.
    Resize,
    /// The number of replicas, wherever the kind keeps it.
    Scale,
    /// A pod's node.
    Binding,
    /// Nothing of the pod itself: it is asked to go.
    Eviction,
    /// Nothing of the service account itself.
    Token,
}

impl Part {
    pub(crate) fn of(subresource: &str) -> Option<Part> {
        Some(match subresource {
            "" => Part::Whole,
            "status" => Part::Status,
            "finalize" => Part::Finalize,
            "approval" => Part::Approval,
            "ephemeralcontainers" => Part::EphemeralContainers,
            "resize" => Part::Resize,
            _ => return None,
        })
    }

    /// How managed fields call it.
    pub(crate) fn subresource(self) -> &'static str {
        match self {
            Part::Whole => "",
            Part::Status => "status",
            Part::Finalize => "finalize",
            Part::Approval => "approval",
            Part::EphemeralContainers => "ephemeralcontainers",
            Part::Resize => "resize",
            Part::Scale => "scale",
            Part::Binding => "binding",
            Part::Eviction => "eviction",
            Part::Token => "token",
        }
    }

    /// Whether a write goes through all that a write of the whole object goes through.
    pub(crate) fn is_whole(self) -> bool {
        matches!(self, Part::Whole | Part::Scale)
    }

    /// Whether a write of it changes what is wanted.
    pub(crate) fn has_generation(self) -> bool {
        self.is_whole() || matches!(self, Part::EphemeralContainers | Part::Resize)
    }
}

/// Puts back all that a write of `part` may not touch.
pub(crate) fn keep_the_rest(part: Part, resource: &Resource, new: &mut Value, current: &Value) {
    match part {
        // The new object was made from the current one: there is nothing to put back.
        Part::Whole | Part::Scale | Part::Binding | Part::Eviction | Part::Token => {}
        Part::Status => keep_all_but(new, current, &["status"], status_metadata(resource)),
        Part::Approval => {
            let conditions = new["status"].get("conditions").cloned();
            keep_all_but(new, current, &[], Metadata::Writable);
            let status = object_mut(new, "status");
            match conditions {
                Some(conditions) => map_mut(status).insert("conditions".into(), conditions),
                None => map_mut(status).remove("conditions"),
            };
        }
        Part::EphemeralContainers => {
            let kept = with_ephemeral_containers(new, current);
            keep_all_but(new, &kept, &[], Metadata::Fixed);
        }
        Part::Resize => {
            if let Some(kept) = with_resources(new, current) {
                keep_all_but(new, &kept, &[], Metadata::Fixed);
            }
        }
        Part::Finalize => {
            let finalizers = new["spec"].get("finalizers").cloned();
            keep_all_but(new, current, &[], Metadata::Writable);
            if let Some(spec) = new["spec"].as_object_mut() {
                match finalizers {
                    Some(finalizers) => spec.insert("finalizers".into(), finalizers),
                    None => spec.remove("finalizers"),
                };
            }
        }
    }
}

/// What a status writer may change of the metadata.
#[derive(PartialEq)]
enum Metadata {
    /// All that ordinary writers may.
    Writable,
    /// All but labels.
    NoLabels,
    /// Nothing but managed fields.
    Fixed,
}

/// Kinds differ here for historical reasons; clients rely on each.
fn status_metadata(resource: &Resource) -> Metadata {
    if resource.custom.is_some() {
        return Metadata::Fixed;
    }
    match (&*resource.group, &*resource.kind) {
        ("apps", "Deployment") => Metadata::NoLabels,
        (
            "apiextensions.k8s.io"
            | "apiregistration.k8s.io"
            | "flowcontrol.apiserver.k8s.io"
            | "resource.k8s.io"
            | "storage.k8s.io",
            _,
        )
        | ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy")
        | ("networking.k8s.io", "ServiceCIDR") => Metadata::Fixed,
        _ => Metadata::Writable,
    }
}

fn keep_all_but(new: &mut Value, current: &Value, writable: &[&str], rule: Metadata) {
    let mut kept = current.clone();
    for key in writable {
        match new.get_mut(*key) {
            Some(value) => kept[*key] = value.take(),
            None => {
                kept.as_object_mut().map(|kept| kept.remove(*key));
            }
        }
    }
    let mut given = new["metadata"].take();
    if rule == Metadata::Fixed {
        // The field manager still needs what the client says of managed fields and of its revision.
        let managed = given.get_mut("managedFields").map(Value::take);
        let revision = given.get_mut("resourceVersion").map(Value::take);
        given = current["metadata"].clone();
        for (key, value) in [("managedFields", managed), ("resourceVersion", revision)] {
            if let (Some(value), Some(given)) = (value, given.as_object_mut()) {
                given.insert(key.into(), value);
            }
        }
    }
    kept["metadata"] = given;
    if rule == Metadata::NoLabels {
        let labels = current["metadata"].get("labels").cloned();
        let metadata = metadata(&mut kept);
        match labels {
            Some(labels) => metadata.insert("labels".into(), labels),
            None => metadata.remove("labels"),
        };
    }
    *new = kept;
}
