//! `admissionregistration.k8s.io`: webhooks and policies that have a say in other requests.

mod expressions;
mod policies;
mod webhooks;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use self::expressions::compile;
use super::look::{Faults, default, each, each_wrong, has, list, one_of, text, texts};
use crate::cel::request::{Known, Wanted};
use crate::field::{Error, Path};
use crate::kinds::{Generation, Strategy};
use crate::names;

/// What all kinds of this group have in common.
const COMMON: Strategy =
    Strategy { generation: Generation::Spec, unconditional_update: false, ..Strategy::PLAIN };

const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];
const REINVOCATION_POLICIES: [&str; 2] = ["IfNeeded", "Never"];
const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

pub(super) fn strategy(kind: &str) -> Option<&'static Strategy> {
    match kind {
        "ValidatingWebhookConfiguration" => Some(&webhooks::VALIDATING),
        "MutatingWebhookConfiguration" => Some(&webhooks::MUTATING),
        "ValidatingAdmissionPolicy" => Some(&policies::VALIDATING),
        "ValidatingAdmissionPolicyBinding" => Some(&policies::VALIDATING_BINDING),
        "MutatingAdmissionPolicy" => Some(&policies::MUTATING),
        "MutatingAdmissionPolicyBinding" => Some(&policies::MUTATING_BINDING),
        _ => None,
    }
}

/// What both webhooks and policies leave out: which requests they see.
fn default_matching(value: &mut Value, rules: &[&str]) {
    default(value, "matchPolicy", "Equivalent");
    default(value, "namespaceSelector", json!({}));
    default(value, "objectSelector", json!({}));
    for key in rules {
        for rule in each(value, key) {
            default(rule, "scope", "*");
        }
    }
}

fn wildcard_alone(values: &Value, path: &Path, what: &str) -> Option<Error> {
    let items = values.as_array()?;
    (items.len() > 1 && items.iter().any(|item| item == "*")).then(|| {
        Error::invalid(path, values.clone(), format!("if '*' is present, must not specify other {what}"))
    })
}

fn validate_rule(rule: &Value, path: &Path) -> Faults {
    let mut faults = Vec::new();
    let operations = path.child("operations");
    if list(rule, "operations").is_empty() {
        faults.push(Error::required(&operations, ""));
    }
    faults.extend(wildcard_alone(&rule["operations"], &operations, "operations"));
    for (index, operation) in texts(rule, "operations").into_iter().enumerate() {
        faults.extend(one_of(operation, &operations.index(index), &OPERATIONS));
    }
    for (key, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let at = path.child(key);
        if list(rule, key).is_empty() {
            faults.push(Error::required(&at, ""));
        }
        faults.extend(wildcard_alone(&rule[key], &at, what));
    }
    for (index, version) in texts(rule, "apiVersions").into_iter().enumerate() {
        if version.is_empty() {
            faults.push(Error::required(&path.child("apiVersions").index(index), ""));
        }
    }
    faults.extend(validate_resources(rule, &path.child("resources")));
    if has(rule, "scope") {
        faults.extend(one_of(text(rule, "scope"), &path.child("scope"), &["*", "Cluster", "Namespaced"]));
    }
    faults
}

/// `pods`, `pods/log`, `pods/*`, `*/scale`, `*`, `*/*`: none of which may cover another.
fn validate_resources(rule: &Value, path: &Path) -> Faults {
    let resources = texts(rule, "resources");
    let mut faults = Vec::new();
    if resources.is_empty() {
        faults.push(Error::required(path, ""));
    }
    let (mut every_subresource, mut every_resource) = (Vec::new(), Vec::new());
    let mut plain = false;
    for (index, resource) in resources.iter().enumerate() {
        let at = path.index(index);
        if resource.is_empty() {
            faults.push(Error::required(&at, ""));
            continue;
        }
        let Some((name, part)) = resource.split_once('/') else {
            plain = *resource != "*";
            continue;
        };
        if every_subresource.contains(&name) {
            let why = format!("if '{name}/*' is present, must not specify {resource}");
            faults.push(Error::invalid(&at, *resource, why));
        }
        if every_resource.contains(&part) {
            let why = format!("if '*/{part}' is present, must not specify {resource}");
            faults.push(Error::invalid(&at, *resource, why));
        }
        if part == "*" {
            every_subresource.push(name);
        }
        if name == "*" {
            every_resource.push(part);
        }
    }
    if resources.len() > 1 && resources.contains(&"*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        faults.push(Error::invalid(path, rule["resources"].clone(), why));
    }
    if resources.contains(&"*") && plain {
        let why = "if '*' is present, must not specify other resources without subresources";
        faults.push(Error::invalid(path, rule["resources"].clone(), why));
    }
    faults
}

/// Conditions that use what is known.
fn validate_conditions(conditions: &[Value], known: &Known, path: &Path) -> Faults {
    const MOST: usize = 64;
    let mut faults = Vec::new();
    if conditions.len() > MOST {
        faults.push(Error::too_many(path, conditions.len(), MOST));
    }
    let mut seen = BTreeSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        match text(condition, "expression").trim() {
            "" => faults.push(Error::required(&path.child("expression"), "")),
            source => {
                compile(source, known, Wanted::Bool, &path.child("expression"), &mut faults);
            }
        }
        let name = text(condition, "name");
        let at = path.child("name");
        if name.is_empty() {
            faults.push(Error::required(&at, ""));
            continue;
        }
        faults.extend(each_wrong(&at, name, names::qualified_name(name)));
        if !seen.insert(name) {
            faults.push(Error::duplicate(&at, name));
        }
    }
    faults
}
