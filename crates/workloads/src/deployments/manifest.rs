//! What a member's Deployment says: all that the federated one does, with the template, the pause and the part of the budget
//! that are its own.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use koinon_api::names::workloads;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::budget::Part;
use crate::content;
use crate::rollout::Step;

/// The member's object without its count; without a template, where that is the member's own. A template has a name.
pub(super) fn manifest(
    deployment: &Deployment,
    spec: &DeploymentSpec,
    step: &Step,
    template: Option<(&str, Value)>,
    part: Option<Part>,
) -> Value {
    let mut annotations = content::annotations(deployment.metadata.annotations.as_ref());
    if let Some((name, _)) = &template {
        annotations.insert(workloads::TEMPLATE.to_owned(), (*name).to_owned());
    }
    let mut spec = serde_json::to_value(spec).unwrap_or_default();
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("replicas");
        spec.remove("template");
        // A member whose part is nothing waits: Kubernetes takes no budget of nothing.
        let waits = part.is_some_and(|part| part == Part::default());
        spec.remove("paused");
        if step.paused || waits {
            spec.insert("paused".into(), true.into());
        }
        spec.extend(template.map(|(_, template)| ("template".to_owned(), template)));
        if let Some(rolling) = spec.get_mut("strategy").and_then(|one| one.get_mut("rollingUpdate")) {
            budget(rolling, step, part.filter(|_| !waits));
        }
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": deployment.name_any(),
            "namespace": deployment.namespace(),
            "labels": content::labels(deployment.metadata.labels.as_ref()),
            "annotations": annotations,
        },
        "spec": spec,
    })
}

fn budget(rolling: &mut Value, step: &Step, part: Option<Part>) {
    if let Some(part) = part {
        rolling["maxUnavailable"] = part.unavailable.into();
        rolling["maxSurge"] = part.surge.into();
    }
    // Replicas that only wait for room are missing in any case; a full cluster has no room for one more to come first.
    if let Some(most) = step.max_unavailable {
        let part = part.map_or(most, |part| most.min(part.unavailable.max(1) + step.waiting));
        rolling["maxUnavailable"] = part.into();
    }
}
