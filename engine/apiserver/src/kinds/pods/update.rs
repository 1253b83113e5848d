//! What of a pod may change once it exists: next to nothing.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::containers::validate_image_is_trimmed;
use super::security::APP_ARMOR;
use super::spec::{validate_pod, validate_pod_annotations};
use super::{scheduling, status as pod_status};
use crate::field::{Error, Path};
use crate::kinds::walk::{At, Faults, copy, get, is_empty, list, map_mut, object_mut, remove, same, text};
use crate::kinds::{internal, meta};
use crate::names;

pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";
const MUTABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn validate_update(new: &Value, old: &Value) -> Faults {
    let mut faults = meta::validate_builtin_update(new, old);
    faults.extend(meta::validate_builtin_again(new, true, names::dns1123_subdomain));
    faults.extend(validate_pod(new));
    faults.extend(validate_annotations(new, old));
    let (spec, old_spec) = (At::top(new, "spec"), At::top(old, "spec"));
    for kind in ["containers", "initContainers"] {
        let (all, old_all) = (spec.child(kind), old_spec.child(kind));
        if all.items().len() != old_all.items().len() {
            faults.push(all.forbidden("pod updates may not add or remove containers"));
            return faults;
        }
        for container in all.items() {
            let image = container.child("image");
            if image.str().is_empty() {
                faults.push(image.required(""));
            }
            faults.extend(validate_image_is_trimmed(&container));
        }
    }
    let deadline = spec.child("activeDeadlineSeconds");
    match (deadline.value.as_i64(), old_spec.int("activeDeadlineSeconds")) {
        (Some(seconds), _) if !(0..=i64::from(i32::MAX)).contains(&seconds) => {
            faults.push(deadline.invalid(names::range(0, i64::from(i32::MAX))));
            return faults;
        }
        (Some(seconds), Some(before)) if before < seconds => {
            faults.push(deadline.invalid("must be less than or equal to previous value"));
            return faults;
        }
        (None, Some(_)) => {
            faults.push(deadline.invalid("must not update from a positive integer to nil value"));
        }
        _ => {}
    }
    faults.extend(validate_tolerations(&spec, &old_spec));
    faults.extend(validate_gates(&spec, &old_spec));
    if same(spec.value, old_spec.value) {
        return faults;
    }
    let mut rest = without_what_may_change(spec.value, old_spec.value);
    if !is_empty(&old_spec.value["schedulingGates"]) {
        faults.extend(narrow_while_gated(&mut rest, old_spec.value));
    }
    if !same(&rest, old_spec.value) {
        let diff = internal::diff("PodSpec", old_spec.value, &rest);
        let why = format!("pod updates may not change fields other than {MUTABLE}\n{diff}");
        faults.push(Error::forbidden(&spec.path, why));
    }
    faults
}

pub(super) fn validate_annotations(new: &Value, old: &Value) -> Faults {
    let annotations = At::top(new, "metadata").child("annotations");
    let before = At::top(old, "metadata").child("annotations");
    let mut faults = Faults::new();
    for (key, value) in
        before.entries().filter(|(key, value)| annotations.value.get(key) != Some(value.value))
    {
        if key.starts_with(APP_ARMOR) {
            faults.push(value.forbidden("may not remove or update AppArmor annotations"));
        }
        if key == MIRROR {
            faults.push(value.forbidden("may not remove or update mirror pod annotation"));
        }
    }
    for (key, value) in annotations.entries().filter(|(key, _)| !before.has(key)) {
        if key.starts_with(APP_ARMOR) {
            faults.push(value.forbidden("may not add AppArmor annotations"));
        }
        if key == MIRROR {
            faults.push(value.forbidden("may not add mirror pod annotation"));
        }
    }
    faults.extend(validate_pod_annotations(&annotations, &At::top(new, "spec")));
    faults
}

fn validate_tolerations(spec: &At<'_>, old: &At<'_>) -> Faults {
    let tolerations = spec.child("tolerations");
    let timeless = |toleration: &Value| {
        let mut copy = toleration.clone();
        remove(&mut copy, "tolerationSeconds");
        copy
    };
    let now: HashSet<Value> = list(tolerations.value).iter().map(timeless).collect();
    let lost = list(&old.value["tolerations"]).iter().any(|old| !now.contains(&timeless(old)));
    if lost {
        return vec![
            tolerations.forbidden("existing toleration can not be modified except its tolerationSeconds"),
        ];
    }
    scheduling::validate_tolerations(&tolerations)
}

fn validate_gates(spec: &At<'_>, old: &At<'_>) -> Faults {
    let known: HashSet<&str> =
        list(&old.value["schedulingGates"]).iter().map(|gate| text(gate, "name")).collect();
    let gates = spec.child("schedulingGates");
    // Of several with one name the last is told.
    let named = list(gates.value).iter().enumerate();
    let last: HashMap<&str, usize> = named.map(|(index, gate)| (text(gate, "name"), index)).collect();
    let added = gates
        .items()
        .enumerate()
        .filter(|(index, gate)| last.get(gate.text("name")) == Some(index))
        .map(|(_, gate)| gate.child("name"))
        .filter(|name| !known.contains(name.str()));
    added
        .map(|name| {
            let why = format!("only deletion is allowed, but found new scheduling gate '{}'", name.str());
            name.forbidden(&why)
        })
        .collect()
}

/// The new spec, with everything that may change put back to what it was.
fn without_what_may_change(spec: &Value, old: &Value) -> Value {
    let mut rest = spec.clone();
    for kind in ["containers", "initContainers"] {
        let before = list(&old[kind]);
        for (container, old) in crate::kinds::walk::items_mut(&mut rest, kind).zip(before) {
            copy(container, old, "image");
        }
    }
    for name in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        copy(&mut rest, old, name);
    }
    let was_negative = old["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0);
    if was_negative && rest["terminationGracePeriodSeconds"] == 1 {
        copy(&mut rest, old, "terminationGracePeriodSeconds");
    }
    rest
}

/// A pod that waits for its gates may still be told to run on fewer nodes.
fn narrow_while_gated(rest: &mut Value, old: &Value) -> Faults {
    let mut faults = Faults::new();
    let selector = At::new(get(rest, &["nodeSelector"]), Path::new("spec").child("nodeSelector"));
    if !same(selector.value, &old["nodeSelector"]) {
        let mut before = old["nodeSelector"].as_object().into_iter().flatten();
        if before.any(|(key, value)| selector.value.get(key) != Some(value)) {
            let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            faults.push(selector.invalid(why));
        }
        copy(rest, old, "nodeSelector");
    }
    let old_affinity = get(old, &["affinity", "nodeAffinity"]);
    if !same(get(rest, &["affinity", "nodeAffinity"]), old_affinity) {
        faults.extend(validate_narrower_affinity(get(rest, &["affinity", "nodeAffinity"]), old_affinity));
        let affinity = object_mut(rest, "affinity");
        if old_affinity.is_null() {
            remove(affinity, "nodeAffinity");
        } else {
            map_mut(affinity).insert("nodeAffinity".into(), old_affinity.clone());
        }
    }
    faults
}

fn validate_narrower_affinity(new: &Value, old: &Value) -> Faults {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let path =
        Path::new("spec").child("affinity").child("nodeAffinity").child(required).child("nodeSelectorTerms");
    let (terms, old_terms) =
        (list(get(new, &[required, "nodeSelectorTerms"])), list(get(old, &[required, "nodeSelectorTerms"])));
    let shown = |terms: &[Value]| {
        let all: Vec<String> = terms.iter().map(|term| internal::show("NodeSelectorTerm", term)).collect();
        all.join(",")
    };
    let fault = |path: &Path, shown: String, why: &str| Error {
        value: None,
        ..Error::invalid(path, Value::Null, format!("{shown}: {why}"))
    };
    if !old_terms.is_empty() && old_terms.len() != terms.len() {
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return vec![fault(&path, format!("[{}]", shown(terms)), why)];
    }
    let pairs = terms.iter().zip(old_terms).enumerate();
    pairs
        .filter(|(_, (term, old))| !only_adds(term, old))
        .map(|(index, (term, _))| {
            let why = "only additions are allowed (no mutations or deletions)";
            fault(&path.index(index), shown(std::slice::from_ref(term)), why)
        })
        .collect()
}

fn only_adds(term: &Value, old: &Value) -> bool {
    let kinds = ["matchExpressions", "matchFields"];
    let was_empty = kinds.iter().all(|kind| is_empty(&old[*kind]));
    if was_empty {
        return kinds.iter().all(|kind| is_empty(&term[*kind]));
    }
    kinds.iter().all(|kind| list(&term[*kind]).starts_with(list(&old[*kind])))
}

/// What is wrong with an update of a pod's status.
pub(super) fn validate_status(new: &Value, old: &Value) -> Faults {
    let mut faults = meta::validate_builtin_update(new, old);
    faults.extend(validate_annotations(new, old));
    faults.extend(pod_status::validate(new, old));
    faults
}
