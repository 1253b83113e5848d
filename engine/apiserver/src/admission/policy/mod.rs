//! ValidatingAdmissionPolicies: rules in CEL that requests are held against, where a binding says so. [`mutating`] has those
//! that change what a request writes.
//!
//! A policy is compiled once; for each request that it and one of its bindings match, and for each object of
//! parameters that the binding names, it decides.

mod compiled;
mod conditions;
mod frame;
pub(crate) mod mutating;
mod params;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use self::compiled::Policy;
use self::conditions::Conditions;
use self::frame::Frame;
use self::mutating::Mutating;
use super::matching::{Criteria, Seen, seen_as};
use super::{Attributes, Lookup, Served, about};
use crate::cel::request::Facts;
use crate::kinds::walk::{list, text};
use crate::status::{Error, GroupResource, Result};

pub(crate) use self::conditions::{Outcome as ConditionsOutcome, of_webhook};

/// All policies and bindings of a cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct Policies {
    validating: Bound<Policy>,
    mutating: Bound<Mutating>,
}

/// Policies of one sort and their bindings.
#[derive(Debug)]
struct Bound<P> {
    policies: BTreeMap<String, Arc<P>>,
    /// By the policy that they bind, and by name.
    bindings: BTreeMap<String, BTreeMap<String, Arc<Value>>>,
}

impl<P> Default for Bound<P> {
    fn default() -> Self {
        Bound { policies: BTreeMap::new(), bindings: BTreeMap::new() }
    }
}

impl<P> Clone for Bound<P> {
    fn clone(&self) -> Self {
        Bound { policies: self.policies.clone(), bindings: self.bindings.clone() }
    }
}

impl<P> Bound<P> {
    fn bind(&mut self, name: &str, binding: Value) {
        let policy = text(&binding["spec"], "policyName").to_owned();
        self.bindings.entry(policy).or_default().insert(name.to_owned(), Arc::new(binding));
    }

    fn unbind(&mut self, name: &str) {
        self.bindings.retain(|_, bindings| {
            bindings.remove(name);
            !bindings.is_empty()
        });
    }

    fn is_idle(&self) -> bool {
        self.policies.is_empty() || self.bindings.is_empty()
    }
}

/// The kinds that this is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Policy,
    Binding,
    MutatingPolicy,
    MutatingBinding,
}

impl Policies {
    /// Takes in what was created or changed.
    pub(crate) fn put(&mut self, kind: Kind, name: &str, object: Value) {
        self.remove(kind, name);
        match kind {
            Kind::Policy => {
                let policy = Arc::new(Policy::compile(name, &object));
                self.validating.policies.insert(name.to_owned(), policy);
            }
            Kind::MutatingPolicy => {
                let policy = Arc::new(Mutating::compile(name, &object));
                self.mutating.policies.insert(name.to_owned(), policy);
            }
            Kind::Binding => self.validating.bind(name, object),
            Kind::MutatingBinding => self.mutating.bind(name, object),
        }
    }

    pub(crate) fn remove(&mut self, kind: Kind, name: &str) {
        match kind {
            Kind::Policy => drop(self.validating.policies.remove(name)),
            Kind::MutatingPolicy => drop(self.mutating.policies.remove(name)),
            Kind::Binding => self.validating.unbind(name),
            Kind::MutatingBinding => self.mutating.unbind(name),
        }
    }

    /// Forgets all of a kind.
    pub(crate) fn clear(&mut self, kind: Kind) {
        match kind {
            Kind::Policy => self.validating.policies.clear(),
            Kind::MutatingPolicy => self.mutating.policies.clear(),
            Kind::Binding => self.validating.bindings.clear(),
            Kind::MutatingBinding => self.mutating.bindings.clear(),
        }
    }

    /// Whether no request can be refused.
    pub(crate) fn is_idle(&self) -> bool {
        self.validating.is_idle()
    }

    /// Whether no request can be changed.
    pub(crate) fn is_mutating_idle(&self) -> bool {
        self.mutating.is_idle()
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
    if is_review(request) {
        return said;
    }
    let judge = Judge { request, object, old, lookup };
    for policy in policies.validating.policies.values() {
        if let Some(bindings) = policies.validating.bindings.get(&policy.frame.name)
            && let Err(error) = judge.ask(policy, bindings, &mut said)
        {
            said.refusal.get_or_insert(error);
            break;
        }
    }
    said
}

/// Reviews are answered and not stored; a policy that denied them could lock everyone out.
fn is_review(request: &Attributes<'_>) -> bool {
    matches!(request.group, "authentication.k8s.io" | "authorization.k8s.io")
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
        let criteria = Criteria::of_policy(&policy.frame.constraints);
        let seen = match seen_as(self.request, self.object, self.old, criteria, self.lookup) {
            Ok(None) => return Ok(()),
            Ok(Some(seen)) => params::found(&policy.frame, self.lookup).map(|kind| (seen, kind)),
            Err(why) => Err(why.to_string()),
        };
        let (seen, params_of) = match seen {
            Ok(seen) => seen,
            Err(_) if policy.frame.fails_open => return Ok(()),
            Err(why) => {
                let denial = Denial::new(format!("failed to configure policy: {why}"));
                self.deny(&format!("'{}'", policy.frame.name), &denial, said);
                return Ok(());
            }
        };
        for (name, binding) in bindings {
            let by = format!("'{}' with binding '{name}'", policy.frame.name);
            match self.decide(policy, &seen, params_of.as_ref(), binding)? {
                Ok(denials) => denials.iter().for_each(|denial| self.act(binding, &by, denial, said)),
                Err(_) if policy.frame.fails_open => {}
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

    /// The parameters with each of which a policy is evaluated where a binding brings it to bear; none of them if the
    /// binding is not for this request.
    fn params(
        &self,
        policy: &Frame,
        params_of: Option<&Served>,
        binding: &Value,
    ) -> Result<Vec<Option<Value>>, String> {
        let resources = &binding["spec"]["matchResources"];
        if !resources.is_null() {
            let criteria = Criteria::of_policy(resources);
            let seen = seen_as(self.request, self.object, self.old, criteria, self.lookup);
            if seen.map_err(|why| why.to_string())?.is_none() {
                return Ok(Vec::new());
            }
        }
        let reference = &binding["spec"]["paramRef"];
        match params_of.filter(|_| !reference.is_null()) {
            Some(served) => {
                let found = params::collect(policy, served, reference, self.request.namespace, self.lookup)?;
                Ok(found.into_iter().map(Some).collect())
            }
            None => Ok(vec![None]),
        }
    }

    /// The Namespace of the request, as expressions see it.
    fn namespace(&self) -> Result<Option<Value>> {
        let is_namespace = self.request.group.is_empty() && self.request.kind == "Namespace";
        match self.request.namespace {
            "" => Ok(None),
            _ if is_namespace => Ok(None),
            name => {
                let missing = || Error::not_found(&GroupResource::new("", "namespaces"), name);
                Ok(Some(visible(&self.lookup.get("", "namespaces", "", name).ok_or_else(missing)?)))
            }
        }
    }

    /// What a policy says where a binding brings it to bear; inside, why it could not be asked.
    fn decide(
        &self,
        policy: &Policy,
        seen: &Seen,
        params_of: Option<&Served>,
        binding: &Value,
    ) -> Result<Result<Vec<Denial>, String>> {
        let params = match self.params(&policy.frame, params_of, binding) {
            Ok(params) if params.is_empty() => return Ok(Ok(Vec::new())),
            Ok(params) => params,
            Err(why) => return Ok(Err(why)),
        };
        let namespace = self.namespace()?;
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
