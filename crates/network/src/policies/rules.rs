//! Rules that cannot do across clusters what they seem to say.

use koinon_control::Key;
use serde_json::Value;

use super::key::{Kind, PolicyKey};

/// What a user should know about the rules of a federated policy, one sentence for each kind of trouble.
///
/// Pods, virtual machines and native services are known in their own cluster only; across clusters a rule reaches
/// federated Services: egress by `toServices`, ingress by the external entities that are made for them. `is_plain` says of a
/// Service that it certainly is no federated one.
pub fn warnings(policy: &PolicyKey, spec: &Value, is_plain: impl Fn(&Key) -> bool) -> Vec<String> {
    let mut warnings = Vec::new();
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in array(spec, direction).enumerate() {
            let place = rule.get("name").and_then(Value::as_str).map_or_else(
                || format!("{direction} rule {}", index + 1),
                |name| format!("{direction} rule {name}"),
            );
            let mut local: Vec<&str> = array(rule, peers).flat_map(local_selectors).collect();
            local.sort_unstable();
            local.dedup();
            if !local.is_empty() {
                warnings.push(format!(
                    "{place} selects by {}, which finds only what runs in the same cluster; across clusters use {}",
                    local.join(" and "),
                    cure(policy.kind, direction)
                ));
            }
            for service in array(rule, "toServices").filter_map(|peer| named(policy, peer)) {
                if is_plain(&service) {
                    warnings.push(format!(
                        "{place} names the Service {service}, which each cluster has for itself, if at all; across clusters \
                         name a federated Service"
                    ));
                }
            }
        }
    }
    warnings
}

fn array<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// The Service of the same cluster that a rule names; without a namespace it is in that of the policy.
fn named(policy: &PolicyKey, peer: &Value) -> Option<Key> {
    let text = |key| peer.get(key).and_then(Value::as_str);
    let is_local = text("scope").is_none_or(|scope| scope == "Cluster");
    let namespace = text("namespace").unwrap_or(&policy.namespace);
    text("name").filter(|_| is_local).map(|name| Key::new(namespace, name))
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
        let policy = match kind {
            Kind::Cluster => PolicyKey::cluster("policy"),
            Kind::Namespaced => PolicyKey::namespaced("prod", "policy"),
        };
        let warnings = warnings(&policy, &spec, |service| service.namespace == "prod");
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
    #[test]
    fn a_service_that_is_not_federated_is_warned_of() {
        let rules = json!({"egress": [
            {"toServices": [{"name": "web", "namespace": "antrea-plus-system"}]},
            {"toServices": [{"name": "web"}, {"name": "api", "namespace": "prod", "scope": "ClusterSet"}]},
            {"name": "out", "toServices": [{"name": "api", "namespace": "prod", "scope": "Cluster"}]},
        ]});
        check(
            Kind::Namespaced,
            rules.clone(),
            &["egress rule 2 names the Service prod/web,", "egress rule out names the Service prod/api,"],
        );
        check(Kind::Cluster, rules, &["egress rule out names the Service prod/api,"]);
    }
}
