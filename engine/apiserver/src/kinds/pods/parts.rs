//! Parts of a pod that are written by themselves: the resources of what runs, and containers to look into it.

use serde_json::{Map, Value};

use super::quality_of_service;
use super::spec::validate_pod;
use super::update::{MIRROR, validate_annotations};
use crate::field::{Error, Path};
use crate::kinds::walk::{At, Faults, copy, get, is_empty, items_mut, list, map_mut, object_mut, same, text};
use crate::kinds::{internal, meta};
use crate::names;

const CONTAINERS: [&str; 2] = ["containers", "initContainers"];

// === ephemeral containers ===

/// The old pod with the ephemeral containers of the new one; metadata aside.
pub(crate) fn with_ephemeral_containers(new: &Value, old: &Value) -> Value {
    let mut pod = old.clone();
    copy(object_mut(&mut pod, "spec"), &new["spec"], "ephemeralContainers");
    pod
}

pub(crate) fn validate_ephemeral_containers(new: &Value, old: &Value) -> Faults {
    let mut faults = validate_whole(new, old);
    faults.extend(validate_annotations(new, old));
    if is_mirror(old) {
        return vec![Error::forbidden(&Path::root(), "static pods do not support ephemeral containers")];
    }
    let path = Path::new("spec").child("ephemeralContainers");
    let now = list(get(new, &["spec", "ephemeralContainers"]));
    for before in list(get(old, &["spec", "ephemeralContainers"])) {
        let name = text(before, "name");
        // Of several with one name the last counts.
        match now.iter().rev().find(|one| text(one, "name") == name) {
            None => {
                let why = format!("existing ephemeral containers {name:?} may not be removed\n");
                faults.push(Error::forbidden(&path, why));
            }
            Some(now) if !same(before, now) => {
                let diff = internal::diff("EphemeralContainer", before, now);
                let why = format!("existing ephemeral containers {name:?} may not be changed\n{diff}");
                faults.push(Error::forbidden(&path, why));
            }
            Some(_) => {}
        }
    }
    faults
}

// === resize ===

/// The old pod with the resources of the new one; metadata aside. Nothing if their containers are not the same ones:
/// then the new pod is refused as it is.
pub(crate) fn with_resources(new: &Value, old: &Value) -> Option<Value> {
    let (spec, old_spec) = (&new["spec"], &old["spec"]);
    if CONTAINERS.iter().any(|kind| list(&spec[*kind]).len() != list(&old_spec[*kind]).len()) {
        return None;
    }
    let mut pod = old.clone();
    let kept = object_mut(&mut pod, "spec");
    copy(kept, spec, "resources");
    for kind in CONTAINERS {
        let now = list(&spec[kind]);
        let renamed = now.iter().zip(list(&old_spec[kind])).any(|(a, b)| text(a, "name") != text(b, "name"));
        if renamed {
            copy(kept, spec, kind);
            continue;
        }
        for (container, now) in items_mut(kept, kind).zip(now) {
            copy(container, now, "resources");
            copy(container, now, "resizePolicy");
        }
    }
    Some(pod)
}

pub(crate) fn validate_resize(new: &Value, old: &Value) -> Faults {
    let mut faults = validate_whole(new, old);
    if is_mirror(old) {
        return vec![Error::forbidden(&Path::root(), "static pods cannot be resized")];
    }
    if get(old, &["spec", "os", "name"]) == "windows" {
        return vec![Error::forbidden(&Path::root(), "windows pods cannot be resized")];
    }
    let (spec, old_spec) = (At::top(new, "spec"), At::top(old, "spec"));
    let class = match text(&old["status"], "qosClass") {
        "" => quality_of_service(old_spec.value),
        class => class,
    };
    if class != quality_of_service(spec.value) {
        let why = "Pod QOS Class may not change as a result of resizing";
        faults.push(Error::invalid(&spec.path, text(&new["status"], "qosClass"), why));
    }
    if !may_be_resized_there(old) {
        faults.push(spec.forbidden("Pod running on node without support for resize"));
    }
    let mut rest = spec.value.clone();
    if [&spec, &old_spec].iter().any(|spec| has_own_resources(spec.value)) {
        faults.extend(validate_own_resources(&spec, &old_spec, &mut rest));
    }
    if !is_empty(get(old, &["status", "nodeAllocatableResourceClaimStatuses"])) {
        faults.push(spec.forbidden("pods with node allocatable resource claims cannot be resized"));
    }
    let disorder: Faults =
        CONTAINERS.iter().flat_map(|kind| validate_order(&spec.child(kind), &old_spec.child(kind))).collect();
    if !disorder.is_empty() {
        faults.extend(disorder);
        return faults;
    }
    for kind in ["initContainers", "containers"] {
        for (now, before) in spec.child(kind).items().zip(old_spec.child(kind).items()) {
            faults.extend(validate_none_lost(
                &now.child("resources"),
                &before.child("resources"),
                ["resource requests cannot be removed", "resource limits cannot be removed"],
            ));
        }
    }
    faults.extend(validate_containers(&spec, &old_spec, &mut rest));
    if faults.is_empty() && !same(&rest, old_spec.value) {
        faults.push(spec.forbidden("only cpu and memory resources are mutable"));
    }
    faults
}

fn validate_whole(new: &Value, old: &Value) -> Faults {
    let mut faults = meta::validate_builtin_update(new, old);
    faults.extend(meta::validate_builtin_again(new, true, names::dns1123_subdomain));
    faults.extend(validate_pod(new));
    faults
}

fn is_mirror(pod: &Value) -> bool {
    !get(pod, &["metadata", "annotations", MIRROR]).is_null()
}

/// A node that does not tell what a running container has cannot change it either.
fn may_be_resized_there(pod: &Value) -> bool {
    let statuses = list(get(pod, &["status", "containerStatuses"]));
    let running = statuses.iter().find(|one| !get(one, &["state", "running"]).is_null());
    running.is_none_or(|one| !one["resources"].is_null())
}

fn has_own_resources(spec: &Value) -> bool {
    ["requests", "limits"].iter().any(|kind| !is_empty(get(spec, &["resources", kind])))
}

/// `rest` gets back what may change.
fn validate_own_resources(spec: &At<'_>, old: &At<'_>, rest: &mut Value) -> Faults {
    let (now, before) = (spec.child("resources"), old.child("resources"));
    if before.is_set() && !now.is_set() {
        return vec![now.forbidden("pod-level resources cannot be removed")];
    }
    let mut faults = Faults::new();
    if before.is_set() {
        faults.extend(validate_none_lost(
            &now,
            &before,
            ["pod-level resource requests cannot be removed", "pod-level resource limits cannot be removed"],
        ));
    }
    restore_amounts(rest, before.value);
    if !before.is_set()
        && ["requests", "limits", "claims"].iter().all(|kind| is_empty(&rest["resources"][*kind]))
    {
        map_mut(rest).remove("resources");
    }
    if !same(&rest["resources"], before.value) {
        faults.push(spec.forbidden("only cpu and memory resources are mutable at pod-level"));
    }
    faults
}

fn validate_none_lost(now: &At<'_>, before: &At<'_>, why: [&str; 2]) -> Faults {
    let lost = |kind: &str| before.child(kind).entries().any(|(name, _)| !now.child(kind).has(name));
    let kinds = ["requests", "limits"].into_iter().zip(why);
    kinds.filter(|(kind, _)| lost(kind)).map(|(kind, why)| now.child(kind).forbidden(why)).collect()
}

fn validate_order(all: &At<'_>, before: &At<'_>) -> Faults {
    let kind = all.path.as_str().rsplit('.').next().unwrap_or_default().to_owned();
    if all.items().len() != before.items().len() {
        return vec![all.forbidden(&format!("{kind} may not be added or removed on resize"))];
    }
    let pairs = all.items().zip(before.items());
    pairs
        .filter(|(now, before)| now.text("name") != before.text("name"))
        .map(|(now, _)| {
            now.child("name").forbidden(&format!("{kind} may not be renamed or reordered on resize"))
        })
        .collect()
}

/// Only processors and memory of containers may change; `rest` gets both back.
fn validate_containers(spec: &At<'_>, old: &At<'_>, rest: &mut Value) -> Faults {
    let mut faults = Faults::new();
    for kind in CONTAINERS {
        let before = list(&old.value[kind]);
        for (at, (container, before)) in items_mut(rest, kind).zip(before).enumerate() {
            let changed = !same(container, before);
            restore_amounts(container, &before["resources"]);
            if let Some(resources) = container.get_mut("resources") {
                map_mut(resources).remove("claims");
            }
            let path = spec.path.child("initContainers").index(at);
            if kind == "containers" {
                if !same(container, before) {
                    faults.push(spec.forbidden("only cpu and memory resources are mutable"));
                }
                continue;
            }
            if !same(container, before) {
                let why = "only cpu and memory resources for init or sidecar containers are mutable";
                faults.push(Error::forbidden(&path, why));
            }
            let sidecar = text(container, "restartPolicy") == "Always";
            let policies = list(&container["resizePolicy"]).iter();
            for _ in policies.filter(|one| text(one, "restartPolicy") == "RestartContainer") {
                if changed && !sidecar {
                    let why = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                    faults.push(Error::forbidden(&path, why));
                }
            }
        }
    }
    faults
}

/// Gives the resources of `holder` the processors and memory that they had.
fn restore_amounts(holder: &mut Value, before: &Value) {
    for kind in ["requests", "limits"] {
        let mut amounts: Map<String, Value> =
            get(holder, &["resources", kind]).as_object().cloned().unwrap_or_default();
        for name in ["cpu", "memory"] {
            match before[kind].get(name) {
                Some(amount) => amounts.insert(name.to_owned(), amount.clone()),
                None => amounts.remove(name),
            };
        }
        let resources = object_mut(holder, "resources");
        if amounts.is_empty() {
            map_mut(resources).remove(kind);
        } else {
            map_mut(resources).insert(kind.to_owned(), amounts.into());
        }
    }
}
