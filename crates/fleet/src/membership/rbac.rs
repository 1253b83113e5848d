//! What a federation may do in a member: what its role needs, and nothing else.

use std::collections::BTreeMap;

use koinon_api::membership::{GROUP, KOINON_NAMESPACE};
use koinon_api::rights::{READ, named, rule};
use serde_json::{Value, json};

use super::scope::Scope;

/// The ClusterRole, its binding and the ServiceAccount that stand for a federation in a member.
pub const NAME: &str = "koinon-member";
/// On the binding: which federation it was made for, by the UID of its `kube-system` namespace.
pub const FEDERATION: &str = "koinon.dev/federation";
/// On the binding: how that federation calls the member.
pub const MEMBER: &str = "koinon.dev/member";

/// On the binding: the namespaces that the federation may write in, where it may not in all.
pub(super) const NAMESPACES: &str = "koinon.dev/namespaces";

/// What the `workloads` role needs in a member, in all namespaces. It watches whole clusters, so it reads everywhere.
pub fn rules(scope: &Scope) -> Value {
    let mut rules = vec![
        rule(&["apps"], &["deployments", "replicasets"], &READ),
        rule(&["apps"], &["deployments/status", "replicasets/status"], &["get"]),
        rule(&[""], &["namespaces", "pods", "nodes"], &READ),
        // What the cluster says of itself is shown in its ClusterProfile.
        rule(&[GROUP], &["clusterclaims"], &["get", "list"]),
        // So that it can go as it came: everything else here belongs to the binding and goes with it.
        named(rule(&["rbac.authorization.k8s.io"], &["clusterrolebindings"], &["get", "delete"]), &[NAME]),
    ];
    if *scope == Scope::Everywhere {
        rules.push(rule(&[""], &["namespaces"], &["create"]));
        rules.extend(writes());
    }
    Value::Array(rules)
}

/// What it needs in addition in the namespaces that it writes in.
fn writes() -> [Value; 2] {
    [
        rule(&["apps"], &["deployments", "replicasets"], &["create", "update", "patch", "delete"]),
        rule(&["", "events.k8s.io"], &["events"], &["create", "patch"]),
    ]
}

/// What it needs in single namespaces: to renew its own token, and to write where it may not write everywhere.
pub(super) fn within(scope: &Scope, namespaces: &[String]) -> BTreeMap<String, Vec<Value>> {
    let renew = named(rule(&[""], &["serviceaccounts/token"], &["create"]), &[NAME]);
    let mut within = BTreeMap::from([(KOINON_NAMESPACE.to_owned(), vec![renew])]);
    if let Scope::Matching(_) = scope {
        for namespace in namespaces.iter().filter(|namespace| scope.includes(namespace)) {
            within.entry(namespace.clone()).or_default().extend(writes());
        }
    }
    within
}

/// The binding, to which all else belongs.
pub(super) fn binding(federation_uid: &str, member: &str, scope: &Scope) -> Value {
    let mut binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {
            "name": NAME,
            "labels": {"app.kubernetes.io/managed-by": "koinon"},
            "annotations": {FEDERATION: federation_uid, MEMBER: member},
        },
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": KOINON_NAMESPACE}],
    });
    if let Scope::Matching(_) = scope {
        binding["metadata"]["annotations"][NAMESPACES] = scope.to_string().into();
    }
    binding
}

pub(super) fn role(owner: &Value, scope: &Scope) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": metadata(owner),
        "rules": rules(scope),
    })
}

/// A Role in one namespace and its binding.
pub(super) fn role_in(owner: &Value, namespace: &str, rules: &[Value]) -> [Value; 2] {
    let mut metadata = metadata(owner);
    metadata["namespace"] = namespace.into();
    [
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": KOINON_NAMESPACE}],
        }),
    ]
}

pub(super) fn account(owner: &Value) -> Value {
    let mut metadata = metadata(owner);
    metadata["namespace"] = KOINON_NAMESPACE.into();
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "automountServiceAccountToken": false})
}

/// That something belongs to the binding with this UID.
pub(super) fn owner(uid: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "name": NAME, "uid": uid})
}

fn metadata(owner: &Value) -> Value {
    json!({
        "name": NAME,
        "labels": {"app.kubernetes.io/managed-by": "koinon"},
        "ownerReferences": [owner],
    })
}
