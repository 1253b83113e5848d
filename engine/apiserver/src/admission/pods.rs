//! What pods and nodes get from elsewhere: Priority, DefaultTolerationSeconds, TaintNodesByCondition and
//! RuntimeClass.

use serde_json::{Value, json};

use super::{Attributes, Lookup, Operation};
use crate::kinds::other::scheduling::SYSTEM;
use crate::kinds::walk::{get, is_empty, list, map_mut, object_mut, same, set_absent, text};
use crate::status::Result;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const TOLERATION_SECONDS: i64 = 300;

/// A node that was just made is not ready, and says so before anything is put on it.
pub(super) fn taint_node(request: &Attributes<'_>, node: &mut Value) {
    if !request.creates("", "nodes") {
        return;
    }
    let spec = object_mut(node, "spec");
    let there = |taint: &Value| text(taint, "key") == NOT_READY && text(taint, "effect") == "NoSchedule";
    if !list(&spec["taints"]).iter().any(there) {
        push(spec, "taints", json!({"key": NOT_READY, "effect": "NoSchedule"}));
    }
}

fn push(parent: &mut Value, key: &str, item: Value) {
    set_absent(parent, key, json!([]));
    if let Some(items) = parent[key].as_array_mut() {
        items.push(item);
    }
}

/// Pods outlive a short absence of their node.
pub(super) fn default_tolerations(request: &Attributes<'_>, pod: &mut Value) {
    if !request.writes("", "pods") {
        return;
    }
    let spec = object_mut(pod, "spec");
    for taint in [NOT_READY, UNREACHABLE] {
        let tolerates = |one: &Value| {
            (text(one, "key") == taint || text(one, "key").is_empty())
                && matches!(text(one, "effect"), "NoExecute" | "")
        };
        if !list(&spec["tolerations"]).iter().any(tolerates) {
            let toleration = json!({
                "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS,
            });
            push(spec, "tolerations", toleration);
        }
    }
}

// === Priority ===

/// The class that pods have which name none; the lowest, should there be several.
fn default_class(lookup: &dyn Lookup) -> Option<Value> {
    let classes = lookup.list("scheduling.k8s.io", "priorityclasses", "").into_iter();
    classes
        .filter(|class| class["globalDefault"].as_bool() == Some(true))
        .min_by_key(|class| class["value"].as_i64().unwrap_or_default())
}

fn class_named(name: &str, lookup: &dyn Lookup) -> Option<Value> {
    // The system's own classes are there even before anyone made them.
    let system = || {
        let (_, value) = SYSTEM.iter().find(|(known, _)| *known == name)?;
        Some(json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority"}))
    };
    lookup.get("scheduling.k8s.io", "priorityclasses", "", name).or_else(system)
}

pub(super) fn resolve_priority(
    request: &Attributes<'_>,
    pod: &mut Value,
    old: Option<&Value>,
    lookup: &dyn Lookup,
) -> Result<()> {
    if !request.writes("", "pods") {
        return Ok(());
    }
    if request.operation == Operation::Update {
        let spec = object_mut(pod, "spec");
        for key in ["priority", "preemptionPolicy"] {
            let before = old.map(|old| get(old, &["spec", key]).clone()).unwrap_or_default();
            if !before.is_null() {
                set_absent(spec, key, before);
            }
        }
        return Ok(());
    }
    let named = text(get(pod, &["spec"]), "priorityClassName").to_owned();
    let class = match named.as_str() {
        "" => default_class(lookup).unwrap_or_else(|| json!({"preemptionPolicy": "PreemptLowerPriority"})),
        name => class_named(name, lookup)
            .ok_or_else(|| request.forbidden(pod, &format!("no PriorityClass with name {name} was found")))?,
    };
    let priority = class["value"].as_i64().unwrap_or_default();
    let policy = text(&class, "preemptionPolicy");
    let spec = get(pod, &["spec"]);
    if let Some(given) = spec["priority"].as_i64().filter(|given| *given != priority) {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {priority} from the given PriorityClass name"
        );
        return Err(request.forbidden(pod, &why));
    }
    if let Some(given) =
        spec["preemptionPolicy"].as_str().filter(|given| !policy.is_empty() && *given != policy)
    {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(request.forbidden(pod, &why));
    }
    let spec = map_mut(object_mut(pod, "spec"));
    let class_name = text(&class["metadata"], "name");
    if !class_name.is_empty() {
        spec.insert("priorityClassName".to_owned(), class_name.into());
    }
    spec.insert("priority".to_owned(), priority.into());
    if !policy.is_empty() {
        spec.insert("preemptionPolicy".to_owned(), policy.into());
    }
    Ok(())
}

pub(super) fn check_priority_class(
    request: &Attributes<'_>,
    class: &Value,
    lookup: &dyn Lookup,
) -> Result<()> {
    if !request.writes("scheduling.k8s.io", "priorityclasses")
        || class["globalDefault"].as_bool() != Some(true)
    {
        return Ok(());
    }
    let name = |class: &Value| text(&class["metadata"], "name").to_owned();
    match default_class(lookup) {
        Some(other) if request.operation == Operation::Create || name(&other) != name(class) => {
            let other = name(&other);
            let why =
                format!("PriorityClass {other} is already marked as default. Only one default can exist");
            Err(request.forbidden(class, &why))
        }
        _ => Ok(()),
    }
}

// === RuntimeClass ===

fn runtime_class(request: &Attributes<'_>, pod: &Value, lookup: &dyn Lookup) -> Result<Option<Value>> {
    let Some(name) = get(pod, &["spec", "runtimeClassName"]).as_str() else { return Ok(None) };
    let class = lookup.get("node.k8s.io", "runtimeclasses", "", name);
    let why = format!("pod rejected: RuntimeClass {name:?} not found");
    class.map(Some).ok_or_else(|| request.forbidden(pod, &why))
}

const OVERHEAD_DIFFERS: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

pub(super) fn apply_runtime_class(
    request: &Attributes<'_>,
    pod: &mut Value,
    lookup: &dyn Lookup,
) -> Result<()> {
    if !request.creates("", "pods") {
        return Ok(());
    }
    let Some(class) = runtime_class(request, pod, lookup)? else { return Ok(()) };
    if !class["overhead"].is_null() {
        let overhead = get(&class, &["overhead", "podFixed"]);
        let given = get(pod, &["spec", "overhead"]);
        if !is_empty(given) && !same(given, overhead) {
            return Err(request.forbidden(pod, OVERHEAD_DIFFERS));
        }
        if !is_empty(overhead) {
            map_mut(object_mut(pod, "spec")).insert("overhead".to_owned(), overhead.clone());
        }
    }
    let scheduling = &class["scheduling"];
    let wanted = scheduling["nodeSelector"].as_object().into_iter().flatten();
    for (key, value) in wanted {
        let (value, given) = (value.as_str().unwrap_or_default(), get(pod, &["spec", "nodeSelector", key]));
        if let Some(given) = given.as_str().filter(|given| *given != value) {
            let why = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {given}"
            );
            return Err(request.forbidden(pod, &why));
        }
        let selector = object_mut(object_mut(pod, "spec"), "nodeSelector");
        map_mut(selector).insert(key.clone(), value.into());
    }
    for toleration in list(&scheduling["tolerations"]) {
        let spec = object_mut(pod, "spec");
        if !list(&spec["tolerations"]).contains(toleration) {
            push(spec, "tolerations", toleration.clone());
        }
    }
    Ok(())
}

pub(super) fn check_overhead(request: &Attributes<'_>, pod: &Value, lookup: &dyn Lookup) -> Result<()> {
    if !request.creates("", "pods") {
        return Ok(());
    }
    let class = runtime_class(request, pod, lookup)?.unwrap_or_default();
    let given = get(pod, &["spec", "overhead"]);
    if class["overhead"].is_null() {
        if given.is_null() {
            return Ok(());
        }
        let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
        return Err(request.forbidden(pod, why));
    }
    if same(given, get(&class, &["overhead", "podFixed"])) {
        return Ok(());
    }
    Err(request.forbidden(pod, OVERHEAD_DIFFERS))
}
