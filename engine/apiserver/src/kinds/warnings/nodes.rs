//! Nodes, and the labels of nodes that have newer names.

use serde_json::Value;

use super::super::walk::{At, text};
use super::{addresses, at};
use crate::names;

/// What is said of a deprecated label.
pub(super) fn deprecated_label(key: &str) -> Option<&'static str> {
    Some(match key {
        "beta.kubernetes.io/arch" => r#"deprecated since v1.14; use "kubernetes.io/arch" instead"#,
        "beta.kubernetes.io/os" => r#"deprecated since v1.14; use "kubernetes.io/os" instead"#,
        "failure-domain.beta.kubernetes.io/region" => {
            r#"deprecated since v1.17; use "topology.kubernetes.io/region" instead"#
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            r#"deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#
        }
        "beta.kubernetes.io/instance-type" => {
            r#"deprecated since v1.17; use "node.kubernetes.io/instance-type" instead"#
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => {
            "deprecated since v1.22; use Taints and Tolerations instead"
        }
        "node-role.kubernetes.io/master" => r#"use "node-role.kubernetes.io/control-plane" instead"#,
        _ => return None,
    })
}

/// Whether the values of a term were checked as labels already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Values {
    Checked,
    Unchecked,
}

/// Warnings about one term of a node selector.
pub(super) fn selector_term(term: &At<'_>, values: Values) -> Vec<String> {
    let mut warnings = Vec::new();
    for expression in term.child("matchExpressions").items() {
        warnings.extend(expression_key(&expression));
        if values == Values::Checked {
            continue;
        }
        for value in expression.child("values").items() {
            let text = value.str();
            let wrong = names::label_value(text).into_iter();
            warnings.extend(wrong.map(|why| at(&value.path, format_args!("{text} is invalid, {why}"))));
        }
    }
    warnings
}

/// Warnings about a label selector that selects nodes.
pub(super) fn label_selector(selector: &At<'_>) -> Vec<String> {
    let expressions = selector.child("matchExpressions");
    let mut warnings: Vec<String> = expressions.items().filter_map(|one| expression_key(&one)).collect();
    let labels = selector.child("matchLabels");
    for (key, _) in labels.entries() {
        warnings.extend(deprecated_label(key).map(|why| at(&labels.path.child(key), why)));
    }
    warnings
}

fn expression_key(expression: &At<'_>) -> Option<String> {
    let key = expression.child("key");
    let why = deprecated_label(key.str())?;
    Some(at(&key.path, format_args!("{} is {why}", key.str())))
}

pub(super) fn node(node: &Value) -> Vec<String> {
    let spec = At::top(node, "spec");
    let mut warnings = Vec::new();
    if spec.has("configSource") {
        warnings.push("spec.configSource: the feature is removed".to_owned());
    }
    if !text(spec.value, "externalID").is_empty() {
        warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
    warnings.extend(spec.child("podCIDRs").items().flat_map(|cidr| addresses::range(&cidr)));
    warnings
}

pub(super) fn runtime_class(class: &Value) -> Vec<String> {
    let selector = At::top(class, "scheduling").child("nodeSelector");
    let keys = selector.entries().filter_map(|(key, _)| deprecated_label(key));
    keys.map(|why| at(&selector.path, why)).collect()
}
