//! Rules that cannot do across clusters what they seem to say.

use serde_json::Value;

use super::key::Kind;

/// What a user should know about the rules of a federated policy, one sentence for each kind of trouble.
///
/// Pods, virtual machines and native services are known in their own cluster only; across clusters a rule reaches
/// federated Services: egress by `toServices`, ingress by the external entities that are made for them.
pub fn warnings(kind: Kind, spec: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        let rules = spec.get(direction).and_then(Value::as_array).into_iter().flatten();
        for (index, rule) in rules.enumerate() {
            let peers = rule.get(peers).and_then(Value::as_array).into_iter().flatten();
            let mut local: Vec<&str> = peers.flat_map(local_selectors).collect();
            local.sort_unstable();
            local.dedup();
            if !local.is_empty() {
                let place = rule.get("name").and_then(Value::as_str).map_or_else(
                    || format!("{direction} rule {}", index + 1),
                    |name| format!("{direction} rule {name}"),
                );
                warnings.push(format!(
                    "{place} selects by {}, which finds only what runs in the same cluster; across clusters use {}",
                    local.join(" and "),
                    cure(kind, direction)
                ));
            }
        }
    }
    warnings
}

/// Selectors that see one cluster.
fn local_selectors(peer: &Value) -> Vec<&'static str> {
    let of_cluster = peer.get("scope").and_then(Value::as_str) != Some("ClusterSet");
    ["podSelector", "namespaceSelector", "namespaces", "nodeSelector", "serviceAccount"]
        .into_iter()
        .filter(|name| of_cluster && peer.get(name).is_some())
        .collect()
}

fn cure(kind: Kind, direction: &str) -> &'static str {
    match (direction, kind) {
        ("egress", _) => "toServices with a federated Service",
        (_, Kind::Namespaced) => "externalEntitySelector with the labels of a federated Service",
        // A ClusterNetworkPolicy has no externalEntitySelector.
        (_, Kind::Cluster) => "a NetworkPolicy with externalEntitySelector, or ipBlock",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(kind: Kind, spec: Value, beginnings: &[&str]) {
        let warnings = warnings(kind, &spec);
        assert_eq!(warnings.len(), beginnings.len(), "{warnings:#?}");
        for (warning, beginning) in warnings.iter().zip(beginnings) {
            assert!(warning.starts_with(beginning), "{warning}");
        }
    }

    #[test]
    fn only_selectors_of_one_cluster_are_warned_of() {
        check(Kind::Cluster, json!({}), &[]);
        let fine = json!({
            "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}, {"externalEntitySelector": {}}]}],
            "egress": [{"toServices": [{"name": "web", "namespace": "antrea-plus-system"}]}, {"to": [{"fqdn": "x.org"}]}],
        });
        check(Kind::Namespaced, fine, &[]);
        let local = json!({
            "ingress": [{"from": [{"podSelector": {}}, {"podSelector": {}, "namespaceSelector": {}}]}],
            "egress": [{}, {"name": "out", "to": [{"nodeSelector": {}}]}],
        });
        check(
            Kind::Namespaced,
            local,
            &[
                "ingress rule 1 selects by namespaceSelector and podSelector,",
                "egress rule out selects by nodeSelector,",
            ],
        );
        check(
            Kind::Cluster,
            json!({"ingress": [{"from": [{"podSelector": {}, "scope": "ClusterSet"}]}]}),
            &[],
        );
    }
}
