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
use crate::kinds::walk::{get, list, text};
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

/// Refuses what a policy denies; gives the warnings of those that only warn.
pub(crate) fn validate(
    request: &Attributes<'_>,
    object: Option<&Value>,
    old: Option<&Value>,
    policies: &Policies,
    lookup: &dyn Lookup,
) -> Result<Vec<String>> {
    let judge = Judge { request, object, old, lookup };
    // Reviews are answered and not stored; a policy that denied them could lock everyone out.
    let is_review = matches!(request.group, "authentication.k8s.io" | "authorization.k8s.io");
    let (mut refusal, mut warnings) = (None, Vec::new());
    for policy in policies.policies.values().filter(|_| !is_review) {
        let Some(bindings) = policies.bindings.get(&policy.name) else { continue };
        let mut deny = |binding: Option<&str>, denial: &Denial| {
            let with = binding.map(|binding| format!(" with binding '{binding}'")).unwrap_or_default();
            let why = format!(
                "ValidatingAdmissionPolicy '{}'{with} denied request: {}",
                policy.name, denial.message
            );
            refusal.get_or_insert_with(|| judge.refusal(&why, denial.reason));
        };
        let criteria = Criteria::of_policy(&policy.constraints);
        let seen = match seen_as(request, object, old, criteria, lookup) {
            Ok(None) => continue,
            Ok(Some(seen)) => params::found(policy, lookup).map(|kind| (seen, kind)),
            Err(why) => Err(why.to_string()),
        };
        let (seen, kind) = match seen {
            Ok(seen) => seen,
            Err(_) if policy.fails_open => continue,
            Err(why) => {
                deny(None, &Denial::new(format!("failed to configure policy: {why}")));
                continue;
            }
        };
        for (name, binding) in bindings {
            match judge.decide(policy, &seen, kind.as_ref(), binding)? {
                Ok(denials) => {
                    for denial in denials {
                        for action in list(&binding["spec"]["validationActions"]) {
                            match action.as_str() {
                                Some("Deny") => deny(Some(name), &denial),
                                Some("Warn") => warnings.push(format!(
                                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{name}': {}",
                                    policy.name, denial.message
                                )),
                                // Nobody reads an audit log here.
                                _ => {}
                            }
                        }
                    }
                }
                Err(why) if !policy.fails_open => {
                    deny(Some(name), &Denial::new(format!("failed to configure binding: {why}")));
                }
                Err(_) => {}
            }
        }
    }
    refusal.map_or(Ok(warnings), Err)
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
    const METADATA: [&str; 12] = [
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "finalizers",
    ];
    let metadata = get(namespace, &["metadata"]).as_object().into_iter().flatten();
    let metadata = metadata.filter(|(key, _)| METADATA.contains(&key.as_str()));
    let metadata: serde_json::Map<String, Value> =
        metadata.map(|(key, value)| (key.clone(), value.clone())).collect();
    let part = |key: &str| namespace.get(key).cloned().unwrap_or_else(|| json!({}));
    json!({"metadata": metadata, "spec": part("spec"), "status": part("status")})
}
