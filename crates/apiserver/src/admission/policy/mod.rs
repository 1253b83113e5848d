//! ValidatingAdmissionPolicies: rules in CEL that requests are held against, where a binding says so.
//!
//! A policy is compiled once; for each request that it and one of its bindings match, and for each object of
//! parameters that the binding names, it decides.

mod compiled;
mod conditions;
mod params;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use self::compiled::Policy;
use self::conditions::Conditions;
use super::matching::{Criteria, Seen, seen_as};
use super::{Attributes, Lookup, Served, about};
use crate::cel::request::Facts;
use crate::kinds::walk::{list, text};
use crate::status::{Error, GroupResource, Result};

pub(crate) use self::conditions::{Outcome as ConditionsOutcome, of_webhook};

/// All policies and bindings of a cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct Policies {
    policies: BTreeMap<String, Arc<Policy>>,
    /// By the policy that they bind, and by name.
    bindings: BTreeMap<String, BTreeMap<String, Arc<Value>>>,
}

/// The two kinds that this is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Policy,
    Binding,
}

impl Policies {
    /// Takes in what was created or changed.
    pub(crate) fn put(&mut self, kind: Kind, name: &str, object: Value) {
        self.remove(kind, name);
        match kind {
            Kind::Policy => {
                self.policies.insert(name.to_owned(), Arc::new(Policy::compile(name, &object)));
            }
            Kind::Binding => {
                let policy = text(&object["spec"], "policyName").to_owned();
                self.bindings.entry(policy).or_default().insert(name.to_owned(), Arc::new(object));
            }
        }
    }

    pub(crate) fn remove(&mut self, kind: Kind, name: &str) {
        match kind {
            Kind::Policy => {
                self.policies.remove(name);
            }
            Kind::Binding => self.bindings.retain(|_, bindings| {
                bindings.remove(name);
                !bindings.is_empty()
            }),
        }
    }

    /// Forgets all of a kind.
    pub(crate) fn clear(&mut self, kind: Kind) {
        match kind {
            Kind::Policy => self.policies.clear(),
            Kind::Binding => self.bindings.clear(),
        }
    }

    /// Whether no request can be refused.
    pub(crate) fn is_idle(&self) -> bool {
        self.policies.is_empty() || self.bindings.is_empty()
    }
}

/// A decision against a request.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Denial {
    message: String,
    reason: &'static str,
}

impl Denial {
    /// One that no rule gave a reason for.
    fn new(message: impl Into<String>) -> Self {
        Denial { message: message.into(), reason: "Invalid" }
    }
}

/// What policies say of a request.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) warnings: Vec<String>,
    /// The first of what speaks against it.
    pub(crate) refusal: Option<Error>,
}

/// Asks all policies that are bound and see the request.
pub(crate) fn validate(
    request: &Attributes<'_>,
    object: Option<&Value>,
    old: Option<&Value>,
    policies: &Policies,
    lookup: &dyn Lookup,
) -> Said {
    let mut said = Said::default();
    // Reviews are answered and not stored; a policy that denied them could lock everyone out.
    if matches!(request.group, "authentication.k8s.io" | "authorization.k8s.io") {
        return said;
    }
    let judge = Judge { request, object, old, lookup };
    for policy in policies.policies.values() {
        if let Some(bindings) = policies.bindings.get(&policy.name)
            && let Err(error) = judge.ask(policy, bindings, &mut said)
        {
            said.refusal.get_or_insert(error);
            break;
        }
    }
    said
}

/// A request, and what is known around it.
#[derive(Clone, Copy)]
struct Judge<'a> {
    request: &'a Attributes<'a>,
    object: Option<&'a Value>,
    old: Option<&'a Value>,
    lookup: &'a dyn Lookup,
}

impl Judge<'_> {
    /// Asks one policy wherever it is bound; fails where nobody could be asked.
    fn ask(&self, policy: &Policy, bindings: &BTreeMap<String, Arc<Value>>, said: &mut Said) -> Result<()> {
        let criteria = Criteria::of_policy(&policy.constraints);
        let seen = match seen_as(self.request, self.object, self.old, criteria, self.lookup) {
            Ok(None) => return Ok(()),
            Ok(Some(seen)) => params::found(policy, self.lookup).map(|kind| (seen, kind)),
            Err(why) => Err(why.to_string()),
        };
        let (seen, params_of) = match seen {
            Ok(seen) => seen,
            Err(_) if policy.fails_open => return Ok(()),
            Err(why) => {
                let denial = Denial::new(format!("failed to configure policy: {why}"));
                self.deny(&format!("'{}'", policy.name), &denial, said);
                return Ok(());
            }
        };
        for (name, binding) in bindings {
            let by = format!("'{}' with binding '{name}'", policy.name);
            match self.decide(policy, &seen, params_of.as_ref(), binding)? {
                Ok(denials) => denials.iter().for_each(|denial| self.act(binding, &by, denial, said)),
                Err(_) if policy.fails_open => {}
                Err(why) => {
                    let denial = Denial::new(format!("failed to configure binding: {why}"));
                    self.deny(&by, &denial, said);
                }
            }
        }
        Ok(())
    }

    /// Does what a binding wants done about a denial.
    fn act(&self, binding: &Value, by: &str, denial: &Denial, said: &mut Said) {
        for action in list(&binding["spec"]["validationActions"]) {
            match action.as_str() {
                Some("Deny") => self.deny(by, denial, said),
                Some("Warn") => {
                    let why = &denial.message;
                    said.warnings
                        .push(format!("Validation failed for ValidatingAdmissionPolicy {by}: {why}"));
                }
                // Nobody reads an audit log here.
                _ => {}
            }
        }
    }

    fn deny(&self, by: &str, denial: &Denial, said: &mut Said) {
        let why = format!("ValidatingAdmissionPolicy {by} denied request: {}", denial.message);
        said.refusal.get_or_insert_with(|| self.refusal(&why, denial.reason));
    }

    /// What a policy says where a binding brings it to bear; inside, why it could not be asked.
    fn decide(
        &self,
        policy: &Policy,
        seen: &Seen,
        params_of: Option<&Served>,
        binding: &Value,
    ) -> Result<Result<Vec<Denial>, String>> {
        let resources = &binding["spec"]["matchResources"];
        if !resources.is_null() {
            let criteria = Criteria::of_policy(resources);
            match seen_as(self.request, self.object, self.old, criteria, self.lookup) {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(Ok(Vec::new())),
                Err(why) => return Ok(Err(why.to_string())),
            }
        }
        let place = self.request.namespace;
        let reference = &binding["spec"]["paramRef"];
        let params = match params_of.filter(|_| !reference.is_null()) {
            Some(served) => match params::collect(policy, served, reference, place, self.lookup) {
                Ok(params) => params.into_iter().map(Some).collect(),
                Err(why) => return Ok(Err(why)),
            },
            None => vec![None],
        };
        let is_namespace = self.request.group.is_empty() && self.request.kind == "Namespace";
        let namespace = match place {
            "" => None,
            _ if is_namespace => None,
            name => {
                let missing = || Error::not_found(&GroupResource::new("", "namespaces"), name);
                Some(visible(&self.lookup.get("", "namespaces", "", name).ok_or_else(missing)?))
            }
        };
        let shown = |object: Option<&Value>| object.map(|object| about::shown(object, seen));
        let (object, old) = (shown(self.object), shown(self.old));
        let request = about::request(self.request, seen, self.request.name);
        let mut denials = Vec::new();
        for params in &params {
            let facts = Facts {
                request: &request,
                object: object.as_ref(),
                old: old.as_ref(),
                namespace: namespace.as_ref(),
                params: params.as_ref(),
                authority: self.request.authority,
            };
            denials.extend(policy.decide(&facts));
        }
        Ok(Ok(denials))
    }

    fn refusal(&self, why: &str, reason: &'static str) -> Error {
        let mut refusal = self.request.forbidden(self.object.unwrap_or(&Value::Null), why);
        refusal.reason = reason;
        refusal.code = match reason {
            "Forbidden" => 403,
            "Unauthorized" => 401,
            "RequestEntityTooLarge" => 413,
            _ => 422,
        };
        if let Some(details) = &mut refusal.details {
            details["causes"] = json!([{"message": why}]);
        }
        refusal
    }
}

/// A Namespace, as far as expressions may look at it.
fn visible(namespace: &Value) -> Value {
    const HIDDEN: [&str; 3] = ["managedFields", "ownerReferences", "selfLink"];
    let part = |key: &str| namespace.get(key).cloned().unwrap_or_else(|| json!({}));
    let mut metadata = part("metadata");
    if let Some(fields) = metadata.as_object_mut() {
        fields.retain(|name, _| !HIDDEN.contains(&name.as_str()));
    }
    json!({"metadata": metadata, "spec": part("spec"), "status": part("status")})
}
