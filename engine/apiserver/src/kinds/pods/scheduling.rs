//! Where pods may run: affinity, tolerations and how they spread.

use std::collections::{BTreeSet, HashMap};

use crate::field::Error;
use crate::kinds::selectors::{validate_label_name, validate_label_selector};
use crate::kinds::walk::{At, Faults, is_empty};
use crate::names;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const NO_OPERATOR: &str = "not a valid selector operator";

pub(super) fn validate_affinity(affinity: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    let node = affinity.child("nodeAffinity");
    if node.has(REQUIRED) {
        faults.extend(validate_node_selector(&node.child(REQUIRED)));
    }
    for term in node.child(PREFERRED).items() {
        faults.extend(validate_weight(&term));
        faults.extend(validate_node_term(&term.child("preference"), Values::Any));
    }
    for pods in ["podAffinity", "podAntiAffinity"].map(|name| affinity.child(name)) {
        for term in pods.child(REQUIRED).items() {
            faults.extend(validate_pod_term(&term));
        }
        for term in pods.child(PREFERRED).items() {
            faults.extend(validate_weight(&term));
            faults.extend(validate_pod_term(&term.child("podAffinityTerm")));
        }
    }
    faults
}

fn validate_weight(term: &At<'_>) -> Option<Error> {
    let weight = term.child("weight");
    let number = weight.value.as_i64().unwrap_or(0);
    let wrong = !(1..=100).contains(&number);
    wrong.then(|| Error::invalid(&weight.path, number, "must be in the range 1-100"))
}

/// Whether the values that a term compares labels with must be values that labels can have.
#[derive(Clone, Copy, PartialEq)]
enum Values {
    OfLabels,
    Any,
}

/// What is wrong with a selector of nodes.
pub(crate) fn validate_node_selector(selector: &At<'_>) -> Faults {
    let terms = selector.child("nodeSelectorTerms");
    if is_empty(terms.value) {
        return vec![terms.required("must have at least one node selector term")];
    }
    terms.items().flat_map(|term| validate_node_term(&term, Values::OfLabels)).collect()
}

fn validate_node_term(term: &At<'_>, compared: Values) -> Faults {
    let mut faults = Faults::new();
    for expression in term.child("matchExpressions").items() {
        let (operator, values) = (expression.child("operator"), expression.child("values"));
        let count = values.items().len();
        match operator.str() {
            "In" | "NotIn" if count == 0 => {
                faults.push(values.required("must be specified when `operator` is 'In' or 'NotIn'"));
            }
            "Exists" | "DoesNotExist" if count > 0 => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                faults.push(values.forbidden(why));
            }
            "Gt" | "Lt" if count != 1 => {
                faults
                    .push(values.required("must be specified single value when `operator` is 'Lt' or 'Gt'"));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => faults.push(Error::invalid(&operator.path, other, NO_OPERATOR)),
        }
        faults.extend(validate_label_name(&expression.child("key")));
        if compared == Values::OfLabels {
            faults.extend(values.items().flat_map(|value| value.obey(names::label_value)));
        }
    }
    for field in term.child("matchFields").items() {
        let (key, operator, values) = (field.child("key"), field.child("operator"), field.child("values"));
        match operator.str() {
            "In" | "NotIn" if values.items().len() != 1 => {
                let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                faults.push(values.required(why));
            }
            "In" | "NotIn" => {}
            other => faults.push(Error::invalid(&operator.path, other, NO_OPERATOR)),
        }
        if key.str() == "metadata.name" {
            faults.extend(values.items().flat_map(|value| value.obey(names::dns1123_subdomain)));
        } else {
            faults.push(Error::invalid(&key.path, key.str(), "not a valid field selector key"));
        }
    }
    faults
}

fn validate_pod_term(term: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    for selector in ["labelSelector", "namespaceSelector"].map(|name| term.child(name)) {
        faults.extend(validate_label_selector(selector.value, &selector.path));
    }
    for name in term.child("namespaces").items() {
        faults.extend(At::new(name.value, term.path.child("namespace")).obey(names::dns1123_label));
    }
    faults.extend(validate_label_keys(term));
    let key = term.child("topologyKey");
    if key.str().is_empty() {
        faults.push(key.required("can not be empty"));
    }
    faults.extend(validate_label_name(&key));
    faults
}

/// Labels whose values are taken from the pod itself.
fn validate_label_keys(holder: &At<'_>) -> Faults {
    let selector = holder.child("labelSelector");
    let (keys, others) = (holder.child("matchLabelKeys"), holder.child("mismatchLabelKeys"));
    let mut faults = Faults::new();
    for keys in [&keys, &others].into_iter().filter(|keys| !is_empty(keys.value)) {
        if selector.is_set() {
            faults.extend(keys.items().flat_map(|key| validate_label_name(&key)));
        } else {
            faults.push(keys.forbidden("must not be specified when labelSelector is not set"));
        }
    }
    let mut selected: BTreeSet<&str> = selector.child("matchLabels").entries().map(|(key, _)| key).collect();
    let listed: HashMap<&str, usize> = keys
        .items()
        .enumerate()
        .map(|(index, key)| (key.value.as_str().unwrap_or_default(), index))
        .collect();
    for expression in selector.child("matchExpressions").items() {
        let key = expression.text("key");
        if let Some(index) = listed.get(key).filter(|_| selected.contains(key)) {
            let path = holder.path.index(*index);
            faults.push(Error::invalid(&path, key, "exists in both matchLabelKeys and labelSelector"));
        }
        selected.insert(key);
    }
    let others: BTreeSet<&str> =
        others.items().map(|other| other.value.as_str().unwrap_or_default()).collect();
    for key in keys.items().filter(|key| others.contains(key.str())) {
        faults.push(key.invalid("exists in both matchLabelKeys and mismatchLabelKeys"));
    }
    faults
}

pub(super) fn validate_tolerations(tolerations: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    for toleration in tolerations.items() {
        let (key, operator, effect) =
            (toleration.child("key"), toleration.child("operator"), toleration.child("effect"));
        let value = toleration.text("value");
        if !key.str().is_empty() {
            faults.extend(validate_label_name(&key));
        } else if operator.str() != "Exists" {
            let why =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            faults.push(Error::invalid(&operator.path, operator.str(), why));
        }
        if toleration.has("tolerationSeconds") && effect.str() != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            faults.push(Error::invalid(&effect.path, effect.str(), why));
        }
        match operator.str() {
            "Equal" | "" => {
                let wrong = names::label_value(value);
                if !wrong.is_empty() {
                    faults.push(Error::invalid(&operator.path, value, wrong.join(";")));
                }
            }
            "Exists" if !value.is_empty() => {
                let why = "value must be empty when `operator` is 'Exists'";
                faults.push(Error::invalid(&operator.path, value, why));
            }
            "Exists" => {}
            "Lt" | "Gt" => faults.push(operator.not_supported(&["Equal", "Exists", "Lt", "Gt"])),
            _ => faults.push(operator.not_supported(&["Equal", "Exists"])),
        }
        if !effect.str().is_empty() {
            faults.extend(validate_taint_effect(&effect));
        }
    }
    faults
}

/// What a taint does to pods that do not tolerate it.
pub(crate) fn validate_taint_effect(effect: &At<'_>) -> Option<Error> {
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    (!effects.contains(&effect.str())).then(|| effect.not_supported(&effects))
}

pub(super) fn validate_spread(constraints: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    let all: Vec<At<'_>> = constraints.items().collect();
    for (index, constraint) in all.iter().enumerate() {
        let same = |name: &str, other: &At<'_>| constraint.text(name) == other.text(name);
        faults.extend(positive(&constraint.child("maxSkew")));
        let (key, action) = (constraint.child("topologyKey"), constraint.child("whenUnsatisfiable"));
        if key.str().is_empty() {
            faults.push(key.required("can not be empty"));
        }
        if !["DoNotSchedule", "ScheduleAnyway"].contains(&action.str()) {
            faults.push(action.not_supported(&["DoNotSchedule", "ScheduleAnyway"]));
        }
        let again = |other: &At<'_>| same("topologyKey", other) && same("whenUnsatisfiable", other);
        if all[index + 1..].iter().any(again) {
            let path = constraint.child("{topologyKey, whenUnsatisfiable}").path;
            faults.push(Error::duplicate(&path, format!("{{{}, {}}}", key.str(), action.str())));
        }
        let domains = constraint.child("minDomains");
        if domains.is_set() {
            faults.extend(positive(&domains));
            if action.str() != "DoNotSchedule" {
                let detail = format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}",
                    action.str()
                );
                faults.push(domains.invalid(detail));
            }
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"].map(|name| constraint.child(name)) {
            if policy.is_set() && !["Honor", "Ignore"].contains(&policy.str()) {
                faults.push(policy.not_supported(&["Honor", "Ignore"]));
            }
        }
        faults.extend(validate_label_keys(constraint));
        let selector = constraint.child("labelSelector");
        faults.extend(validate_label_selector(selector.value, &selector.path));
    }
    faults
}

fn positive(at: &At<'_>) -> Option<Error> {
    let number = at.value.as_i64().unwrap_or(0);
    (number <= 0).then(|| Error::invalid(&at.path, number, "must be greater than zero"))
}
