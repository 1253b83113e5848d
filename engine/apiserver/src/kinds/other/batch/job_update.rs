//! What may change of a job.

use serde_json::{Value, json};

use super::{job, job_policies, job_status};
use crate::field::{Error, Path};
use crate::kinds::other::look::{
    Faults, IMMUTABLE, default, empty, flag, has, immutable, int, list, same, shown, text,
};
use crate::kinds::{internal, meta, selectors};

pub(super) fn validate(new: &Value, old: &Value) -> Faults {
    let labels = &old["spec"]["template"]["metadata"]["labels"];
    let prefixed = has(labels, job::JOB_NAME) && has(labels, job::CONTROLLER_UID);
    let mut faults = job::validate(new, prefixed);
    faults.extend(meta::validate_builtin_update(new, old));
    let (spec, before) = (&new["spec"], &old["spec"]);
    let path = Path::new("spec");
    // The real server looks at the whole spec twice, and says what is wrong with it twice.
    faults.extend(job::validate_with_selector(spec));
    faults.extend(validate_completions(spec, before, &path));
    if !same(&spec["selector"], &before["selector"]) {
        faults.push(shown(&path.child("selector"), &selectors::show(&spec["selector"]), IMMUTABLE));
    }
    faults.extend(validate_template_update(spec, old, &path));
    faults.extend(immutable(
        &spec["completionMode"],
        &before["completionMode"],
        &path.child("completionMode"),
    ));
    faults.extend(policy_immutable("podFailurePolicy", spec, before, job_policies::show_failure_policy));
    for key in ["backoffLimitPerIndex", "managedBy"] {
        faults.extend(immutable(&spec[key], &before[key], &path.child(key)));
    }
    faults.extend(policy_immutable("successPolicy", spec, before, job_policies::show_success_policy));
    faults
}

fn policy_immutable(key: &str, spec: &Value, before: &Value, show: fn(&Value) -> String) -> Option<Error> {
    (!same(&spec[key], &before[key]))
        .then(|| shown(&Path::new("spec").child(key), &show(&spec[key]), IMMUTABLE))
}

fn validate_completions(spec: &Value, before: &Value, path: &Path) -> Faults {
    let at = path.child("completions");
    if text(spec, "completionMode") != job::INDEXED {
        return immutable(&spec["completions"], &before["completions"], &at);
    }
    let (now, parallel) = (int(spec, "completions"), int(spec, "parallelism"));
    if now == int(before, "completions") || now.is_none() || now == parallel {
        return Vec::new();
    }
    let why = "can only be modified in tandem with spec.parallelism";
    vec![Error::invalid(&at, spec["completions"].clone(), why)]
}

fn validate_template_update(spec: &Value, old: &Value, path: &Path) -> Faults {
    let suspended = flag(&old["spec"], "suspend");
    let status = &old["status"];
    let resting = !has(status, "startTime") || job_status::is_true(old, "Suspended");
    let free = suspended && resting && int(status, "active").unwrap_or_default() == 0;
    let template = &spec["template"];
    let mut before = old["spec"]["template"].clone();
    if free {
        copy_scheduling(template, &mut before);
        for key in ["containers", "initContainers"] {
            copy_resources(template, &mut before, key);
        }
    }
    let (at, value, unchanged) = if free {
        let pod = &template["spec"];
        (path.child("template.spec"), internal::show("PodSpec", pod), same(pod, &before["spec"]))
    } else {
        (path.child("template"), show_template(template), same(template, &before))
    };
    if unchanged { Vec::new() } else { vec![shown(&at, &value, IMMUTABLE)] }
}

/// A template as the server itself prints it: its metadata is not kept apart.
fn show_template(template: &Value) -> String {
    let meta = ["name", "generateName", "namespace", "labels", "annotations", "finalizers"];
    let given = meta.iter().map(|key| (*key, &template["metadata"][*key])).filter(|(_, value)| !empty(value));
    let mut parts: Vec<String> = given.map(|(key, value)| format!("{key:?}:{value}")).collect();
    parts.push(format!(r#""Spec":{}"#, internal::show("PodSpec", &template["spec"])));
    format!("{{{}}}", parts.join(","))
}

/// Where a suspended job will run may still change.
fn copy_scheduling(from: &Value, to: &mut Value) {
    let affinity = &from["spec"]["affinity"];
    if affinity.is_null() && has(&to["spec"]["affinity"], "nodeAffinity") {
        let left = to["spec"]["affinity"].as_object_mut();
        if left.is_some_and(|left| left.remove("nodeAffinity").is_some() && left.is_empty()) {
            to["spec"].as_object_mut().map(|spec| spec.remove("affinity"));
        }
    } else if has(affinity, "nodeAffinity") || has(&to["spec"]["affinity"], "nodeAffinity") {
        let node = affinity["nodeAffinity"].clone();
        default(&mut to["spec"], "affinity", json!({}));
        to["spec"]["affinity"]["nodeAffinity"] = node;
    }
    for key in ["nodeSelector", "tolerations", "schedulingGates"] {
        to["spec"][key] = from["spec"][key].clone();
    }
    default(to, "metadata", json!({}));
    for key in ["annotations", "labels"] {
        to["metadata"][key] = from["metadata"][key].clone();
    }
}

fn copy_resources(from: &Value, to: &mut Value, key: &str) {
    let containers = list(&from["spec"], key).to_vec();
    let Some(before) = to["spec"].get_mut(key).and_then(Value::as_array_mut) else { return };
    if containers.len() != before.len() {
        return;
    }
    for (after, before) in
        containers.iter().zip(before).filter(|(after, before)| after["name"] == before["name"])
    {
        before["resources"] = after["resources"].clone();
    }
}
