//! Questions about rights: the review kinds, each a pure function from the request to its answer.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde_json::{Map, Value, json};

use super::identity::User;
use super::rbac::{Attributes, Decision, Found, Rules, authorize, joined};
use crate::context::Context;
use crate::field::{self, Path};
use crate::names;
use crate::status::{Error, Result};

const GROUP: &str = "authorization.k8s.io";

/// SelfSubjectAccessReview: may I?
pub fn self_access(body: Value, user: &User, rules: &dyn Rules) -> Result<Value> {
    let mut errors = check_spec(&body["spec"], Asker::Oneself);
    errors.extend(check_metadata(&body["metadata"], &[], "must be empty"));
    refuse(&errors)?;
    Ok(decided(body, user, rules))
}

/// SubjectAccessReview: may somebody?
pub fn access(body: Value, rules: &dyn Rules) -> Result<Value> {
    let mut errors = check_spec(&body["spec"], Asker::Named);
    errors.extend(check_metadata(&body["metadata"], &[], "must be empty"));
    refuse(&errors)?;
    let user = named_user(&body["spec"]);
    Ok(decided(body, &user, rules))
}

/// LocalSubjectAccessReview: may somebody in this namespace?
pub fn local_access(mut body: Value, namespace: &str, rules: &dyn Rules) -> Result<Value> {
    let own = text(&body["metadata"], "namespace");
    if !own.is_empty() && own != namespace {
        return Err(Error::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if !body["metadata"].is_object() {
        body["metadata"] = json!({});
    }
    body["metadata"]["namespace"] = namespace.into();

    let spec = &body["spec"];
    let mut errors = check_spec(spec, Asker::Named);
    errors.extend(check_metadata(&body["metadata"], &["namespace"], "must be empty except for namespace"));
    let asked = text(&spec["resourceAttributes"], "namespace");
    if spec["resourceAttributes"].is_object() && asked != namespace {
        let path = Path::new("spec.resourceAttributes.namespace");
        errors.push(field::Error::invalid(&path, asked, "must match metadata.namespace"));
    }
    if let Some(value) = shown_path(&spec["nonResourceAttributes"]) {
        let path = Path::new("spec.nonResourceAttributes");
        errors.push(field::Error::invalid(&path, value, "disallowed on this kind of request"));
    }
    refuse(&errors)?;
    let user = named_user(spec);
    Ok(decided(body, &user, rules))
}

/// SelfSubjectRulesReview: what all may I do in a namespace? This is what `kubectl auth can-i --list` shows.
pub fn self_rules(body: &Value, user: &User, rules: &dyn Rules) -> Result<Value> {
    let namespace = text(&body["spec"], "namespace");
    if namespace.is_empty() {
        return Err(Error::bad_request("no namespace on request"));
    }
    let (mut resources, mut paths, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    rules.visit(user, namespace, &mut |found| {
        match found {
            Found::Rule(rule, _) => {
                if !rule.resources.is_empty() {
                    resources.push(rule.resource_info());
                }
                if !rule.paths.is_empty() {
                    paths.push(rule.path_info());
                }
            }
            Found::Missing(role) => missing.push(role.not_found()),
        }
        ControlFlow::Continue(())
    });
    let mut status = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false});
    if !missing.is_empty() {
        status["evaluationError"] = joined(&missing).into();
    }
    Ok(json!({
        "kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1",
        "metadata": {}, "spec": {}, "status": status,
    }))
}

/// SelfSubjectReview: who am I?
pub fn self_subject(user: &User, context: &Context) -> Value {
    json!({
        "kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": context.now_seconds()},
        "status": {"userInfo": user.to_info()},
    })
}

/// Whose rights are asked about.
#[derive(PartialEq, Eq)]
enum Asker {
    Oneself,
    Named,
}

fn decided(mut body: Value, user: &User, rules: &dyn Rules) -> Value {
    let decision = authorize(&attributes(user, &body["spec"]), rules);
    let mut status = Map::new();
    status.insert("allowed".into(), decision.allowed().into());
    let (Decision::Allow { reason } | Decision::NoOpinion { reason }) = decision;
    for (key, words) in [("reason", reason), ("evaluationError", unread_selectors(&body["spec"]))] {
        if !words.is_empty() {
            status.insert(key.into(), words.into());
        }
    }
    body["status"] = Value::Object(status);
    body
}

fn attributes<'a>(user: &'a User, spec: &'a Value) -> Attributes<'a> {
    let resource = &spec["resourceAttributes"];
    if !resource.is_object() {
        let path = &spec["nonResourceAttributes"];
        return Attributes::path(user, text(path, "verb"), text(path, "path"));
    }
    let version = text(resource, "version");
    Attributes {
        version: if version.is_empty() { "*" } else { version },
        subresource: text(resource, "subresource"),
        namespace: text(resource, "namespace"),
        name: text(resource, "name"),
        ..Attributes::resource(
            user,
            text(resource, "verb"),
            text(resource, "group"),
            text(resource, "resource"),
        )
    }
}

fn named_user(spec: &Value) -> User {
    let extra = spec["extra"].as_object().into_iter().flatten();
    User {
        name: text(spec, "user").to_owned(),
        uid: text(spec, "uid").to_owned(),
        groups: strings(&spec["groups"]),
        extra: extra.map(|(key, values)| (key.clone(), strings(values))).collect::<BTreeMap<_, _>>(),
    }
}

/// The real server leaves the kind out of these errors.
fn refuse(errors: &[field::Error]) -> Result<()> {
    if errors.is_empty() { Ok(()) } else { Err(Error::invalid(GROUP, "", "", errors)) }
}

fn check_spec(spec: &Value, asker: Asker) -> Vec<field::Error> {
    let at = |name: &str| Path::new("spec").child(name);
    let mut errors = Vec::new();
    match (spec["resourceAttributes"].is_object(), shown_path(&spec["nonResourceAttributes"])) {
        (true, Some(value)) => {
            let why = "cannot be specified in combination with resourceAttributes";
            errors.push(field::Error::invalid(&at("nonResourceAttributes"), value, why));
        }
        (false, None) => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            errors.push(field::Error::invalid(&at("resourceAttributes"), Value::Null, why));
        }
        _ => {}
    }
    if asker == Asker::Named && text(spec, "user").is_empty() && strings(&spec["groups"]).is_empty() {
        errors.push(field::Error::invalid(
            &at("user"),
            "",
            "at least one of user or group must be specified",
        ));
    }
    for kind in [Selector::Field, Selector::Label] {
        let key = kind.key();
        let selector = &spec["resourceAttributes"][key];
        if selector.is_object() {
            errors.extend(check_selector(selector, kind, &Path::new("spec.resourceAttributes").child(key)));
        }
    }
    errors
}

/// Reviews are not stored: metadata other than `allowed` keys has no meaning.
fn check_metadata(metadata: &Value, allowed: &[&str], why: &str) -> Option<field::Error> {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    let ignored = |key: &str| key == "managedFields" || allowed.contains(&key);
    let filled = metadata.as_object()?.iter().any(|(key, value)| !ignored(key) && !empty(value));
    filled.then(|| field::Error::invalid(&Path::new("metadata"), metadata.clone(), why))
}

/// The attributes of a path the way errors show them: under the names that the real server's code has.
fn shown_path(attributes: &Value) -> Option<Value> {
    let shown = || json!({"Path": text(attributes, "path"), "Verb": text(attributes, "verb")});
    attributes.is_object().then(shown)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Selector {
    Field,
    Label,
}

impl Selector {
    fn key(self) -> &'static str {
        match self {
            Selector::Field => "fieldSelector",
            Selector::Label => "labelSelector",
        }
    }
}

fn check_selector(selector: &Value, kind: Selector, path: &Path) -> Vec<field::Error> {
    let mut errors = Vec::new();
    let raw = text(selector, "rawSelector");
    let requirements = list(&selector["requirements"]);
    match (raw.is_empty(), requirements.is_empty()) {
        (false, false) => {
            let why = "may not specified at the same time as requirements";
            errors.push(field::Error::invalid(&path.child("rawSelector"), raw, why));
        }
        (true, true) => {
            let why = format!("when {path} is specified, requirements or rawSelector is required");
            errors.push(field::Error::required(&path.child("requirements"), why));
        }
        _ => {}
    }
    for (index, requirement) in requirements.iter().enumerate() {
        // No answer lists more.
        if errors.len() > field::MOST_FAULTS {
            break;
        }
        let path = path.child("requirements").index(index);
        let (key, values) = (text(requirement, "key"), strings(&requirement["values"]));
        if kind == Selector::Field && key.is_empty() {
            errors.push(field::Error::required(&path.child("key"), "must be specified"));
        }
        match text(requirement, "operator") {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(field::Error::required(&path.child("values"), why));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(field::Error::forbidden(&path.child("values"), why));
            }
            _ => {}
        }
        if kind == Selector::Label {
            let wrong = names::qualified_name(key).into_iter();
            errors.extend(wrong.map(|why| field::Error::invalid(&path.child("key"), key, why)));
            for (index, value) in values.iter().enumerate() {
                let path = path.child("values").index(index);
                let wrong = names::label_value(value).into_iter();
                errors.extend(wrong.map(|why| field::Error::invalid(&path, value.as_str(), why)));
            }
        }
    }
    errors
}

/// Which selectors were not understood. Roles know nothing of selectors, so they decide nothing here, but
/// whoever asked wants to hear of it.
fn unread_selectors(spec: &Value) -> String {
    let words = [Selector::Field, Selector::Label].into_iter().filter_map(|kind| {
        let requirements = list(&spec["resourceAttributes"][kind.key()]["requirements"]);
        let read = |one: &&Value| match (kind, text(one, "operator")) {
            (Selector::Field, "In" | "NotIn") => list(&one["values"]).len() == 1,
            (Selector::Field, _) => false,
            (Selector::Label, operator) => ["In", "NotIn", "Exists", "DoesNotExist"].contains(&operator),
        };
        let understood = requirements.iter().filter(read).count();
        let how = match understood {
            all if all == requirements.len() => return None,
            0 => "ignored",
            _ => "partially ignored",
        };
        Some(format!("spec.resourceAttributes.{} {how} due to parse error", kind.key()))
    });
    words.collect::<Vec<_>>().join("; ")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn strings(value: &Value) -> Vec<String> {
    list(value).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
