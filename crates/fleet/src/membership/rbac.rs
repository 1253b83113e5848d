//! What a federation may do in a member: what its role needs, and nothing else.

use koinon_api::membership::{GROUP, KOINON_NAMESPACE};
use serde_json::{Value, json};

/// The ClusterRole, its binding and the ServiceAccount that stand for a federation in a member.
pub const NAME: &str = "koinon-member";
/// On the binding: which federation it was made for, by the UID of its `kube-system` namespace.
pub const FEDERATION: &str = "koinon.dev/federation";
/// On the binding: how that federation calls the member.
pub const MEMBER: &str = "koinon.dev/member";

/// What the `workloads` role needs in a member.
pub fn rules() -> Value {
    json!([
        {"apiGroups": ["apps"], "resources": ["deployments", "replicasets"],
         "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]},
        {"apiGroups": ["apps"], "resources": ["deployments/status", "replicasets/status"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch", "create"]},
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
        // What the cluster says of itself is shown in its ClusterProfile.
        {"apiGroups": [GROUP], "resources": ["clusterclaims"], "verbs": ["get", "list"]},
        // So that it can go as it came: everything else here belongs to the binding and goes with it.
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterrolebindings"],
         "resourceNames": [NAME], "verbs": ["get", "delete"]},
    ])
}

/// The binding, to which all else belongs.
pub(super) fn binding(federation_uid: &str, member: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {
            "name": NAME,
            "labels": {"app.kubernetes.io/managed-by": "koinon"},
            "annotations": {FEDERATION: federation_uid, MEMBER: member},
        },
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": KOINON_NAMESPACE}],
    })
}

pub(super) fn role(owner: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": metadata(owner),
        "rules": rules(),
    })
}

pub(super) fn account(owner: &Value) -> Value {
    let mut metadata = metadata(owner);
    metadata["namespace"] = KOINON_NAMESPACE.into();
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "automountServiceAccountToken": false})
}

/// A token of the account that the cluster makes, and that does not end.
pub(super) fn token(name: &str, account: &str, owner: &Value) -> Value {
    let mut metadata = metadata(owner);
    metadata["name"] = name.into();
    metadata["namespace"] = KOINON_NAMESPACE.into();
    metadata["annotations"] = json!({"kubernetes.io/service-account.name": account});
    json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "metadata": metadata})
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
