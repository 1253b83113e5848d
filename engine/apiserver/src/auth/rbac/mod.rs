//! Role-based access: whether a user may do something, and the sentence that says no.
//!
//! Rights only add up. A check looks at the rules of every binding that names the user, first
//! cluster-wide, then in the request's namespace, and the first rule that allows ends it.

mod aggregate;
mod escalation;
mod index;
mod rule;

use std::ops::ControlFlow;

pub use aggregate::aggregate;
pub use escalation::{check_binding, check_role};
pub use index::Index;
pub use rule::Rule;
pub(crate) use rule::quoted;

use crate::auth::identity::{MASTERS, User};
use crate::status::{Error, GroupResource};

/// The API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// What somebody wants to do.
#[derive(Debug, Clone, Copy)]
pub struct Attributes<'a> {
    pub user: &'a User,
    pub verb: &'a str,
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    /// The URL's path, for requests that are about no resource.
    pub path: &'a str,
    pub is_resource: bool,
}

impl<'a> Attributes<'a> {
    /// A request about a resource; set the rest with struct update syntax.
    pub fn resource(user: &'a User, verb: &'a str, group: &'a str, resource: &'a str) -> Self {
        Attributes { group, version: "*", resource, is_resource: true, ..Attributes::path(user, verb, "") }
    }

    /// A request about a path.
    pub fn path(user: &'a User, verb: &'a str, path: &'a str) -> Self {
        Attributes {
            user,
            verb,
            group: "",
            version: "",
            resource: "",
            subresource: "",
            namespace: "",
            name: "",
            path,
            is_resource: false,
        }
    }
}

/// The outcome of a check. Nobody is ever denied: without a rule that allows, there is no opinion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// `reason` names the binding; it is empty for `system:masters`.
    Allow { reason: String },
    /// `reason` says which roles could not be found, if any.
    NoOpinion { reason: String },
}

impl Decision {
    pub fn allowed(&self) -> bool {
        matches!(self, Decision::Allow { .. })
    }
}

/// One thing found while going through the bindings of a user.
#[derive(Debug)]
pub enum Found<'a> {
    /// A rule, and the binding that gives it.
    Rule(&'a Rule, Grant<'a>),
    /// A binding's role that is not there.
    Missing(RoleRef<'a>),
}

/// The role a binding points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoleRef<'a> {
    pub kind: &'a str,
    pub name: &'a str,
}

/// A binding seen by one of its users: enough to say, if asked, who got a right from where.
#[derive(Debug, Clone, Copy)]
pub struct Grant<'a> {
    /// Empty for a ClusterRoleBinding.
    pub namespace: &'a str,
    pub binding: &'a str,
    pub role: RoleRef<'a>,
    subjects: &'a [index::Subject],
    user: &'a User,
}

/// Where the rules of users come from.
pub trait Rules {
    /// Visits all rules that a user has cluster-wide and in `namespace`, until told to stop.
    fn visit(&self, user: &User, namespace: &str, visitor: &mut dyn FnMut(Found<'_>) -> ControlFlow<()>);

    /// The rules of one role; `namespace` is that of the binding.
    fn role(&self, role: RoleRef<'_>, namespace: &str) -> Option<&[Rule]>;
}

/// Decides one request.
pub fn authorize(attributes: &Attributes<'_>, rules: &dyn Rules) -> Decision {
    if attributes.user.in_group(MASTERS) {
        return Decision::Allow { reason: String::new() };
    }
    let mut granted = None;
    let mut missing = Vec::new();
    rules.visit(attributes.user, attributes.namespace, &mut |found| match found {
        Found::Rule(rule, grant) if rule.allows(attributes) => {
            granted = Some(format!("RBAC: allowed by {grant}"));
            ControlFlow::Break(())
        }
        Found::Rule(..) => ControlFlow::Continue(()),
        Found::Missing(role) => {
            missing.push(role.not_found());
            ControlFlow::Continue(())
        }
    });
    match (granted, missing.is_empty()) {
        (Some(reason), _) => Decision::Allow { reason },
        (None, true) => Decision::NoOpinion { reason: String::new() },
        (None, false) => Decision::NoOpinion { reason: format!("RBAC: {}", joined(&missing)) },
    }
}

/// Decides, and turns a no into the answer that the client gets.
pub fn require(attributes: &Attributes<'_>, rules: &dyn Rules) -> Result<(), Error> {
    match authorize(attributes, rules) {
        Decision::Allow { .. } => Ok(()),
        Decision::NoOpinion { reason } => Err(refusal(attributes, &reason)),
    }
}

/// The answer to a request that is not allowed.
pub fn refusal(attributes: &Attributes<'_>, reason: &str) -> Error {
    let Attributes { user, verb, group, namespace, .. } = attributes;
    let mut why = if !attributes.is_resource {
        format!("User {:?} cannot {verb} path {:?}", user.name, attributes.path)
    } else {
        let scope = match *namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {namespace:?}"),
        };
        let resource = combined(attributes.resource, attributes.subresource);
        format!("User {:?} cannot {verb} resource {resource:?} in API group {group:?} {scope}", user.name)
    };
    // What a client wrote must not come back as HTML.
    why = why.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    if !reason.is_empty() {
        why = format!("{why}: {reason}");
    }
    Error::forbidden(&GroupResource::new(group, attributes.resource), attributes.name, &why)
}

/// Several sentences as one, each only once.
pub(crate) fn joined(sentences: &[String]) -> String {
    let mut unique: Vec<&str> = Vec::new();
    for one in sentences {
        if !unique.contains(&one.as_str()) {
            unique.push(one);
        }
    }
    match unique.as_slice() {
        [one] => (*one).to_owned(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// `pods` or `pods/log`.
fn combined(resource: &str, subresource: &str) -> String {
    if subresource.is_empty() { resource.to_owned() } else { format!("{resource}/{subresource}") }
}

impl RoleRef<'_> {
    /// The sentence for a role that a binding names and nobody made.
    pub(crate) fn not_found(&self) -> String {
        match self.kind {
            "Role" | "ClusterRole" => {
                format!("{}.{GROUP} {:?} not found", self.kind.to_lowercase(), self.name)
            }
            kind => format!("unsupported role reference kind: {kind:?}"),
        }
    }
}

impl std::fmt::Display for Grant<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let RoleRef { kind, name } = self.role;
        match self.namespace {
            "" => write!(f, "ClusterRoleBinding {:?} of {kind} {name:?} to ", self.binding)?,
            namespace => {
                write!(
                    f,
                    "RoleBinding {:?} of {kind} {name:?} to ",
                    format!("{}/{namespace}", self.binding)
                )?;
            }
        }
        match self.subjects.iter().find(|subject| subject.is(self.user, self.namespace)) {
            Some(subject) => subject.describe(f, self.namespace),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
