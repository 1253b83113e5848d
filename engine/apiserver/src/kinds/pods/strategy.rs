//! Pods as objects of their own: what is set when they are created, what may change, and how they are
//! bound to a node.

use serde_json::{Value, json};

use super::{default_pod, quality_of_service, spec, update};
use crate::field::{self, Error, Path};
use crate::kinds::walk::{
    copy, find_mut, get, is_empty, items_mut, list, map_mut, object_mut, remove, set_absent, set_zero, text,
};
use crate::kinds::{Generation, Strategy, meta};
use crate::status;

pub(crate) const POD: Strategy = Strategy {
    default: default_pod,
    prepare_create,
    validate: |pod| [meta::validate_builtin(pod), spec::validate_new_pod(pod)].concat(),
    validate_update: update::validate_update,
    validate_status: update::validate_status,
    status: true,
    generation: Generation::Spec,
    ..Strategy::PLAIN
};

fn prepare_create(pod: &mut Value) {
    let class = quality_of_service(&pod["spec"]);
    let gated = !is_empty(&pod["spec"]["schedulingGates"]);
    let mut status = json!({"phase": "Pending", "qosClass": class});
    let created = get(pod, &["metadata", "creationTimestamp"]).clone();
    if gated {
        status["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": null,
            "lastTransitionTime": created,
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    map_mut(pod).insert("status".into(), status);
    merge_label_keys(pod);
}

/// Selectors that take values from the pod's own labels get them now.
fn merge_label_keys(pod: &mut Value) {
    let labels = get(pod, &["metadata", "labels"]).clone();
    let spec = object_mut(pod, "spec");
    let merge = |term: &mut Value, kinds: &[(&str, &str)]| {
        let mut added = Vec::new();
        for (keys, operator) in kinds {
            for key in list(&term[*keys]).iter().filter_map(Value::as_str) {
                if let Some(value) = labels.get(key) {
                    added.push(json!({"key": key, "operator": operator, "values": [value]}));
                }
            }
        }
        if let Some(selector) = find_mut(term, "labelSelector").filter(|_| !added.is_empty()) {
            let mut all = list(&selector["matchExpressions"]).to_vec();
            all.extend(added);
            map_mut(selector).insert("matchExpressions".into(), all.into());
        }
    };
    let both = [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")];
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = find_mut(spec, "affinity").and_then(|affinity| find_mut(affinity, kind)) else {
            continue;
        };
        for term in items_mut(affinity, "preferredDuringSchedulingIgnoredDuringExecution") {
            if let Some(term) = find_mut(term, "podAffinityTerm") {
                merge(term, &both);
            }
        }
        for term in items_mut(affinity, "requiredDuringSchedulingIgnoredDuringExecution") {
            merge(term, &both);
        }
    }
    for constraint in items_mut(spec, "topologySpreadConstraints") {
        merge(constraint, &both[..1]);
    }
}

/// What a write to a pod's status may not change, beyond the spec.
pub fn prepare_pod_status(new: &mut Value, old: &Value) {
    copy(new, old, "spec");
    let meta = object_mut(new, "metadata");
    copy(meta, &old["metadata"], "ownerReferences");
    copy(meta, &old["metadata"], "deletionTimestamp");
    let (status, old_status) = (object_mut(new, "status"), &old["status"]);
    for name in ["qosClass", "observedGeneration"] {
        if let Some(value) = old_status.get(name) {
            set_zero(status, name, value.clone());
        }
    }
    let mut old_conditions = list(&old_status["conditions"]).to_vec();
    for condition in items_mut(status, "conditions") {
        let kind = text(condition, "type").to_owned();
        let Some(at) = old_conditions.iter().position(|old| text(old, "type") == kind) else { continue };
        let generation = old_conditions.remove(at)["observedGeneration"].clone();
        if !generation.is_null() {
            set_zero(condition, "observedGeneration", generation);
        }
    }
}

/// What is wrong with a Binding of a pod to a node.
pub fn validate_binding(binding: &Value) -> Vec<field::Error> {
    let target = Path::new("target");
    let mut faults = Vec::new();
    let kind = text(&binding["target"], "kind");
    if !["", "Node"].contains(&kind) {
        faults.push(Error::not_supported(&target.child("kind"), kind, &["Node", "<empty>"]));
    }
    if text(&binding["target"], "name").is_empty() {
        faults.push(Error::required(&target.child("name"), ""));
    }
    faults
}

/// Binds a pod to the node that a Binding names; `now` is the time of the change.
pub fn bind_pod(pod: &mut Value, binding: &Value, now: &str) -> Result<(), status::Error> {
    let resource = status::GroupResource::new("", "pods/binding");
    let name = text(&pod["metadata"], "name").to_owned();
    let conflict = |why: &str| Err(status::Error::conflict(&resource, &name, why));
    let (uid, version) = (text(&binding["metadata"], "uid"), text(&binding["metadata"], "resourceVersion"));
    let own = |field: &str| text(&pod["metadata"], field);
    let stale = |why: &str| Err(status::Error::conflict(&status::GroupResource::new("", "pods"), &name, why));
    if !uid.is_empty() && uid != own("uid") {
        return stale(&format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            own("uid")
        ));
    }
    if !version.is_empty() && version != own("resourceVersion") {
        return stale(&format!(
            "Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: {}",
            own("resourceVersion")
        ));
    }
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        return conflict(&format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let node = text(&pod["spec"], "nodeName");
    if !node.is_empty() {
        return conflict(&format!("pod {name} is already assigned to node {node:?}"));
    }
    if !is_empty(&pod["spec"]["schedulingGates"]) {
        return conflict(&format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    let target = binding["target"]["name"].clone();
    map_mut(object_mut(pod, "spec")).insert("nodeName".into(), target);
    for kind in ["annotations", "labels"] {
        if let Some(given) = binding["metadata"][kind].as_object().filter(|given| !given.is_empty()) {
            let all = map_mut(object_mut(object_mut(pod, "metadata"), kind));
            all.extend(given.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
    }
    let status = object_mut(pod, "status");
    remove(status, "nominatedNodeName");
    set_scheduled(status, now);
    Ok(())
}

fn set_scheduled(status: &mut Value, now: &str) {
    let condition = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
    });
    if let Some(known) = items_mut(status, "conditions").find(|one| text(one, "type") == "PodScheduled") {
        if text(known, "status") == "True" {
            return;
        }
        for name in ["reason", "message"] {
            remove(known, name);
        }
        copy(known, &condition, "status");
        copy(known, &condition, "lastTransitionTime");
        return;
    }
    let mut all = list(&status["conditions"]).to_vec();
    all.push(condition);
    map_mut(status).insert("conditions".into(), all.into());
    set_absent(status, "phase", "Pending");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binding_names_the_node_and_says_so() {
        let binding = json!({"metadata": {"annotations": {"a": "b"}}, "target": {"name": "n1"}});
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {}, "status": {"phase": "Pending"}});
        bind_pod(&mut pod, &binding, "2020-01-01T00:00:00Z").unwrap();
        assert_eq!(pod["spec"]["nodeName"], "n1");
        assert_eq!(pod["metadata"]["annotations"], json!({"a": "b"}));
        assert_eq!(pod["status"]["conditions"][0]["status"], "True");
        let error = bind_pod(&mut pod, &binding, "2020-01-01T00:00:01Z").unwrap_err();
        assert_eq!(
            error.message,
            "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n1\""
        );
        assert_eq!(error.code, 409);
        let faults = validate_binding(&json!({"target": {"kind": "Pod"}}));
        assert_eq!(
            field::aggregate(&faults),
            "[target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\", target.name: Required value]"
        );
    }

    #[test]
    fn a_status_keeps_what_it_leaves_out() {
        let old = json!({"metadata": {"ownerReferences": [{"uid": "1"}]}, "spec": {"a": 1},
            "status": {"qosClass": "BestEffort", "conditions": [{"type": "Ready", "observedGeneration": 2}]}});
        let mut new = json!({"metadata": {}, "spec": {}, "status": {"phase": "Running", "conditions": [{"type": "Ready"}]}});
        prepare_pod_status(&mut new, &old);
        assert_eq!(new["spec"], old["spec"]);
        assert_eq!(new["metadata"], old["metadata"]);
        assert_eq!(new["status"]["qosClass"], "BestEffort");
        assert_eq!(new["status"]["conditions"][0]["observedGeneration"], 2);
    }
}
