//! ClusterRoles that are the sum of others, picked by their labels.

use serde_json::Value;

use super::Rule;

/// The rules that an aggregated ClusterRole should have, if it does not have them yet. `all` are the
/// ClusterRoles of the cluster, in any order, the role itself among them or not.
pub fn aggregate(role: &Value, all: &[&Value]) -> Option<Vec<Value>> {
    let selectors = role.get("aggregationRule")?.get("clusterRoleSelectors").and_then(Value::as_array);
    let mut others: Vec<&Value> = all.iter().copied().filter(|one| name(one) != name(role)).collect();
    others.sort_by_key(|one| name(one));

    let mut known: Vec<Rule> = Vec::new();
    let mut rules: Vec<Value> = Vec::new();
    for selector in selectors.into_iter().flatten() {
        for one in others.iter().filter(|one| selects(selector, &one["metadata"]["labels"])) {
            for rule in one["rules"].as_array().into_iter().flatten() {
                let parsed = Rule::parse(rule);
                if !known.contains(&parsed) {
                    known.push(parsed);
                    rules.push(rule.clone());
                }
            }
        }
    }
    (known != Rule::parse_all(role.get("rules"))).then_some(rules)
}

fn name(role: &Value) -> &str {
    role["metadata"]["name"].as_str().unwrap_or_default()
}

/// Whether a label selector in its JSON form picks these labels; an empty one picks all.
fn selects(selector: &Value, labels: &Value) -> bool {
    let exact = selector["matchLabels"].as_object().into_iter().flatten();
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    exact.into_iter().all(|(key, value)| labels.get(key) == Some(value))
        && expressions.into_iter().all(|expression| {
            let label = expression["key"].as_str().and_then(|key| labels.get(key));
            let listed = || {
                let values = expression["values"].as_array();
                values.is_some_and(|values| label.is_some_and(|label| values.contains(label)))
            };
            match expression["operator"].as_str() {
                Some("In") => listed(),
                Some("NotIn") => !listed(),
                Some("Exists") => label.is_some(),
                Some("DoesNotExist") => label.is_none(),
                _ => false,
            }
        })
}
