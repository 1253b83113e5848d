//! What the kinds that run many pods share: templates with selectors, shares of a whole, counts in status.

use serde_json::{Value, json};

use super::pods::{validate_label_selector, validate_pod_template};
use super::selectors::{self, selects};
use super::walk::{At, Faults, IMMUTABLE, is_empty, same};
use crate::field::{Error, Path};
use crate::names;

/// The rules for the counts in a status.
pub(super) struct Counts {
    pub(super) non_negative: &'static [&'static str],
    pub(super) at_most_replicas: &'static [&'static str],
    /// What is said when more are available than ready.
    pub(super) available_at_most_ready: Option<&'static str>,
}

/// What is wrong with the counts in a status.
pub(super) fn validate_counts(object: &Value, counts: &Counts) -> Faults {
    let status = At::top(object, "status");
    let count = |name: &str| status.int(name).unwrap_or(0);
    let mut faults: Faults =
        counts.non_negative.iter().filter_map(|name| status.child(name).non_negative()).collect();
    for name in counts.at_most_replicas {
        if count(name) > count("replicas") {
            faults.push(status.child(name).invalid("cannot be greater than status.replicas"));
        }
    }
    if let Some(why) = counts.available_at_most_ready
        && count("availableReplicas") > count("readyReplicas")
    {
        faults.push(status.child("availableReplicas").invalid(why));
    }
    faults
}

/// A collision was counted once and for all.
pub(super) fn validate_collisions(new: &Value, old: &Value) -> Option<Error> {
    let count = |object: &Value| At::top(object, "status").int("collisionCount");
    let less = count(old).is_some_and(|old| count(new).is_none_or(|new| new < old));
    let path = Path::new("status").child("collisionCount");
    less.then(|| Error::invalid(&path, count(new).unwrap_or(0), "cannot be decremented"))
}

/// What is wrong with a selector that must be there and must select something; `kind` is for the message.
pub(super) fn validate_selector(selector: &At<'_>, kind: &str) -> Faults {
    if !selector.is_set() {
        return vec![selector.required("")];
    }
    let mut faults = validate_label_selector(selector.value, &selector.path);
    if selects_nothing_in_particular(selector.value) {
        faults.push(shown(selector, &format!("empty selector is invalid for {kind}")));
    }
    faults
}

/// Whether a selector has no terms.
pub(super) fn selects_nothing_in_particular(selector: &Value) -> bool {
    is_empty(&selector["matchLabels"]) && is_empty(&selector["matchExpressions"])
}

/// Whether a selector can be used at all: terms that make no sense cannot.
pub(super) fn is_usable(selector: &Value) -> bool {
    let path = Path::root();
    validate_label_selector(selector, &path).is_empty()
}

/// One fault if a selector changed.
pub(super) fn validate_selector_is_kept(new: &Value, old: &Value) -> Option<Error> {
    let (new, old) = (At::top(new, "spec").child("selector"), At::top(old, "spec").child("selector"));
    (!same(new.value, old.value)).then(|| shown(&new, IMMUTABLE))
}

/// A fault that shows a selector, labels first.
pub(super) fn shown(selector: &At<'_>, why: &str) -> Error {
    let detail = format!("{}: {why}", selectors::show(selector.value));
    Error {
        value: None,
        ..selector.invalid(if why.is_empty() { selectors::show(selector.value) } else { detail })
    }
}

/// What is wrong with the template of a set of replicas that `selector` must find again.
pub(super) fn validate_template(template: &At<'_>, selector: &Value) -> Faults {
    let mut faults: Faults = validate_labels_are_selected(template, selector).into_iter().collect();
    faults.extend(validate_pod_template(template.value, &template.path));
    faults.extend(validate_runs_forever(template, "ReplicaSet"));
    faults
}

/// One fault if the pods of a template would not be found.
pub(super) fn validate_labels_are_selected(template: &At<'_>, selector: &Value) -> Option<Error> {
    let labels = template.child("metadata").child("labels");
    let empty = json!({});
    let found = if labels.is_set() { labels.value } else { &empty };
    // A selector that is not there selects nothing, one without terms everything.
    let missed = selector.is_null() || !selects(selector, found);
    missed.then(|| labels.invalid("`selector` does not match template `labels`"))
}

/// Pods that are replaced when they end must not say when to end.
pub(super) fn validate_runs_forever(template: &At<'_>, kind: &str) -> Faults {
    let spec = template.child("spec");
    let (policy, deadline) = (spec.child("restartPolicy"), spec.child("activeDeadlineSeconds"));
    let mut faults = Faults::new();
    if policy.str() != "Always" {
        faults.push(policy.not_supported(&["Always"]));
    }
    if deadline.is_set() {
        faults.push(deadline.forbidden(&format!("activeDeadlineSeconds in {kind} is not Supported")));
    }
    faults
}

// === shares ===

/// What is wrong with a number of pods or a share of them.
pub(crate) fn validate_int_or_percent(share: &At<'_>) -> Faults {
    match share.value {
        Value::String(text) => names::percent(text).into_iter().map(|why| share.invalid(why)).collect(),
        _ => share.non_negative().into_iter().collect(),
    }
}

/// One fault if a share is more than all.
pub(crate) fn validate_at_most_all(share: &At<'_>) -> Option<Error> {
    (share_of(share.value)? > 100).then(|| share.invalid("must not be greater than 100%"))
}

fn share_of(value: &Value) -> Option<i64> {
    let text = value.as_str().filter(|text| names::percent(text).is_empty())?;
    text.strip_suffix('%')?.parse().ok()
}

/// The number, be it of pods or of a hundred.
pub(crate) fn number_of(value: &Value) -> i64 {
    match value {
        Value::String(text) => share_of(value).or_else(|| text.parse().ok()).unwrap_or(0),
        other => other.as_i64().unwrap_or(0),
    }
}
