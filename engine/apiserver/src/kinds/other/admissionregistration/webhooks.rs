//! Webhook configurations.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{COMMON, FAILURE_POLICIES, MATCH_POLICIES, REINVOCATION_POLICIES};
use crate::cel::request::Known;
use crate::field::{Error, Path};
use crate::kinds::Strategy;
use crate::kinds::other::look::{
    Faults, default, each, each_wrong, has, int, list, one_of, text, texts, within,
};
use crate::kinds::other::{rules, selector};
use crate::names;

pub(super) static VALIDATING: Strategy = Strategy {
    default: |configuration| {
        for webhook in each(configuration, "webhooks") {
            default_webhook(webhook);
        }
    },
    ..RULES
};

pub(super) static MUTATING: Strategy = Strategy {
    default: |configuration| {
        for webhook in each(configuration, "webhooks") {
            default_webhook(webhook);
            default(webhook, "reinvocationPolicy", "Never");
        }
    },
    ..RULES
};

/// The rules of both kinds; only mutating webhooks have a reinvocation policy to check.
const RULES: Strategy = Strategy {
    validate: |configuration| validate(configuration, &STRICT),
    validate_update: |new, old| validate(new, &strictness(old)),
    ..COMMON
};

const SIDE_EFFECTS: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];
const NO_SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// What is asked of webhooks that those of the stored object already gave.
struct Strictness {
    no_side_effects: bool,
    known_version: bool,
    unique_names: bool,
}

const STRICT: Strictness = Strictness { no_side_effects: true, known_version: true, unique_names: true };

fn strictness(old: &Value) -> Strictness {
    let webhooks = list(old, "webhooks");
    let versions = |webhook: &Value| {
        texts(webhook, "admissionReviewVersions").iter().any(|version| REVIEW_VERSIONS.contains(version))
    };
    let mut names: Vec<&str> = webhooks.iter().map(|webhook| text(webhook, "name")).collect();
    names.sort_unstable();
    Strictness {
        no_side_effects: webhooks.iter().all(|one| NO_SIDE_EFFECTS.contains(&text(one, "sideEffects"))),
        known_version: webhooks.iter().all(versions),
        unique_names: names.windows(2).all(|pair| pair[0] != pair[1]),
    }
}

fn default_webhook(webhook: &mut Value) {
    default(webhook, "failurePolicy", "Fail");
    super::default_matching(webhook, &["rules"]);
    default(webhook, "timeoutSeconds", 10);
    if let Some(service) = within(webhook, "clientConfig").and_then(|config| within(config, "service")) {
        default(service, "port", 443);
    }
}

fn validate(configuration: &Value, strictness: &Strictness) -> Faults {
    let path = Path::new("webhooks");
    let mut faults = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, webhook) in list(configuration, "webhooks").iter().enumerate() {
        let path = path.index(index);
        faults.extend(validate_webhook(webhook, &path, strictness));
        faults.extend(validate_versions(webhook, &path.child("admissionReviewVersions"), strictness));
        let name = text(webhook, "name");
        if strictness.unique_names && !name.is_empty() && !seen.insert(name) {
            faults.push(Error::duplicate(&path.child("name"), name));
        }
    }
    faults
}

fn validate_webhook(webhook: &Value, path: &Path, strictness: &Strictness) -> Faults {
    let mut faults = rules::fully_qualified_name(&path.child("name"), text(webhook, "name"));
    for (index, rule) in list(webhook, "rules").iter().enumerate() {
        faults.extend(super::validate_rule(rule, &path.child("rules").index(index)));
    }
    let mut choice = |key: &str, known: &[&str]| {
        if has(webhook, key) {
            faults.extend(one_of(text(webhook, key), &path.child(key), known));
        }
    };
    choice("failurePolicy", &FAILURE_POLICIES);
    choice("matchPolicy", &MATCH_POLICIES);
    let effects: &[&str] = if strictness.no_side_effects { &NO_SIDE_EFFECTS } else { &SIDE_EFFECTS };
    choice("sideEffects", effects);
    if !has(webhook, "sideEffects") {
        let why = format!("must specify one of {}", effects.join(", "));
        faults.push(Error::required(&path.child("sideEffects"), why));
    }
    if let Some(seconds) = int(webhook, "timeoutSeconds").filter(|seconds| !(1..=30).contains(seconds)) {
        let why = "the timeout value must be between 1 and 30 seconds";
        faults.push(Error::invalid(&path.child("timeoutSeconds"), seconds, why));
    }
    for key in ["namespaceSelector", "objectSelector"] {
        faults.extend(selector(&webhook[key], &path.child(key)));
    }
    if has(webhook, "reinvocationPolicy") {
        let at = path.child("reinvocationPolicy");
        faults.extend(one_of(text(webhook, "reinvocationPolicy"), &at, &REINVOCATION_POLICIES));
    }
    let config = &webhook["clientConfig"];
    let at = path.child("clientConfig");
    match (has(config, "url"), has(config, "service")) {
        (true, false) => faults.extend(rules::webhook_url(&at.child("url"), text(config, "url"))),
        (false, true) => faults.extend(rules::webhook_service(&at.child("service"), &config["service"])),
        _ => faults.push(Error::required(&at, "exactly one of url or service is required")),
    }
    let conditions = list(webhook, "matchConditions");
    faults.extend(super::validate_conditions(
        conditions,
        &Known::new(false, true),
        &path.child("matchConditions"),
    ));
    faults
}

fn validate_versions(webhook: &Value, path: &Path, strictness: &Strictness) -> Faults {
    let versions = texts(webhook, "admissionReviewVersions");
    let known = REVIEW_VERSIONS.join(", ");
    if versions.is_empty() {
        return vec![Error::required(path, format!("must specify one of {known}"))];
    }
    let mut faults = Vec::new();
    for (index, version) in versions.iter().enumerate() {
        let at = path.index(index);
        if versions[..index].contains(version) {
            faults.push(Error::invalid(&at, *version, "duplicate version"));
            continue;
        }
        faults.extend(each_wrong(&at, version, names::dns1035_label(version)));
    }
    if strictness.known_version && !versions.iter().any(|version| REVIEW_VERSIONS.contains(version)) {
        let why = format!("must include at least one of {known}");
        faults.push(Error::invalid(path, webhook["admissionReviewVersions"].clone(), why));
    }
    faults
}
