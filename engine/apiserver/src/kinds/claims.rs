//! Claims for volumes: the spec that claims, templates for claims and ephemeral volumes share.

use super::meta;
use super::pods::resources::validate_amount;
use super::quantity::Quantity;
use super::selectors::validate_label_selector;
use super::walk::{At, Faults, is_empty};
use crate::field::Error;
use crate::names;

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
/// How a volume may be presented to a pod.
pub(super) const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
/// What is said of an amount that must not be zero.
pub(super) const NOT_POSITIVE: &str = "must be greater than zero";

/// What is wrong with a template for claims: `{metadata, spec}`.
pub(super) fn validate_claim_template(template: &At<'_>) -> Faults {
    let mut faults = meta::validate_template_meta(&template.child("metadata"));
    faults.extend(validate_claim_spec(&template.child("spec")));
    faults
}

/// What is wrong with the spec of a claim.
pub(super) fn validate_claim_spec(spec: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    let (modes, selector) = (spec.child("accessModes"), spec.child("selector"));
    if is_empty(modes.value) {
        faults.push(modes.required("at least 1 access mode is required"));
    }
    faults.extend(validate_label_selector(selector.value, &selector.path));
    faults.extend(validate_access_modes(&modes));
    let resources = spec.child("resources");
    let requests = resources.child("requests");
    let storage = At::new(requests.child("storage").value, resources.path.key("storage"));
    let amount = Quantity::of(storage.value);
    if !storage.is_set() {
        faults.push(storage.required(""));
    } else if !amount.is_positive() {
        faults.push(Error::invalid(&storage.path, amount.to_string(), NOT_POSITIVE));
    } else {
        faults.extend(validate_amount("storage", &storage));
    }
    let class = |name: &str| {
        let class = spec.child(name);
        if class.str().is_empty() { Faults::new() } else { class.obey(names::dns1123_subdomain) }
    };
    faults.extend(class("storageClassName"));
    let mode = spec.child("volumeMode");
    if mode.is_set() && !VOLUME_MODES.contains(&mode.str()) {
        faults.push(mode.not_supported(&VOLUME_MODES));
    }
    faults.extend(validate_data_sources(spec));
    faults.extend(class("volumeAttributesClassName"));
    faults
}

/// Modes that exist, and the exclusive one only alone.
pub(super) fn validate_access_modes(modes: &At<'_>) -> Faults {
    let unknown = modes.items().filter(|mode| !ACCESS_MODES.contains(&mode.str()));
    let mut faults: Faults =
        unknown.map(|mode| Error::not_supported(&modes.path, mode.str(), &ACCESS_MODES)).collect();
    let exclusive = modes.items().any(|mode| mode.str() == ACCESS_MODES[3]);
    if exclusive && modes.items().any(|mode| ACCESS_MODES[..3].contains(&mode.str())) {
        faults.push(modes.forbidden("may not use ReadWriteOncePod with other access modes"));
    }
    faults
}

fn validate_data_sources(spec: &At<'_>) -> Faults {
    let (source, reference) = (spec.child("dataSource"), spec.child("dataSourceRef"));
    let mut faults = Faults::new();
    for from in [&source, &reference].into_iter().filter(|from| from.is_set()) {
        for name in ["name", "kind"].map(|name| from.child(name)) {
            if name.str().is_empty() {
                faults.push(name.required(""));
            }
        }
        let group = from.child("apiGroup");
        if !group.str().is_empty() {
            faults.extend(group.obey(names::dns1123_subdomain));
        } else if from.text("kind") != "PersistentVolumeClaim" {
            let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            faults.push(Error::invalid(&from.path, from.text("kind"), why));
        }
    }
    // The real server shows a path here, which prints as an empty object.
    let wrong = |why: &str| Error::invalid(&spec.path, serde_json::json!({}), why);
    let same = |name: &str| source.text(name) == reference.text(name);
    if source.is_set() && reference.is_set() && !["apiGroup", "kind", "name"].iter().all(|name| same(name)) {
        faults.push(wrong("must match dataSourceRef"));
    }
    faults
}
