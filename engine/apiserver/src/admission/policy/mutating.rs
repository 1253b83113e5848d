//! MutatingAdmissionPolicies: expressions in CEL that make a configuration to be applied, or a JSON patch, of what a request
//! is about to write.
//!
//! Policies come one after the other, by name, each with every binding and every object of parameters, and each sees what
//! those before it left. Once all who may change the object had their turn, those that ask for it (`reinvocationPolicy:
//! IfNeeded`) have a second one.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::frame::{Compiled, Frame};
use super::{ConditionsOutcome, Judge, Policies, is_review};
use crate::admission::matching::{Criteria, Seen, seen_as};
use crate::admission::{Attributes, Lookup, Operation, Served, about};
use crate::apply::overlay;
use crate::cel::request::{Facts, Known, Wanted, examine};
use crate::kinds::convert::convert;
use crate::kinds::walk::{list, text};
use crate::schema::Schema;
use crate::status::{Error, Result};

/// A mutating policy, compiled.
#[derive(Debug)]
pub(super) struct Mutating {
    pub(super) frame: Frame,
    mutations: Vec<Mutation>,
    reinvoked: bool,
    depth: usize,
}

#[derive(Debug)]
enum Mutation {
    Configuration(Compiled),
    Patch(Compiled),
}

impl Mutation {
    fn compile(mutation: &Value, known: &Known) -> Self {
        let source = |key: &str| text(&mutation[key], "expression").to_owned();
        match text(mutation, "patchType") {
            "JSONPatch" => Mutation::Patch(known.compile(&source("jsonPatch"), Wanted::Patch)),
            _ => Mutation::Configuration(known.compile(&source("applyConfiguration"), Wanted::Configuration)),
        }
    }

    fn compiled(&self) -> &Compiled {
        match self {
            Mutation::Configuration(compiled) | Mutation::Patch(compiled) => compiled,
        }
    }
}

impl Mutating {
    pub(super) fn compile(name: &str, policy: &Value) -> Self {
        let (frame, known) = Frame::compile(name, policy);
        let mutations: Vec<Mutation> =
            list(&policy["spec"]["mutations"]).iter().map(|one| Mutation::compile(one, &known)).collect();
        let depth = frame.depth(mutations.iter().map(Mutation::compiled));
        let reinvoked = text(&policy["spec"], "reinvocationPolicy") == "IfNeeded";
        Mutating { frame, mutations, reinvoked, depth }
    }
}

/// How objects are typed, and what becomes of one that was changed.
pub(crate) trait Typing {
    /// How objects of a kind look.
    fn schema(&self, group: &str, version: &str, kind: &str) -> Option<Schema>;

    /// A changed object, decoded and defaulted like what a client sends.
    fn again(&self, changed: Value) -> Result<Value>;
}

/// A policy, a binding and the object of parameters, if there is one.
type Key = (String, String, Option<(String, String)>);

/// What the first turn of a request leaves for the second.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    second: bool,
    reinvoked: BTreeSet<Key>,
}

impl Turns {
    /// From now on only those have a turn that had one already and ask for another.
    pub(crate) fn begin_second(&mut self) {
        self.second = true;
    }

    /// Whether anybody asks for a second turn.
    pub(crate) fn is_second_wanted(&self) -> bool {
        !self.reinvoked.is_empty()
    }
}

/// Has all policies that are bound and see the request change its object.
pub(crate) fn mutate(
    request: &Attributes<'_>,
    object: &mut Value,
    old: Option<&Value>,
    policies: &Policies,
    lookup: &dyn Lookup,
    typing: &dyn Typing,
    turns: &mut Turns,
) -> Result<()> {
    if is_review(request) || !matches!(request.operation, Operation::Create | Operation::Update) {
        return Ok(());
    }
    let mut faults = Vec::new();
    let invocations = invocations(request, object, old, policies, lookup, &mut faults);
    for invocation in &invocations {
        let key = invocation.key();
        if turns.second && !turns.reinvoked.contains(&key) {
            continue;
        }
        let invoked = invocation.invoke(request, object, old, lookup, typing, &mut faults)?;
        if invoked && invocation.policy.reinvoked {
            turns.reinvoked.insert(key);
        }
    }
    refusal(request, object, faults).map_or(Ok(()), Err)
}

/// Why a policy could not have its say.
struct Fault {
    message: String,
    reason: Option<&'static str>,
}

/// The refusal that faults lead to. The first one counts, and all are told.
fn refusal(request: &Attributes<'_>, object: &Value, faults: Vec<Fault>) -> Option<Error> {
    let first = faults.first()?;
    let mut refusal = request.forbidden(object, "admission request denied by policy");
    refusal.message.clone_from(&first.message);
    refusal.reason = first.reason.unwrap_or(refusal.reason);
    if let Some(details) = &mut refusal.details {
        details["causes"] = faults.iter().map(|fault| json!({"message": fault.message})).collect();
    }
    Some(refusal)
}

/// One policy that a binding brings to bear, with one object of parameters.
struct Invocation<'a> {
    policy: &'a Mutating,
    binding: &'a str,
    seen: Seen,
    params: Option<Value>,
}

fn invocations<'a>(
    request: &Attributes<'_>,
    object: &Value,
    old: Option<&Value>,
    policies: &'a Policies,
    lookup: &dyn Lookup,
    faults: &mut Vec<Fault>,
) -> Vec<Invocation<'a>> {
    let judge = Judge { request, object: Some(object), old, lookup };
    let mut invocations = Vec::new();
    for policy in policies.mutating.policies.values() {
        let frame = &policy.frame;
        let Some(bindings) = policies.mutating.bindings.get(&frame.name) else { continue };
        let mut fault = |by: String, why: String| {
            if !frame.fails_open {
                faults.push(Fault { message: format!("policy {by} denied request: {why}"), reason: None });
            }
        };
        let criteria = Criteria::of_policy(&frame.constraints);
        let seen = match seen_as(request, Some(object), old, criteria, lookup) {
            Ok(None) => continue,
            Ok(Some(seen)) => super::params::found(frame, lookup).map(|kind| (seen, kind)),
            Err(why) => Err(why.to_string()),
        };
        let (seen, params_of): (Seen, Option<Served>) = match seen {
            Ok(seen) => seen,
            Err(why) => {
                fault(format!("{:?}", frame.name), format!("failed to configure policy: {why}"));
                continue;
            }
        };
        for (name, binding) in bindings {
            match judge.params(frame, params_of.as_ref(), binding) {
                Ok(found) => invocations.extend(found.into_iter().map(|params| Invocation {
                    policy,
                    binding: name,
                    seen: seen.clone(),
                    params,
                })),
                Err(why) => {
                    let by = format!("'{}' with binding '{name}'", frame.name);
                    fault(by, format!("failed to configure binding: {why}"));
                }
            }
        }
    }
    invocations
}

impl Invocation<'_> {
    fn key(&self) -> Key {
        let params = self.params.as_ref().map(|params| {
            let meta = &params["metadata"];
            (text(meta, "namespace").to_owned(), text(meta, "name").to_owned())
        });
        (self.policy.frame.name.clone(), self.binding.to_owned(), params)
    }

    /// Has the policy change the object; whether it was asked to.
    fn invoke(
        &self,
        request: &Attributes<'_>,
        object: &mut Value,
        old: Option<&Value>,
        lookup: &dyn Lookup,
        typing: &dyn Typing,
        faults: &mut Vec<Fault>,
    ) -> Result<bool> {
        let frame = &self.policy.frame;
        let mut fault = |why: String| {
            if !frame.fails_open {
                let by = format!("policy '{}' with binding '{}'", frame.name, self.binding);
                faults
                    .push(Fault { message: format!("{by} denied request: {why}"), reason: Some("Invalid") });
            }
        };
        let namespace = Judge { request, object: Some(object), old, lookup }.namespace()?;
        let about = about::request(request, &self.seen, request.name);
        let old = old.map(|old| about::shown(old, &self.seen));
        let mut shown = about::shown(object, &self.seen);
        let facts = |object: &Value, ask: &mut dyn FnMut(&Facts<'_>)| {
            ask(&Facts {
                request: &about,
                object: Some(object),
                old: old.as_ref(),
                namespace: namespace.as_ref(),
                params: self.params.as_ref(),
                authority: request.authority,
            });
        };
        let mut outcome = ConditionsOutcome::Holds;
        facts(&shown, &mut |facts| outcome = frame.conditions.outcome(facts));
        match outcome {
            ConditionsOutcome::Holds => {}
            ConditionsOutcome::Fails => return Ok(false),
            ConditionsOutcome::Unknown(why) => {
                fault(why);
                return Ok(false);
            }
        }
        for mutation in &self.policy.mutations {
            let mut made = Err(String::new());
            facts(&shown, &mut |facts| made = self.made(mutation, facts));
            let changed = made.and_then(|made| self.changed(mutation, &shown, made, typing));
            match changed {
                Ok(None) => {}
                Ok(Some(changed)) => {
                    let (group, version) = (request.group, request.version);
                    let (from, kind) = (&self.seen, text(&changed, "kind").to_owned());
                    let own = convert(&from.group, &from.version, &kind, changed, group, version);
                    *object = typing.again(own)?;
                    shown = about::shown(object, &self.seen);
                }
                Err(why) => fault(why),
            }
        }
        Ok(true)
    }

    /// What a mutation makes: a configuration, or a patch.
    fn made(&self, mutation: &Mutation, facts: &Facts<'_>) -> std::result::Result<Value, String> {
        let expression =
            mutation.compiled().as_ref().map_err(|why| format!("compilation error: {}", why.why))?;
        examine(facts, self.policy.depth, |examination| {
            self.policy.frame.define_variables(examination);
            examination.made(expression)
        })
    }

    /// The object with what was made put into effect; nothing if that changes nothing.
    fn changed(
        &self,
        mutation: &Mutation,
        object: &Value,
        made: Value,
        typing: &dyn Typing,
    ) -> std::result::Result<Option<Value>, String> {
        match mutation {
            Mutation::Configuration(_) => {
                let Seen { group, version, kind, .. } = &self.seen;
                let schema = typing
                    .schema(group, version, kind)
                    .ok_or_else(|| format!("Resource kind {group}/{version}, Kind={kind} not found."))?;
                let mut configuration = made;
                for key in ["apiVersion", "kind"] {
                    configuration[key] = object[key].clone();
                }
                overlay(&schema, object, &configuration)
                    .map(Some)
                    .map_err(|why| format!("error applying patch: {why}"))
            }
            Mutation::Patch(_) => patched(object, made),
        }
    }
}

/// An object with a JSON patch carried out; nothing if one of its tests fails.
fn patched(object: &Value, patch: Value) -> std::result::Result<Option<Value>, String> {
    let patch: json_patch::Patch =
        serde_json::from_value(patch).map_err(|why| format!("JSON Patch: {why}"))?;
    let mut patched = object.clone();
    match json_patch::patch(&mut patched, &patch) {
        Ok(()) => Ok(Some(patched)),
        // What is not there fails a test, too.
        Err(error) if matches!(patch.0.get(error.operation), Some(json_patch::PatchOperation::Test(_))) => {
            Ok(None)
        }
        Err(error) => Err(format!("JSON Patch: {error}")),
    }
}
