//! What a copy should look like, and the smallest change that makes it so.

use std::collections::BTreeMap;

use json_patch::{AddOperation, Patch, PatchOperation};
use serde_json::{Map, Value, json};

use super::ledger::Ledger;
use super::object::{Object, same};
use super::{Rules, Source};
use crate::names;

type Pairs = BTreeMap<String, String>;

/// The parts of an original that go down, before anything is known of a copy.
fn wanted(rules: &Rules, original: &Object) -> (Pairs, Pairs, Ledger) {
    let mut labels = original.labels.clone();
    if rules.source == Source::Robot {
        labels.insert(names::ROBOT.into(), rules.robot.clone());
    }
    let mut annotations = original.annotations.clone();
    // An original may itself be a copy of something else.
    annotations.remove(names::LEDGER);
    annotations.remove(names::REMOTE_VERSION);
    let ledger = Ledger {
        uid: original.uid.clone(),
        labels: labels.keys().cloned().collect(),
        annotations: annotations.keys().cloned().collect(),
    };
    (labels, annotations, ledger)
}

/// A new copy, without its name.
pub(super) fn create(rules: &Rules, original: &Object) -> Value {
    let (labels, mut annotations, ledger) = wanted(rules, original);
    annotations.insert(names::LEDGER.into(), ledger.to_text());
    let mut copy = json!({"metadata": {"annotations": annotations}});
    if !labels.is_empty() {
        copy["metadata"]["labels"] = json!(labels);
    }
    if let Some(spec) = &original.spec {
        copy["spec"] = spec.clone();
    }
    // With the subresource the server would drop it.
    if let (Some(status), false) = (&original.status, rules.downstream_status) {
        copy["status"] = status.clone();
    }
    copy
}

/// What is wrong with a copy, if anything.
pub(super) fn update(rules: &Rules, original: &Object, copy: &Object) -> Option<Patch> {
    let (labels, mut annotations, ledger) = wanted(rules, original);
    let before = Ledger::of(copy).unwrap_or_default();
    let labels = merged(&copy.labels, &before.labels, labels);
    annotations.insert(names::LEDGER.into(), ledger.to_text());
    let annotations = merged(&copy.annotations, &before.annotations, annotations);
    let is = parts(&copy.labels, &copy.annotations, copy.spec.as_ref());
    let should = parts(&labels, &annotations, original.spec.as_ref());
    (!same(&is, &should)).then(|| guarded(json_patch::diff(&is, &should), copy))
}

/// Whether the copy has its original's spec.
pub(super) fn has_spec_of(original: &Object, copy: &Object) -> bool {
    match (&original.spec, &copy.spec) {
        (Some(one), Some(other)) => same(one, other),
        (None, None) => true,
        _ => false,
    }
}

/// What others put there stays; what came with the original and is no longer on it goes.
fn merged(present: &Pairs, ours: &[String], wanted: Pairs) -> Pairs {
    let mut merged = present.clone();
    merged.retain(|key, _| !ours.contains(key));
    merged.extend(wanted);
    merged
}

fn parts(labels: &Pairs, annotations: &Pairs, spec: Option<&Value>) -> Value {
    let mut metadata = Map::new();
    if !labels.is_empty() {
        metadata.insert("labels".into(), json!(labels));
    }
    if !annotations.is_empty() {
        metadata.insert("annotations".into(), json!(annotations));
    }
    let mut parts = json!({"metadata": metadata});
    if let Some(spec) = spec {
        parts["spec"] = spec.clone();
    }
    parts
}

/// Lets a patch apply to the very version it was made for.
pub(super) fn guarded(mut patch: Patch, object: &Object) -> Patch {
    let guard = PatchOperation::Add(AddOperation {
        path: json_patch::jsonptr::PointerBuf::from_tokens(["metadata", "resourceVersion"]),
        value: object.version.clone().into(),
    });
    patch.0.insert(0, guard);
    patch
}
