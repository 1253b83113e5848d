//! What a cluster needs before the role can work beside it, and what its credentials for members must allow there.

use koinon_api::membership;
use koinon_api::membership::NETWORK_NAMESPACE;
use koinon_api::names::membership::GROUP;
use koinon_api::names::network::{MCS_GROUP, NATIVE_SERVICE_GROUP, VIRTUAL_MACHINE_GROUP};
use koinon_api::network::native_service_crd;
use koinon_webhook::Registration;
use serde_json::{Value, json};

use crate::policies;

const NAME: &str = "koinon-network";
/// The ValidatingWebhookConfiguration of the role.
pub const WEBHOOK: &str = NAME;
const MEMBER: &str = "koinon-network-member";

/// The definitions of every kind that the role brings along.
pub fn crds() -> Vec<Value> {
    vec![membership::cluster_claim_crd(), membership::federation_crd(), native_service_crd()]
}

/// What the role needs in addition to serve a webhook: the rule that allows it to keep its own registration.
pub fn webhook_rbac() -> Vec<Value> {
    const RIGHT: &str = "koinon-network-webhook";
    vec![
        role("ClusterRole", RIGHT, None, &[Registration::permission(WEBHOOK)]),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": metadata(RIGHT, None),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": RIGHT},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NETWORK_NAMESPACE}],
        }),
    ]
}

/// The namespace, accounts, roles and bindings, ready to be applied to any cluster of the federation. The account
/// `koinon-network` is for the role beside the cluster, `koinon-network-member` for supervisors of other clusters.
pub fn rbac() -> Vec<Value> {
    let read = ["get", "list", "watch"];
    let write = ["get", "list", "watch", "create", "update", "patch", "delete"];
    let rule = |groups: &[&str], resources: &[&str], verbs: &[&str]| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
    let member = [
        rule(&[""], &["services"], &write),
        rule(&["discovery.k8s.io"], &["endpointslices", "endpointslices/restricted"], &write),
        rule(&[""], &["nodes", "namespaces"], &read),
        rule(&["", "events.k8s.io"], &["events"], &["create", "patch"]),
        rule(&[GROUP], &["federations", "clusterclaims"], &read),
        rule(&[NATIVE_SERVICE_GROUP], &["nativeservices"], &read),
        rule(&[VIRTUAL_MACHINE_GROUP], &["virtualmachines"], &read),
        rule(&[MCS_GROUP], &["serviceexports"], &read),
        rule(&[MCS_GROUP], &["serviceimports"], &write),
        rule(&[MCS_GROUP], &["serviceexports/status", "serviceimports/status"], &["get", "update", "patch"]),
        rule(
            &[policies::names::GROUP],
            &["networkpolicies", "clusternetworkpolicies", "externalentities"],
            &write,
        ),
        rule(&[policies::names::GROUP], &["tiers"], &read),
        // Whether Antrea was installed anew, which removes policies and is no user's removal.
        rule(&["apiextensions.k8s.io"], &["customresourcedefinitions"], &["get"]),
    ];
    let leases = [rule(&["coordination.k8s.io"], &["leases"], &["get", "create", "update", "patch"])];
    let ours = [leases[0].clone(), rule(&[""], &["configmaps"], &write)];
    let here = [rule(&[""], &["secrets"], &read)];
    // Also of Federations that are where none belongs: they are told so.
    let status = [rule(&[GROUP], &["federations/status"], &["get", "update", "patch"])];
    let account = |name: &str| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NETWORK_NAMESPACE}});
    let mut all = vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NETWORK_NAMESPACE}}),
        account(NAME),
        account(MEMBER),
        role("ClusterRole", MEMBER, None, &member),
        role("ClusterRole", NAME, None, &status),
        role("Role", MEMBER, Some(NETWORK_NAMESPACE), &ours),
        role("Role", NAME, Some(NETWORK_NAMESPACE), &here),
        role("Role", NAME, Some("kube-system"), &leases),
    ];
    for account in [NAME, MEMBER] {
        all.push(binding("ClusterRoleBinding", "ClusterRole", MEMBER, account, None));
        all.push(binding("RoleBinding", "Role", MEMBER, account, Some(NETWORK_NAMESPACE)));
    }
    all.push(binding("ClusterRoleBinding", "ClusterRole", NAME, NAME, None));
    all.push(binding("RoleBinding", "Role", NAME, NAME, Some(NETWORK_NAMESPACE)));
    all.push(binding("RoleBinding", "Role", NAME, NAME, Some("kube-system")));
    all
}

fn role(kind: &str, name: &str, namespace: Option<&str>, rules: &[Value]) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": metadata(name, namespace), "rules": rules,
    })
}

/// Two accounts can have one role, so a binding is named by both.
fn binding(kind: &str, role_kind: &str, role: &str, account: &str, namespace: Option<&str>) -> Value {
    let name = if role == account { role.to_owned() } else { format!("{account}-as-member") };
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": metadata(&name, namespace),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NETWORK_NAMESPACE}],
    })
}

fn metadata(name: &str, namespace: Option<&str>) -> Value {
    match namespace {
        Some(namespace) => json!({"name": name, "namespace": namespace}),
        None => json!({"name": name}),
    }
}
