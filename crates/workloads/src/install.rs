//! What the federation's API server needs before the role can work beside it. Members get what they need by `koinon join`.

use koinon_api::membership;
use koinon_api::names::SYSTEM_NAMESPACE;
use koinon_api::names::membership::{GROUP, PROFILE_GROUP};
use koinon_webhook::Registration;
use serde_json::{Value, json};

/// The role's account and rights, its ValidatingWebhookConfiguration, and the Lease that its replicas contend for.
pub const NAME: &str = "koinon-workloads";
/// Where that Lease is.
const LEASES: &str = "kube-system";

/// The definitions of every kind that the role brings along.
pub fn crds() -> Vec<Value> {
    membership::crds()
}

/// The namespace, the account `koinon-workloads`, and what it may do; with what it needs to serve a webhook.
pub fn rbac(webhook: bool) -> Vec<Value> {
    let read = ["get", "list", "watch"];
    let write = ["get", "list", "watch", "create", "update", "patch", "delete"];
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let mut everywhere = vec![
        rule("apps", &["deployments"], &["get", "list", "watch", "update", "patch"]),
        // Shadows of a Deployment's revisions are ReplicaSets, and anchors that make deletions wait are ControllerRevisions.
        rule("apps", &["replicasets", "controllerrevisions"], &write),
        rule("apps", &["deployments/status", "replicasets/status"], &["get", "update", "patch"]),
        rule("apps", &["deployments/finalizers", "replicasets/finalizers"], &["update"]),
        rule("", &["namespaces"], &["get"]),
        rule("", &["events"], &["create", "patch"]),
        rule(GROUP, &["federations"], &read),
        rule(GROUP, &["federations/status"], &["get", "update", "patch"]),
    ];
    if webhook {
        everywhere.push(Registration::permission(NAME));
    }
    let ours = [
        rule("", &["secrets"], &read),
        rule("", &["configmaps"], &write),
        rule(PROFILE_GROUP, &["clusterprofiles"], &write),
        rule(PROFILE_GROUP, &["clusterprofiles/status"], &["get", "update", "patch"]),
    ];
    let leases = [rule("coordination.k8s.io", &["leases"], &["get", "create", "update", "patch"])];
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME, "namespace": SYSTEM_NAMESPACE}}),
        role("ClusterRole", None, &everywhere),
        binding("ClusterRole", None),
        role("Role", Some(SYSTEM_NAMESPACE), &ours),
        binding("Role", Some(SYSTEM_NAMESPACE)),
        role("Role", Some(LEASES), &leases),
        binding("Role", Some(LEASES)),
    ]
}

fn role(kind: &str, namespace: Option<&str>, rules: &[Value]) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata(namespace), "rules": rules,
    })
}

fn binding(role: &str, namespace: Option<&str>) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{role}Binding"), "metadata": metadata(namespace),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": SYSTEM_NAMESPACE}],
    })
}

fn metadata(namespace: Option<&str>) -> Value {
    match namespace {
        Some(namespace) => json!({"name": NAME, "namespace": namespace}),
        None => json!({"name": NAME}),
    }
}
