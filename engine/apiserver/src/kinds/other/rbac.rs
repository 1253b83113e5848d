//! `rbac.authorization.k8s.io`: roles and who holds them.

use serde_json::Value;

use super::look::{Faults, default_empty, each, each_wrong, has, list, text, within};
use crate::field::{Error, Path};
use crate::kinds::{Strategy, meta};
use crate::names;

const GROUP: &str = "rbac.authorization.k8s.io";

const COMMON: Strategy = Strategy { name: names::path_segment, create_on_update: true, ..Strategy::PLAIN };

static ROLE: Strategy = Strategy {
    validate: |role| validate_rules(role, Scope::Namespace),
    validate_update: |new, old| then_change(validate_rules(new, Scope::Namespace), new, old),
    ..COMMON
};

static CLUSTER_ROLE: Strategy = Strategy {
    validate: validate_cluster_role,
    validate_update: |new, old| then_change(validate_cluster_role(new), new, old),
    ..COMMON
};

static ROLE_BINDING: Strategy = Strategy {
    default: default_binding,
    validate: |binding| validate_binding(binding, Scope::Namespace),
    validate_update: |new, old| validate_binding_update(new, old, Scope::Namespace),
    ..COMMON
};

static CLUSTER_ROLE_BINDING: Strategy = Strategy {
    default: default_binding,
    validate: |binding| validate_binding(binding, Scope::Cluster),
    validate_update: |new, old| validate_binding_update(new, old, Scope::Cluster),
    ..COMMON
};

pub(super) fn strategy(kind: &str) -> Option<&'static Strategy> {
    match kind {
        "Role" => Some(&ROLE),
        "ClusterRole" => Some(&CLUSTER_ROLE),
        "RoleBinding" => Some(&ROLE_BINDING),
        "ClusterRoleBinding" => Some(&CLUSTER_ROLE_BINDING),
        _ => None,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Namespace,
    Cluster,
}

fn default_binding(binding: &mut Value) {
    if let Some(role) = within(binding, "roleRef") {
        default_empty(role, "apiGroup", GROUP);
    }
    for subject in each(binding, "subjects") {
        if matches!(text(subject, "kind"), "User" | "Group") {
            default_empty(subject, "apiGroup", GROUP);
        }
    }
}

fn validate_rules(role: &Value, scope: Scope) -> Faults {
    let path = Path::new("rules");
    let rules = list(role, "rules").iter().enumerate();
    rules.flat_map(|(index, rule)| validate_rule(rule, scope, &path.index(index))).collect()
}

fn validate_rule(rule: &Value, scope: Scope, path: &Path) -> Faults {
    let mut faults = Vec::new();
    let given = |key: &str| !list(rule, key).is_empty();
    if !given("verbs") {
        faults.push(Error::required(&path.child("verbs"), "verbs must contain at least one value"));
    }
    if given("nonResourceURLs") {
        let urls = path.child("nonResourceURLs");
        let mut say = |why: &str| faults.push(Error::invalid(&urls, rule["nonResourceURLs"].clone(), why));
        if scope == Scope::Namespace {
            say("namespaced rules cannot apply to non-resource URLs");
        }
        if given("apiGroups") || given("resources") || given("resourceNames") {
            say("rules cannot apply to both regular resources and non-resource URLs");
        }
        return faults;
    }
    if !given("apiGroups") {
        let why = "resource rules must supply at least one api group";
        faults.push(Error::required(&path.child("apiGroups"), why));
    }
    if !given("resources") {
        let why = "resource rules must supply at least one resource";
        faults.push(Error::required(&path.child("resources"), why));
    }
    faults
}

fn validate_cluster_role(role: &Value) -> Faults {
    let mut faults = validate_rules(role, Scope::Cluster);
    if has(role, "aggregationRule") {
        let selectors = list(&role["aggregationRule"], "clusterRoleSelectors");
        let path = Path::new("aggregationRule.clusterRoleSelectors");
        if selectors.is_empty() {
            let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            faults.push(Error::required(&path, why));
        }
        for (index, selector) in selectors.iter().enumerate() {
            let wrong = super::selector(selector, &path.index(index));
            let unusable = !wrong.is_empty();
            faults.extend(wrong);
            if unusable {
                faults.push(Error::invalid(&path.index(index), Value::Null, "invalid label selector."));
            }
        }
    }
    faults
}

fn validate_binding(binding: &Value, scope: Scope) -> Faults {
    let role = &binding["roleRef"];
    let path = Path::new("roleRef");
    let mut faults = Vec::new();
    let group = text(role, "apiGroup");
    if group != GROUP {
        faults.push(Error::not_supported(&path.child("apiGroup"), group, &[GROUP]));
    }
    let kinds: &[&str] = match scope {
        Scope::Namespace => &["Role", "ClusterRole"],
        Scope::Cluster => &["ClusterRole"],
    };
    let kind = text(role, "kind");
    if !kinds.contains(&kind) {
        faults.push(Error::not_supported(&path.child("kind"), kind, kinds));
    }
    match text(role, "name") {
        "" => faults.push(Error::required(&path.child("name"), "")),
        name => faults.extend(each_wrong(&path.child("name"), name, names::path_segment(name))),
    }
    let subjects = Path::new("subjects");
    for (index, subject) in list(binding, "subjects").iter().enumerate() {
        faults.extend(validate_subject(subject, scope, &subjects.index(index)));
    }
    faults
}

fn validate_subject(subject: &Value, scope: Scope, path: &Path) -> Faults {
    let mut faults = Vec::new();
    let name = text(subject, "name");
    if name.is_empty() {
        faults.push(Error::required(&path.child("name"), ""));
    }
    let group = text(subject, "apiGroup");
    match text(subject, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                faults.extend(each_wrong(&path.child("name"), name, names::dns1123_subdomain(name)));
            }
            if !group.is_empty() {
                faults.push(Error::not_supported(&path.child("apiGroup"), group, &[""]));
            }
            if scope == Scope::Cluster && text(subject, "namespace").is_empty() {
                faults.push(Error::required(&path.child("namespace"), ""));
            }
        }
        "User" | "Group" if group != GROUP => {
            faults.push(Error::not_supported(&path.child("apiGroup"), group, &[GROUP]));
        }
        "User" | "Group" => {}
        kind => {
            let known = ["ServiceAccount", "User", "Group"];
            faults.push(Error::not_supported(&path.child("kind"), kind, &known));
        }
    }
    faults
}

fn validate_binding_update(new: &Value, old: &Value, scope: Scope) -> Faults {
    let mut faults = then_change(validate_binding(new, scope), new, old);
    let role = |binding: &Value| {
        let role = &binding["roleRef"];
        // The names that Go gives the fields of this type inside the server.
        serde_json::json!({"APIGroup": text(role, "apiGroup"), "Kind": text(role, "kind"), "Name": text(role, "name")})
    };
    if role(new) != role(old) {
        faults.push(Error::invalid(&Path::new("roleRef"), role(new), "cannot change roleRef"));
    }
    faults
}

/// What is wrong with the object, and after that with what changed of its metadata.
fn then_change(mut faults: Faults, new: &Value, old: &Value) -> Faults {
    faults.extend(meta::validate_builtin_update(new, old));
    faults
}
