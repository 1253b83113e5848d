//! Roles and bindings, kept so that a check looks only at the bindings that name the user.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::Value;

use super::{Found, Grant, RoleRef, Rule, Rules};
use crate::auth::identity::{User, service_account_user};

/// All roles and bindings of a cluster.
///
/// A clone shares everything, and applying what is already there keeps it shared: many clusters that start
/// from one index of stock roles hold those once.
#[derive(Debug, Clone, Default)]
pub struct Index {
    /// By namespace; the empty one holds ClusterRoles and ClusterRoleBindings.
    scopes: HashMap<String, Arc<Scope>>,
}

#[derive(Debug, Clone, Default)]
struct Scope {
    roles: BTreeMap<String, Arc<[Rule]>>,
    bindings: BTreeMap<String, Binding>,
    /// The names of the bindings that a user is named in, also as a service account.
    by_user: HashMap<String, BTreeSet<String>>,
    by_group: HashMap<String, BTreeSet<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Binding {
    role_kind: Box<str>,
    role_name: Box<str>,
    subjects: Box<[Subject]>,
}

/// Whom a binding is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subject {
    kind: Box<str>,
    name: Box<str>,
    namespace: Box<str>,
}

/// Who a subject stands for.
enum Target<'a> {
    User(std::borrow::Cow<'a, str>),
    Group(&'a str),
    Nobody,
}

impl Index {
    /// Takes in a new or changed object; a kind that is neither role nor binding is ignored.
    pub fn apply(&mut self, kind: &str, object: &Value) {
        let meta = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
        let (namespace, name) = (meta("namespace"), meta("name"));
        match kind {
            "Role" | "ClusterRole" => {
                let rules = Rule::parse_all(object.get("rules"));
                let known = self.scopes.get(namespace).and_then(|scope| scope.roles.get(name));
                if known.is_none_or(|known| **known != *rules) {
                    self.scope(namespace).roles.insert(name.to_owned(), rules.into());
                }
            }
            "RoleBinding" | "ClusterRoleBinding" => {
                let binding = Binding::parse(object);
                let known = self.scopes.get(namespace).and_then(|scope| scope.bindings.get(name));
                if known != Some(&binding) {
                    let scope = self.scope(namespace);
                    scope.unbind(namespace, name);
                    scope.bind(namespace, name, binding);
                }
            }
            _ => {}
        }
    }

    fn scope(&mut self, namespace: &str) -> &mut Scope {
        Arc::make_mut(self.scopes.entry(namespace.to_owned()).or_default())
    }

    /// Forgets an object that was deleted.
    pub fn remove(&mut self, kind: &str, namespace: &str, name: &str) {
        let Some(scope) = self.scopes.get_mut(namespace).map(Arc::make_mut) else { return };
        match kind {
            "Role" | "ClusterRole" => drop(scope.roles.remove(name)),
            "RoleBinding" | "ClusterRoleBinding" => scope.unbind(namespace, name),
            _ => {}
        }
        if scope.roles.is_empty() && scope.bindings.is_empty() {
            self.scopes.remove(namespace);
        }
    }

    /// Forgets all objects of a kind but those that `stays` says yes to, by namespace and name.
    pub fn retain(&mut self, kind: &str, stays: impl Fn(&str, &str) -> bool) {
        let cluster = kind.starts_with("Cluster");
        let scopes = self.scopes.iter().filter(|(namespace, _)| namespace.is_empty() == cluster);
        let gone: Vec<(String, String)> = scopes
            .flat_map(|(namespace, scope)| {
                let names: Vec<&String> = match kind {
                    "Role" | "ClusterRole" => scope.roles.keys().collect(),
                    _ => scope.bindings.keys().collect(),
                };
                names.into_iter().map(|name| (namespace.clone(), name.clone()))
            })
            .filter(|(namespace, name)| !stays(namespace, name))
            .collect();
        for (namespace, name) in gone {
            self.remove(kind, &namespace, &name);
        }
    }

    fn visit_scope(
        &self,
        user: &User,
        namespace: &str,
        visitor: &mut dyn FnMut(Found<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Some(scope) = self.scopes.get(namespace) else { return ControlFlow::Continue(()) };
        for (name, binding) in scope.bindings_of(user) {
            let role = binding.role();
            let Some(rules) = self.role(role, namespace) else {
                visitor(Found::Missing(role))?;
                continue;
            };
            let grant = Grant { namespace, binding: name, role, subjects: &binding.subjects, user };
            for rule in rules {
                visitor(Found::Rule(rule, grant))?;
            }
        }
        ControlFlow::Continue(())
    }
}

impl Rules for Index {
    fn visit(&self, user: &User, namespace: &str, visitor: &mut dyn FnMut(Found<'_>) -> ControlFlow<()>) {
        let done = self.visit_scope(user, "", visitor);
        if done.is_continue() && !namespace.is_empty() {
            let _ = self.visit_scope(user, namespace, visitor);
        }
    }

    fn role(&self, role: RoleRef<'_>, namespace: &str) -> Option<&[Rule]> {
        let scope = match role.kind {
            "ClusterRole" => "",
            // A ClusterRoleBinding has no namespace to look for a Role in.
            "Role" if !namespace.is_empty() => namespace,
            _ => return None,
        };
        self.scopes.get(scope)?.roles.get(role.name).map(|rules| &**rules)
    }
}

impl Scope {
    /// The bindings that name the user, each once, in the order of their names.
    fn bindings_of(&self, user: &User) -> impl Iterator<Item = (&str, &Binding)> {
        let by_group = user.groups.iter().filter_map(|group| self.by_group.get(group));
        let names: BTreeSet<&str> =
            self.by_user.get(&user.name).into_iter().chain(by_group).flatten().map(String::as_str).collect();
        names.into_iter().filter_map(|name| Some((name, self.bindings.get(name)?)))
    }

    fn bind(&mut self, namespace: &str, name: &str, binding: Binding) {
        for subject in &binding.subjects {
            let names = match subject.target(namespace) {
                Target::User(user) => self.by_user.entry(user.into_owned()).or_default(),
                Target::Group(group) => self.by_group.entry(group.to_owned()).or_default(),
                Target::Nobody => continue,
            };
            names.insert(name.to_owned());
        }
        self.bindings.insert(name.to_owned(), binding);
    }

    fn unbind(&mut self, namespace: &str, name: &str) {
        let Some(binding) = self.bindings.remove(name) else { return };
        for subject in &binding.subjects {
            match subject.target(namespace) {
                Target::User(user) => forget(&mut self.by_user, &user, name),
                Target::Group(group) => forget(&mut self.by_group, group, name),
                Target::Nobody => {}
            }
        }
    }
}

fn forget(map: &mut HashMap<String, BTreeSet<String>>, key: &str, name: &str) {
    let Some(names) = map.get_mut(key) else { return };
    names.remove(name);
    if names.is_empty() {
        map.remove(key);
    }
}

impl Binding {
    fn parse(object: &Value) -> Self {
        let role = |key: &str| Box::from(object["roleRef"][key].as_str().unwrap_or_default());
        let subjects = object["subjects"].as_array().into_iter().flatten().map(Subject::parse).collect();
        Binding { role_kind: role("kind"), role_name: role("name"), subjects }
    }

    fn role(&self) -> RoleRef<'_> {
        RoleRef { kind: &self.role_kind, name: &self.role_name }
    }
}

impl Subject {
    fn parse(value: &Value) -> Self {
        let text = |key: &str| Box::from(value[key].as_str().unwrap_or_default());
        Subject { kind: text("kind"), name: text("name"), namespace: text("namespace") }
    }

    /// A service account without a namespace is one of the binding's own.
    fn target(&self, binding_namespace: &str) -> Target<'_> {
        match &*self.kind {
            "User" => Target::User((&*self.name).into()),
            "Group" => Target::Group(&self.name),
            "ServiceAccount" => match (&*self.namespace, binding_namespace) {
                ("", "") => Target::Nobody,
                ("", own) => Target::User(service_account_user(own, &self.name).into()),
                (other, _) => Target::User(service_account_user(other, &self.name).into()),
            },
            _ => Target::Nobody,
        }
    }

    pub(super) fn is(&self, user: &User, binding_namespace: &str) -> bool {
        match self.target(binding_namespace) {
            Target::User(name) => name == user.name,
            Target::Group(group) => user.in_group(group),
            Target::Nobody => false,
        }
    }

    pub(super) fn describe(&self, f: &mut fmt::Formatter<'_>, binding_namespace: &str) -> fmt::Result {
        let Subject { kind, name, namespace } = self;
        if &**kind != "ServiceAccount" {
            return write!(f, "{kind} {name:?}");
        }
        let namespace = if namespace.is_empty() { binding_namespace } else { namespace };
        write!(f, "{kind} {:?}", format!("{name}/{namespace}"))
    }
}
