//! What has a say in a write besides its own kind: the plugins that a server has unless told otherwise,
//! in the order it has them. All pure: what they need to know of other objects they ask a [`Lookup`] for.
//!
//! ```text
//! decode ─► default ─► mutate ─► prepare, validate the kind ─► validate ─► policies ─► webhooks ─► check_quota ─► store
//!                      (here)                                   (here)      (here)      (here)      (here)
//! ```

mod about;
mod account;
mod certificates;
mod classes;
mod limits;
mod matching;
mod namespace;
mod pods;
pub(crate) mod policy;
mod quota;
mod security;
mod storage;
#[cfg(test)]
mod tests;
mod usage;
pub mod webhook;

use serde_json::Value;

use crate::cel::rights::Authority;
use crate::context::Context;
use crate::kinds::walk::text;
use crate::status::{Error, GroupResource, Result};

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    /// As rules of webhooks and reviews write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }
}

/// A request, apart from the objects it carries.
#[derive(Clone)]
pub struct Attributes<'a> {
    pub operation: Operation,
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub kind: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Empty for what lives in no namespace; the name of a namespace for a Namespace itself.
    pub namespace: &'a str,
    /// Empty while a name is yet to be generated.
    pub name: &'a str,
    /// Who asks: `username`, `uid`, `groups` and `extra`.
    pub user: &'a Value,
    pub dry_run: bool,
    /// The options of the request, such as `CreateOptions`; null if there are none.
    pub options: &'a Value,
    pub context: &'a Context,
    /// Who may do what, for expressions that ask.
    pub authority: &'a dyn Authority,
}

/// Other objects, as they are stored.
pub trait Lookup {
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Value>;
    /// All objects of a resource in a namespace, or everywhere if it is empty.
    fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Value>;
    /// How objects of a kind are found, if it is served.
    fn resource_of(&self, api_version: &str, kind: &str) -> Option<Served>;
}

/// How objects of a kind are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    pub group: String,
    pub resource: String,
    pub namespaced: bool,
}

impl Attributes<'_> {
    fn is(&self, group: &str, resource: &str) -> bool {
        self.group == group && self.resource == resource
    }

    /// Whether the request writes an object of that resource itself, no part of it.
    fn writes(&self, group: &str, resource: &str) -> bool {
        self.is(group, resource)
            && self.subresource.is_empty()
            && matches!(self.operation, Operation::Create | Operation::Update)
    }

    /// Whether the request creates an object of that resource.
    fn creates(&self, group: &str, resource: &str) -> bool {
        self.writes(group, resource) && self.operation == Operation::Create
    }

    /// The refusal of this request, told as all plugins tell it.
    fn forbidden(&self, object: &Value, why: &str) -> Error {
        let meta = &object["metadata"];
        let name = [self.name, text(meta, "name"), text(meta, "generateName"), "Unknown"]
            .into_iter()
            .find(|name| !name.is_empty())
            .unwrap_or_default();
        Error::forbidden(&GroupResource::new(self.group, self.resource), name, why)
    }
}

/// Changes what a request is about to write, or refuses it. Runs before the kind's own rules.
pub fn mutate(
    request: &Attributes<'_>,
    object: &mut Value,
    old: Option<&Value>,
    lookup: &dyn Lookup,
) -> Result<()> {
    namespace::check(request, object, lookup)?;
    limits::default(request, object, old, lookup);
    account::mutate(request, object, lookup)?;
    pods::taint_node(request, object);
    pods::resolve_priority(request, object, old, lookup)?;
    pods::default_tolerations(request, object);
    classes::default_storage_class(request, object, lookup);
    storage::protect(request, object);
    pods::apply_runtime_class(request, object, lookup)?;
    certificates::name_requester(request, object);
    classes::default_ingress_class(request, object, lookup);
    Ok(())
}

/// Refuses what may not be written. Runs after the kind's own rules, before webhooks.
pub fn validate(
    request: &Attributes<'_>,
    object: &Value,
    old: Option<&Value>,
    lookup: &dyn Lookup,
) -> Result<()> {
    limits::check(request, object, old, lookup)?;
    account::check(request, object, lookup)?;
    security::check_pod(request, object, lookup)?;
    security::check_labels(request, object, old)?;
    pods::check_priority_class(request, object, lookup)?;
    storage::check_resize(request, object, old, lookup)?;
    pods::check_overhead(request, object, lookup)?;
    certificates::check_signer(request, object, old)?;
    certificates::check_subject(request, object)
}

/// What is said of a write that [`validate`] let pass.
pub fn warnings(
    request: &Attributes<'_>,
    object: &Value,
    old: Option<&Value>,
    lookup: &dyn Lookup,
) -> Vec<String> {
    security::warnings(request, object, old, lookup)
}

/// Refuses what would use more than a namespace may. Runs last, after webhooks.
pub fn check_quota(
    request: &Attributes<'_>,
    object: &Value,
    old: Option<&Value>,
    lookup: &dyn Lookup,
) -> Result<()> {
    quota::check(request, object, old, lookup)
}

/// Whether [`check_quota`] has anything to check: what it finds holds only until somebody else writes.
pub(crate) fn is_quota_asked(request: &Attributes<'_>, object: &Value, old: Option<&Value>) -> bool {
    quota::is_asked(request, object, old)
}

/// Everything, for a server that has no webhooks to call in between.
pub fn admit(
    request: &Attributes<'_>,
    object: &mut Value,
    old: Option<&Value>,
    lookup: &dyn Lookup,
) -> Result<()> {
    mutate(request, object, old, lookup)?;
    validate(request, object, old, lookup)?;
    check_quota(request, object, old, lookup)
}
