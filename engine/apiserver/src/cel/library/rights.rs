//! Asking who may do what: `authorizer.group('apps').resource('deployments').check('create').allowed()`.

use std::fmt;
use std::rc::Rc;

use super::super::value::{Error, Result, Value};
use crate::names;

/// Who may do what.
pub trait Authority: Sync {
    /// Decides for a service account, or for whoever makes the request.
    fn decide(&self, account: Option<Account<'_>>, what: &What<'_>) -> Verdict;
}

/// A namespace, and the name of a service account in it.
pub type Account<'a> = (&'a str, &'a str);

/// What somebody would do.
#[derive(Debug, Clone, Copy)]
pub enum What<'a> {
    Path {
        path: &'a str,
        verb: &'a str,
    },
    Resource {
        group: &'a str,
        resource: &'a str,
        subresource: &'a str,
        namespace: &'a str,
        name: &'a str,
        verb: &'a str,
    },
}

/// Whether somebody may, and why.
#[derive(Debug, Clone)]
pub struct Verdict {
    pub allowed: bool,
    pub reason: String,
}

/// A question as far as it was put together, or its answer.
#[derive(Debug, Clone)]
pub(in crate::cel) enum Right<'a> {
    Authorizer(Who<'a>),
    Path(Who<'a>, Rc<str>),
    Group(Who<'a>, Rc<str>),
    Resource(Who<'a>, Resource),
    Decision(Verdict),
}

/// Whose right is asked for, and who knows.
#[derive(Clone)]
pub(in crate::cel) struct Who<'a> {
    pub(in crate::cel) authority: &'a dyn Authority,
    account: Option<(Rc<str>, Rc<str>)>,
}

#[derive(Debug, Clone)]
pub(in crate::cel) struct Resource {
    pub(in crate::cel) group: Rc<str>,
    pub(in crate::cel) resource: Rc<str>,
    pub(in crate::cel) subresource: Rc<str>,
    pub(in crate::cel) namespace: Rc<str>,
    pub(in crate::cel) name: Rc<str>,
}

impl fmt::Debug for Who<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Who").field(&self.account).finish()
    }
}

impl<'a> Who<'a> {
    /// Whoever makes the request.
    pub(in crate::cel) fn asks(authority: &'a dyn Authority) -> Self {
        Who { authority, account: None }
    }

    fn may(&self, what: &What<'_>) -> Verdict {
        let account = self.account.as_ref().map(|(namespace, name)| (&**namespace, &**name));
        self.authority.decide(account, what)
    }
}

impl Right<'_> {
    pub(in crate::cel) fn type_name(&self) -> &'static str {
        match self {
            Right::Authorizer(_) => "kubernetes.authorization.Authorizer",
            Right::Path(..) => "kubernetes.authorization.PathCheck",
            Right::Group(..) => "kubernetes.authorization.GroupCheck",
            Right::Resource(..) => "kubernetes.authorization.ResourceCheck",
            Right::Decision(_) => "kubernetes.authorization.Decision",
        }
    }
}

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Result<Value<'a>>> {
    let (Value::Right(right), rest) = args.split_first()? else { return None };
    let texts: Option<Vec<Rc<str>>> = rest
        .iter()
        .map(|arg| match arg {
            Value::String(text) => Some(text.shared()),
            _ => None,
        })
        .collect();
    Some(match (&**right, function, texts?.as_slice()) {
        (Right::Decision(verdict), "allowed", []) => Ok(Value::Bool(verdict.allowed)),
        (Right::Decision(verdict), "reason", []) => Ok(Value::string(&verdict.reason)),
        // Roles are looked up in memory, which does not fail.
        (Right::Decision(_), "errored", []) => Ok(Value::Bool(false)),
        (Right::Decision(_), "error", []) => Ok(Value::string("")),
        (right, function, texts) => ask(right, function, texts)?.map(|right| Value::Right(Rc::new(right))),
    })
}

fn ask<'a>(right: &Right<'a>, function: &str, texts: &[Rc<str>]) -> Option<Result<Right<'a>>> {
    let nothing: fn() -> Rc<str> = || "".into();
    Some(Ok(match (right, function, texts) {
        (Right::Authorizer(_), "path", [path]) if path.trim().is_empty() => {
            return Some(Err(Error::new("path must not be empty")));
        }
        (Right::Authorizer(who), "path", [path]) => Right::Path(who.clone(), path.clone()),
        (Right::Authorizer(who), "group", [group]) => Right::Group(who.clone(), group.clone()),
        (Right::Authorizer(who), "serviceAccount", [namespace, name]) => {
            if !names::dns1123_subdomain(name).is_empty() {
                return Some(Err(Error::new("Invalid service account name")));
            }
            if !names::dns1123_label(namespace).is_empty() {
                return Some(Err(Error::new("Invalid service account namespace")));
            }
            let account = Some((namespace.clone(), name.clone()));
            Right::Authorizer(Who { authority: who.authority, account })
        }
        (Right::Path(who, path), "check", [verb]) => Right::Decision(who.may(&What::Path { path, verb })),
        (Right::Group(..), "resource", [resource]) if resource.trim().is_empty() => {
            return Some(Err(Error::new("resource must not be empty")));
        }
        (Right::Group(who, group), "resource", [resource]) => Right::Resource(
            who.clone(),
            Resource {
                group: group.clone(),
                resource: resource.clone(),
                subresource: nothing(),
                namespace: nothing(),
                name: nothing(),
            },
        ),
        (Right::Resource(who, asked), "check", [verb]) => {
            let Resource { group, resource, subresource, namespace, name } = asked;
            Right::Decision(who.may(&What::Resource { group, resource, subresource, namespace, name, verb }))
        }
        (Right::Resource(who, asked), part, [text]) => {
            let text = text.clone();
            let asked = asked.clone();
            let asked = match part {
                "subresource" => Resource { subresource: text, ..asked },
                "namespace" => Resource { namespace: text, ..asked },
                "name" => Resource { name: text, ..asked },
                // No role of RBAC looks at selectors.
                "fieldSelector" | "labelSelector" => asked,
                _ => return None,
            };
            Right::Resource(who.clone(), asked)
        }
        _ => return None,
    }))
}
