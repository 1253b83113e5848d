//! What selectors select and what tolerations tolerate.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

type Labels = BTreeMap<String, String>;

/// Whether a selector selects these labels. None selects nothing, an empty one everything.
pub(super) fn selects(selector: Option<&LabelSelector>, labels: &Labels) -> bool {
    let Some(selector) = selector else { return false };
    let equal = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    equal
        && selector.match_expressions.iter().flatten().all(|one| {
            satisfies(labels.get(&one.key), &one.operator, one.values.as_deref().unwrap_or_default())
        })
}

/// Whether a pod may run on a node by its node selector and its required node affinity.
pub(crate) fn wants_node(spec: &PodSpec, node: &Node) -> bool {
    let empty = Labels::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&empty);
    let selected = spec.node_selector.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required =
        affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    selected
        && required
            .is_none_or(|required| required.node_selector_terms.iter().any(|term| term_matches(term, node)))
}

/// How much a pod would like a node, by its preferred node affinity.
pub(super) fn likes_node(spec: &PodSpec, node: &Node) -> i64 {
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let preferred =
        affinity.and_then(|one| one.preferred_during_scheduling_ignored_during_execution.as_ref());
    let weights = preferred.into_iter().flatten().filter(|one| term_matches(&one.preference, node));
    weights.map(|one| i64::from(one.weight)).sum()
}

/// Terms are alternatives; one without any requirement matches nothing.
fn term_matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let empty = Labels::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&empty);
    let requirement = |one: &NodeSelectorRequirement, value: Option<&String>| {
        satisfies(value, &one.operator, one.values.as_deref().unwrap_or_default())
    };
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|one| requirement(one, labels.get(&one.key)))
        && fields
            .iter()
            .all(|one| one.key == "metadata.name" && requirement(one, node.metadata.name.as_ref()))
}

fn satisfies(value: Option<&String>, operator: &str, wanted: &[String]) -> bool {
    let listed = value.is_some_and(|value| wanted.contains(value));
    let compared = || {
        let value: i64 = value?.parse().ok()?;
        let wanted: i64 = wanted.first()?.parse().ok()?;
        Some(value.cmp(&wanted))
    };
    match operator {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared().is_some_and(|order| order.is_gt()),
        "Lt" => compared().is_some_and(|order| order.is_lt()),
        _ => false,
    }
}

/// Whether any of a pod's tolerations tolerates a taint.
pub(crate) fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| matches_taint(toleration, taint))
}

/// Whether a toleration is meant for a taint.
pub(crate) fn matches_taint(toleration: &Toleration, taint: &Taint) -> bool {
    fn given(text: &Option<String>) -> Option<&str> {
        text.as_deref().filter(|text| !text.is_empty())
    }
    if given(&toleration.effect).is_some_and(|effect| effect != taint.effect)
        || given(&toleration.key).is_some_and(|key| key != taint.key)
    {
        return false;
    }
    match given(&toleration.operator) {
        None | Some("Equal") => given(&toleration.value) == given(&taint.value),
        Some("Exists") => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn node_affinity_has_alternatives_of_requirements() {
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": "n", "labels": {"zone": "a", "cores": "8"}}
        }))
        .unwrap();
        let requirement = |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
        let table: [(Value, bool); 11] = [
            (json!([{"matchExpressions": [requirement("zone", "In", &["a", "b"])]}]), true),
            (json!([{"matchExpressions": [requirement("zone", "NotIn", &["a"])]}]), false),
            (json!([{"matchExpressions": [requirement("gpu", "NotIn", &["a"])]}]), true),
            (json!([{"matchExpressions": [requirement("gpu", "Exists", &[])]}]), false),
            (json!([{"matchExpressions": [requirement("gpu", "DoesNotExist", &[])]}]), true),
            (json!([{"matchExpressions": [requirement("cores", "Gt", &["4"])]}]), true),
            (json!([{"matchExpressions": [requirement("cores", "Lt", &["8"])]}]), false),
            (json!([{"matchExpressions": [requirement("zone", "Gt", &["4"])]}]), false),
            (json!([{"matchFields": [requirement("metadata.name", "In", &["n"])]}]), true),
            (json!([{}]), false),
            (json!([{}, {"matchExpressions": [requirement("zone", "Exists", &[])]}]), true),
        ];
        for (terms, expected) in table {
            let spec: PodSpec = serde_json::from_value(json!({
                "containers": [],
                "affinity": {"nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
                }},
            }))
            .unwrap();
            assert_eq!(wants_node(&spec, &node), expected, "{terms}");
        }
        let spec: PodSpec =
            serde_json::from_value(json!({"containers": [], "nodeSelector": {"zone": "b"}})).unwrap();
        assert!(!wants_node(&spec, &node));
    }

    #[test]
    fn tolerations_are_for_taints_of_their_key_value_and_effect() {
        let taint: Taint =
            serde_json::from_value(json!({"key": "k", "value": "v", "effect": "NoSchedule"})).unwrap();
        for (toleration, expected) in [
            (json!({"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}), true),
            (json!({"key": "k", "value": "v"}), true),
            (json!({"key": "k", "value": "w"}), false),
            (json!({"key": "k", "operator": "Exists"}), true),
            (json!({"operator": "Exists"}), true),
            (json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}), false),
            (json!({"key": "other", "operator": "Exists"}), false),
            (json!({"key": "k"}), false),
        ] {
            let one: Toleration = serde_json::from_value(toleration.clone()).unwrap();
            assert_eq!(tolerates(&[one], &taint), expected, "{toleration}");
        }
    }
}
