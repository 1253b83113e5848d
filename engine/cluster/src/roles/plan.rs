//! Which rules a role gathers.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::ResourceExt as _;
use kube::core::{Selector, SelectorExt as _};

/// The rules that a role should have, unless it has them already or gathers none.
pub(super) fn change(roles: &BTreeMap<String, ClusterRole>, name: &str) -> Option<Vec<PolicyRule>> {
    let role = roles.get(name)?;
    let selectors = role.aggregation_rule.as_ref()?.cluster_role_selectors.iter().flatten();
    let mut rules: Vec<PolicyRule> = Vec::new();
    for selector in selectors {
        // An empty selector selects everything; one that makes no sense selects nothing.
        let Ok(selector) = Selector::try_from(selector.clone()) else { continue };
        // Roles come by name, so the rules always come in the same order.
        for (other, source) in roles.iter().filter(|(other, _)| *other != name) {
            if !selector.matches(source.labels()) {
                tracing::trace!(name, other, "not selected");
                continue;
            }
            for rule in source.rules.iter().flatten() {
                if !rules.iter().any(|known| same(known, rule)) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    let has = role.rules.as_deref().unwrap_or_default();
    let unchanged = has.len() == rules.len() && has.iter().zip(&rules).all(|(a, b)| same(a, b));
    (!unchanged).then_some(rules)
}

/// Equal, where an empty list and none mean the same.
fn same(a: &PolicyRule, b: &PolicyRule) -> bool {
    fn list(list: &Option<Vec<String>>) -> &[String] {
        list.as_deref().unwrap_or_default()
    }
    a.verbs == b.verbs
        && list(&a.api_groups) == list(&b.api_groups)
        && list(&a.resources) == list(&b.resources)
        && list(&a.resource_names) == list(&b.resource_names)
        && list(&a.non_resource_urls) == list(&b.non_resource_urls)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn roles(roles: Value) -> BTreeMap<String, ClusterRole> {
        let roles: Vec<ClusterRole> = serde_json::from_value(roles).unwrap();
        roles.into_iter().map(|role| (role.metadata.name.clone().unwrap(), role)).collect()
    }

    fn rule(resource: &str) -> Value {
        json!({"apiGroups": [""], "resources": [resource], "verbs": ["get"]})
    }

    fn check(selectors: Value, expected: Option<&[&str]>) {
        let roles = roles(json!([
            {"metadata": {"name": "sum"}, "aggregationRule": {"clusterRoleSelectors": selectors}, "rules": [rule("c"), rule("a")]},
            {"metadata": {"name": "z", "labels": {"to": "sum", "old": "no"}}, "rules": [rule("a")]},
            {"metadata": {"name": "y", "labels": {"to": "sum"}}, "rules": [rule("c"), rule("a")]},
            {"metadata": {"name": "x", "labels": {"to": "else"}}, "rules": [rule("x")]},
        ]));
        let rules = change(&roles, "sum").map(|rules| {
            rules.iter().map(|rule| rule.resources.as_ref().unwrap()[0].clone()).collect::<Vec<_>>()
        });
        assert_eq!(
            rules,
            expected.map(|names| names.iter().map(|name| name.to_string()).collect()),
            "{selectors}"
        );
    }

    #[test]
    fn rules_are_gathered_once_in_the_order_of_roles() {
        check(json!([{"matchLabels": {"to": "sum"}}]), None);
        check(
            json!([{"matchLabels": {"to": "else"}}, {"matchLabels": {"to": "sum"}}]),
            Some(&["x", "c", "a"]),
        );
        check(json!([{}]), Some(&["x", "c", "a"]));
        check(json!([]), Some(&[]));
        check(json!([{"matchExpressions": [{"key": "old", "operator": "Exists"}]}]), Some(&["a"]));
        check(json!([{"matchExpressions": [{"key": "to", "operator": "NotIn", "values": ["else"]}]}]), None);
        check(
            json!([{"matchExpressions": [{"key": "to", "operator": "In", "values": ["else"]}]}]),
            Some(&["x"]),
        );
        check(json!([{"matchExpressions": [{"key": "old", "operator": "Nonsense"}]}]), Some(&[]));
    }

    #[test]
    fn no_list_and_an_empty_one_are_the_same() {
        let roles = roles(json!([
            {"metadata": {"name": "sum"}, "aggregationRule": {"clusterRoleSelectors": [{}]},
             "rules": [{"apiGroups": [""], "resources": ["a"], "resourceNames": [], "verbs": ["get"]}]},
            {"metadata": {"name": "a"}, "rules": [rule("a")]},
            {"metadata": {"name": "b"}, "rules": [rule("a")]},
        ]));
        assert_eq!(change(&roles, "sum"), None);
        assert_eq!(change(&roles, "a"), None);
        assert_eq!(change(&roles, "missing"), None);
    }
}
