//! What a federator may do in its own cluster, and what its credentials for members must allow there.

use serde_json::{Value, json};

use crate::names::{GROUP, LEASE, NAMESPACE, SECRET};

const NAME: &str = "koinon-config";
const MEMBER: &str = "koinon-config-member";
const FEDERATED: [&str; 2] = ["gslbconfigs", "globaldeploymentpolicies"];

/// Roles and bindings, ready to be applied to any cluster of the federation. Further kinds of `spec.objects` need
/// rules of their own, the same as for those that are always federated.
pub fn rbac() -> Vec<Value> {
    let read = ["get", "list", "watch"];
    let rule = |groups: &[&str], resources: &[&str], verbs: &[&str]| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
    let named = |mut rule: Value, name: &str| {
        rule["resourceNames"] = json!([name]);
        rule
    };
    let everywhere = [
        rule(&[GROUP], &["amkoclusters"], &read),
        rule(&[GROUP], &["amkoclusters/status"], &["patch"]),
        rule(&[GROUP], &FEDERATED, &read),
        named(rule(&[""], &["namespaces"], &read), NAMESPACE),
        rule(&[""], &["events"], &["create", "patch"]),
    ];
    let here = [
        named(rule(&[""], &["secrets"], &read), SECRET),
        rule(&["coordination.k8s.io"], &["leases"], &["create"]),
        named(rule(&["coordination.k8s.io"], &["leases"], &["get", "patch"]), LEASE),
    ];
    let replicas = [
        rule(&["coordination.k8s.io"], &["leases"], &["create"]),
        named(rule(&["coordination.k8s.io"], &["leases"], &["get", "update", "patch"]), NAME),
    ];
    let member = [
        rule(&[GROUP], &["amkoclusters"], &read),
        rule(&[GROUP], &FEDERATED, &["get", "list", "watch", "create", "update", "delete"]),
    ];
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME, "namespace": NAMESPACE}}),
        role("ClusterRole", NAME, None, &everywhere),
        role("Role", NAME, Some(NAMESPACE), &here),
        role("Role", NAME, Some("kube-system"), &replicas),
        role("Role", MEMBER, Some(NAMESPACE), &member),
        binding("ClusterRoleBinding", "ClusterRole", None),
        binding("RoleBinding", "Role", Some(NAMESPACE)),
        binding("RoleBinding", "Role", Some("kube-system")),
    ]
}

fn role(kind: &str, name: &str, namespace: Option<&str>, rules: &[Value]) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": metadata(name, namespace), "rules": rules,
    })
}

fn binding(kind: &str, role: &str, namespace: Option<&str>) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": metadata(NAME, namespace),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
    })
}

fn metadata(name: &str, namespace: Option<&str>) -> Value {
    match namespace {
        Some(namespace) => json!({"name": name, "namespace": namespace}),
        None => json!({"name": name}),
    }
}
