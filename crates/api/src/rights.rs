//! Accounts, roles and bindings, as those who install Koinon apply them.

use serde_json::{Value, json};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Looking at everything of a kind.
pub const READ: [&str; 3] = ["get", "list", "watch"];
/// Doing anything with a kind, but not removing all of it at once.
pub const WRITE: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];

/// A ServiceAccount.
#[derive(Debug, Clone, Copy)]
pub struct Account<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
}

impl Account<'_> {
    /// The object that makes it.
    pub fn object(self) -> Value {
        let Account { namespace, name } = self;
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(name, Some(namespace))})
    }

    /// Gives it what a role allows: in one namespace, or everywhere if there is none.
    pub fn bind(self, name: &str, namespace: Option<&str>, role: &str) -> Value {
        let kind = role_kind(namespace);
        json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": format!("{kind}Binding"), "metadata": metadata(name, namespace),
            "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}],
        })
    }
}

/// A Namespace.
pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// A Role in a namespace, or a ClusterRole if there is none.
pub fn role(name: &str, namespace: Option<&str>, rules: &[Value]) -> Value {
    let kind = role_kind(namespace);
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": metadata(name, namespace), "rules": rules})
}

/// What a role allows.
pub fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}

/// The same, for objects of one of these names only.
pub fn named(mut rule: Value, names: &[&str]) -> Value {
    rule["resourceNames"] = json!(names);
    rule
}

/// Contending for one Lease. A creation has no name that a rule could look at; everything else has.
pub fn lease(name: &str) -> [Value; 2] {
    let leases = |verbs: &[&str]| rule(&["coordination.k8s.io"], &["leases"], verbs);
    [leases(&["create"]), named(leases(&["get", "update", "patch"]), &[name])]
}

fn role_kind(namespace: Option<&str>) -> &'static str {
    if namespace.is_some() { "Role" } else { "ClusterRole" }
}

fn metadata(name: &str, namespace: Option<&str>) -> Value {
    match namespace {
        Some(namespace) => json!({"name": name, "namespace": namespace}),
        None => json!({"name": name}),
    }
}
